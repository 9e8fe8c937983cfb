//! Elements of an object for `still get`.

use super::elements::Elements;
use super::variable::Chosen;
use crate::failure::Failure;
use crate::selection::Selection;
use std::time::Duration;
use stillframe_object::Object;

/// What was read of an object.
pub struct Answer {
    pub selection: Selection,
    pub elements: Elements,
}

/// Reads what `text` selects, in full or, where `shorten` says so, abbreviated.
pub fn read(
    object: &Object,
    text: &str,
    version: Option<u64>,
    wait: Duration,
    shorten: impl Fn(&Selection) -> Selection,
) -> Result<Answer, Failure> {
    let chosen = Chosen::resolve(text, object.schema().dataset())?;
    let elements = Elements::read(object, &chosen, &shorten(&chosen.selection), version, wait)?;
    Ok(Answer { selection: chosen.selection, elements })
}
