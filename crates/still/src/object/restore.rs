//! Checkpoints of objects, back into memory.

use super::open;
use crate::context::Context;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use stillframe::{Arena, Attributes, Observer, Region, Scalar};
use stillframe_checkpoint::{Reading, RestoreOptions, Restored};
use stillframe_object::{Description, assembly};

/// What a checkpoint says of the object that it is one of; `None` if it is of a region or group.
pub struct Told(Description);

impl Told {
    /// By the name of the region that was saved and its attributes, which any region may have.
    pub fn of(region: &str, attributes: &Attributes) -> Option<Told> {
        region.strip_prefix(assembly::ARENA)?.strip_prefix('/')?;
        let Some(Scalar::Text(text)) = attributes.get(assembly::TEXT) else { return None };
        let bindings = match attributes.get(assembly::BINDINGS) {
            Some(Scalar::Text(json)) => serde_json::from_str(json).ok()?,
            _ => BTreeMap::new(),
        };
        let initial = match attributes.get(assembly::INITIAL) {
            Some(Scalar::Int(initial)) => u64::try_from(*initial).ok()?,
            _ => 0,
        };
        Some(Told(Description { text: text.clone(), bindings, initial, id: NonZeroU64::MIN }))
    }
}

/// The name of the object, of that of the region that was saved.
pub fn name_of(region: &str) -> String {
    region.strip_prefix(assembly::ARENA).and_then(|rest| rest.strip_prefix('/')).unwrap_or(region).into()
}

/// Restores an object: first into memory of this process, and from there as one version of the object, whose only writer has left.
pub fn restore(
    context: &Context,
    store: &std::path::Path,
    options: RestoreOptions,
    name: &str,
    told: &Told,
    replace: bool,
    progress: &(dyn Fn(Reading) + Sync),
) -> Result<Restored, Failure> {
    let file = stillframe_kernel::folder::memory_file("still-restore")?;
    let arena = Arena::options().bytes(ARENA_BYTES).regions(8).from_descriptor(file.into(), assembly::ARENA)?;
    let restored = options.restore_newest(store, &Region::options().arena(&arena), name, progress)?;
    let snapshot = Observer::options().arena(&arena).open(name)?.newest()?;
    let Told(description) = told;
    assembly::check(name, description, &snapshot)?;
    // Until here nobody sees anything of it, and nothing is changed.
    let objects = open(context)?;
    if replace && objects.names().get(name)?.is_some() {
        objects.remove(name, false)?;
    }
    let mut create = objects.create(name, &description.text).initial(description.initial);
    for (name, value) in &description.bindings {
        create = create.bind(name, *value);
    }
    create.create()?.adopt(&snapshot)?;
    Ok(restored)
}

/// Addresses for one version, of which only as many get memory as it has bytes.
const ARENA_BYTES: u64 = 1 << 40;
