//! Elements of an object for `still get`.

use super::elements::Elements;
use super::variable::Chosen;
use crate::context::Context;
use crate::failure::Failure;
use crate::selection::Selection;
use std::time::Duration;
use stillframe::inspect;
use stillframe_object::Object;

/// What was read of an object.
pub struct Answer {
    pub selection: Selection,
    pub elements: Elements,
    /// When the last writer published the version, in nanoseconds since 1970; none of the initial one, or if it went meanwhile.
    pub published_ns: Option<u64>,
}

/// Reads what `text` selects, in full or, where `shorten` says so, abbreviated.
pub fn read(
    context: &Context,
    object: &Object,
    text: &str,
    version: Option<u64>,
    wait: Duration,
    shorten: impl Fn(&Selection) -> Selection,
) -> Result<Answer, Failure> {
    let chosen = Chosen::resolve(text, object.schema().dataset())?;
    let elements = Elements::read(object, &chosen, &shorten(&chosen.selection), version, wait)?;
    let published_ns = published_ns(context, object, elements.version)?;
    Ok(Answer { selection: chosen.selection, elements, published_ns })
}

fn published_ns(context: &Context, object: &Object, version: u64) -> Result<Option<u64>, Failure> {
    let of_one = |region: &str| {
        // One that went away meanwhile says nothing.
        let region = inspect::region(&context.dir, region).ok()?;
        Some(region.versions.iter().find(|info| info.version == version)?.published_ns)
    };
    Ok(object.writers()?.iter().filter_map(|info| of_one(&info.region)).max())
}
