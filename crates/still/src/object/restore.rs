//! Checkpoints of objects, back into memory.

use super::{PLACE, open};
use crate::context::Context;
use crate::failure::Failure;
use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZeroU64;
use std::path::Path;
use stillframe::inspect::{self, RegionInfo, State};
use stillframe::{Arena, Attributes, Observer, Region, Scalar, Snapshot};
use stillframe_checkpoint::{Reading, RestoreOptions, Restored};
use stillframe_kernel::space;
use stillframe_object::{Description, Error, Objects, assembly, owner_of};

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
            Some(Scalar::Text(digits)) => digits.parse().ok()?,
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
    store: &Path,
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
    let objects = open(context)?;
    let is_replacing = replace && objects.names().get(name)?.is_some();
    if is_replacing {
        check_room(&context.dir, name, &snapshot)?;
        // Until here nobody sees anything of it, and nothing is changed.
        objects.remove(name, false)?;
    }
    match put(&objects, name, description, &snapshot) {
        Ok(()) => Ok(restored),
        Err(failure) if is_replacing => Err(Failure::Problem(unreplaced(name, &failure))),
        Err(failure) => Err(failure),
    }
}

/// Why the object that a checkpoint was to replace is gone, and the version of the checkpoint not in its place.
fn unreplaced(name: &str, failure: &Failure) -> String {
    match failure {
        Failure::Object(error) if is_taken(error) => format!(
            "object '{name}' was removed to be replaced, and before the checkpoint was in its place programs attached to an object of \
             that name, which they go on with: end them, and restore the checkpoint again"
        ),
        failure => {
            format!(
                "{failure}; object '{name}' was removed to be replaced: see to that, and restore the checkpoint again"
            )
        }
    }
}

/// Whether a version cannot be put in an object's place because somebody else has come, whose the object is then.
fn is_taken(error: &Error) -> bool {
    matches!(error, Error::Survives { .. } | Error::Overlap { .. } | Error::NotAccepted { .. } | Error::Refused { .. })
}

/// Puts a version in the place of an object that nobody has written. On an error there is no object that was not there before.
fn put(objects: &Objects, name: &str, description: &Description, snapshot: &Snapshot) -> Result<(), Failure> {
    let mut create = objects.create(name, &description.text).initial(description.initial);
    for (name, value) in &description.bindings {
        create = create.bind(name, *value);
    }
    let (object, is_new) = create.create_or_find()?;
    let Err(error) = object.adopt(snapshot) else { return Ok(()) };
    if is_new
        && !is_taken(&error)
        && let Err(left) = objects.remove_unwritten(&object)
    {
        return Err(Failure::Problem(format!("{error}; the object that was made for it is left, for {left}")));
    }
    Err(error.into())
}

/// Refuses to take an object away for a version that there is no room for.
fn check_room(dir: &Path, name: &str, snapshot: &Snapshot) -> Result<(), Failure> {
    let needed_bytes = snapshot.variables().iter().map(|variable| variable.bytes as u64).fold(0, u64::saturating_add);
    let Some(free_bytes) = File::open(dir).ok().and_then(|dir| space::free_bytes(&dir)) else { return Ok(()) };
    let free_bytes = free_bytes.saturating_add(freed_bytes(dir, name));
    match needed_bytes <= free_bytes {
        true => Ok(()),
        false => {
            let (path, free_bytes) = (dir.into(), Some(free_bytes));
            Err(stillframe::Error::NoSpace { path, needed_bytes, free_bytes, lacks_inodes: false }.into())
        }
    }
}

/// Bytes that nobody has any more once an object is removed.
fn freed_bytes(dir: &Path, name: &str) -> u64 {
    let place = dir.join(PLACE);
    // Those of a runtime stay for as long as it has them, and versions that somebody holds until he lets go of them.
    let is_freed = |region: &&RegionInfo| {
        region.state != State::Live
            && owner_of(&format!("{PLACE}/{}", region.name)) == Some(name)
            && inspect::holders(&place, &region.name).is_ok_and(|holders| holders.is_empty())
    };
    let regions = inspect::regions(&place).unwrap_or_default();
    regions.iter().filter(is_freed).map(|region| region.allocated_bytes).fold(0, u64::saturating_add)
}

/// Addresses for one version, of which only as many get memory as it has bytes.
const ARENA_BYTES: u64 = 1 << 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const BYTES: u64 = 1 << 20;

    #[test]
    fn who_replaces_an_object_is_not_advised_to_replace_it() {
        let survives = || Failure::Object(Error::Survives { name: "u".into(), newest: 3 });
        let told = unreplaced("u", &survives());
        assert!(told.contains("programs attached") && !told.contains("--replace"), "{told}");
        assert!(survives().to_string().contains("--replace"));
        let other = unreplaced("u", &Failure::Problem("no room".into()));
        assert!(other.starts_with("no room; object 'u' was removed"), "{other}");
    }

    #[test]
    fn what_somebody_holds_of_an_object_is_not_free_when_that_is_removed() {
        let place = tempfile::Builder::new().prefix("stillframe-test-freed-").tempdir_in("/dev/shm").unwrap();
        let objects = Objects::options().dir(place.path()).open().unwrap();
        let object = objects.create("u", &format!("var u [{}] float64", BYTES / 8)).create().unwrap();
        let freed = || freed_bytes(place.path(), "u");
        let mut writer = object.write("{ var v = u }").attach().unwrap();
        writer.bytes_mut().unwrap().fill(1);
        writer.publish(1).unwrap();
        assert_eq!(freed(), 0, "its writer has it");
        writer.detach().unwrap();
        assert!(freed() >= BYTES, "{}", freed());
        let mut reader = object.read("{ var v = u }").attach().unwrap();
        reader.reattach(1, Duration::from_secs(60)).unwrap();
        assert!(reader.is_shown());
        assert_eq!(freed(), 0, "a reader holds it");
        drop(reader);
        assert!(freed() >= BYTES, "{}", freed());
        assert_eq!(freed_bytes(place.path(), "other"), 0);
    }
}
