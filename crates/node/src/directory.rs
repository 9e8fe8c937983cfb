//! What a node's directory of objects says against what etcd says.
//!
//! While a runtime runs both have the same objects. When one begins they may not: etcd may have lost its data meanwhile, or programs created
//! objects before the directory had its first runtime; and others may have removed objects, or created them anew. Which of these it was,
//! the [epoch](crate::numbers) says in which etcd had all objects of the directory. Until etcd has them, this node claims the role of no
//! home and gives none up: what etcd does not know has no home on another node.

use crate::diagnostics;
use crate::error::Result;
use crate::numbers::Numbers;
use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::time::Duration;
use stillframe_etcd::EtcdNames;
use stillframe_object::relay::LocalFragment;
use stillframe_object::{Description, Objects};

/// How often it is looked at an object whose board somebody is changing, and how long to wait before the next time.
const LOOKS_MAX: u32 = 100;
const AGAIN: Duration = Duration::from_millis(10);

/// How long who has the board of an object is waited for that is to be removed.
const BOARD_LIMIT: Duration = Duration::from_secs(1);

/// Brings a directory into agreement with etcd before its runtime begins: nobody creates anything here meanwhile. `epoch_now` asks for the
/// epoch of etcd's data.
///
/// # Errors
/// Those of etcd, and of the directory as a whole. What is wrong with one object is said on standard error.
pub(crate) fn agree(
    objects: &Objects,
    names: &EtcdNames,
    numbers: &Numbers,
    epoch_now: impl Fn() -> stillframe_etcd::Result<Option<u64>>,
) -> Result<()> {
    // First: what is here then was in etcd before, or never.
    let mut all = described(objects)?;
    let mut kept = numbers.kept();
    kept.retain(|id| all.iter().any(|(_, own)| own.id.get() == *id));
    all.retain(|(_, own)| !kept.contains(&own.id.get()));
    if let Some(noted) = numbers.epoch() {
        let there = if all.is_empty() { BTreeMap::new() } else { names.ids()? };
        // Last: of data that etcd has lost until here nothing is missing.
        if epoch_now()? == Some(noted) {
            let gone = all.iter().filter(|one| is_gone(one, &there));
            let written = gone.filter(|(name, own)| remove(objects, name, own.id) == Outcome::Written);
            kept.extend(written.map(|(_, own)| own.id.get()));
            return numbers.note_kept(kept);
        }
    }
    let (epoch, mut is_clear) = (epoch_now()?, true);
    for ((name, own), put) in all.iter().zip(names.put_all(&all)) {
        match put {
            Ok(there) if there.id != own.id => match give_way(objects, name, own.id) {
                Outcome::Gone => {}
                Outcome::Written => _ = kept.insert(own.id.get()),
                Outcome::Unclear => is_clear = false,
            },
            Ok(_) => {}
            Err(error) if EtcdNames::is_unfit(&error) => say_unfit(name, &error),
            Err(error) => return Err(error.into()),
        }
    }
    // What is kept would be removed, or put in the place of another one, if it were not known for that.
    numbers.note_kept(kept)?;
    // Where it cannot be written, or it is not clear of one whether it may be removed, all are put there once more when the next runtime
    // begins.
    let _ = numbers.note_epoch(epoch.filter(|_| is_clear));
    Ok(())
}

/// All objects of a directory, but those whose names are damaged.
///
/// # Errors
/// Those of the directory: whoever left out what cannot be read just now would take it for removed later.
pub(crate) fn described(objects: &Objects) -> Result<Vec<(String, Description)>> {
    let mut described = Vec::new();
    for name in objects.list()? {
        match objects.names().get(&name) {
            Ok(Some(description)) => described.push((name, description)),
            // It was removed meanwhile, or nobody can read it ever.
            Ok(None) | Err(stillframe_object::Error::Corrupt { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(described)
}

/// Objects of a directory that etcd is to have again after a loss of its data, of which `known` says what the others know by a name; and
/// whether these are all that etcd may have. Not among them are those that are of this node alone, and `unremoved` ones, which were removed
/// and could not be removed here yet.
///
/// # Errors
/// Those of the directory.
pub(crate) fn to_put_back(
    objects: &Objects,
    numbers: &Numbers,
    unremoved: &BTreeSet<NonZeroU64>,
    known: impl Fn(&str) -> Option<NonZeroU64>,
) -> Result<(Vec<(String, Description)>, bool)> {
    let mut kept = numbers.kept();
    let (mut all, mut is_clear) = (Vec::new(), true);
    for (name, own) in described(objects)? {
        if kept.contains(&own.id.get()) || unremoved.contains(&own.id) {
            continue;
        }
        // What all others know by that name is theirs, though etcd has lost it: this one does not take its place.
        if known(&name).is_none_or(|known| known == own.id) {
            all.push((name, own));
        } else if matches!(look(objects, &name), Ok(Some(fragments)) if !fragments.is_empty()) {
            kept.insert(own.id.get());
        } else {
            is_clear = false;
        }
    }
    numbers.note_kept(kept)?;
    Ok((all, is_clear))
}

/// Whether etcd has objects of all these names, as far as it can take them; and whether they are the very ones. Of another one it tells
/// by itself.
pub(crate) fn are_put(all: &[(String, Description)], put: &[stillframe_object::Result<Description>]) -> (bool, bool) {
    let is_same = |(own, put): (&(String, Description), &stillframe_object::Result<Description>)| match put {
        Ok(there) => there.id == own.1.id,
        Err(_) => true,
    };
    let are_there = put.iter().all(|one| one.as_ref().err().is_none_or(EtcdNames::is_unfit));
    (are_there, are_there && all.iter().zip(put).all(is_same))
}

/// Whether etcd had an object of the directory and has it no more, or has another one of its name.
fn is_gone((name, own): &(String, Description), there: &BTreeMap<String, Option<NonZeroU64>>) -> bool {
    match there.get(name) {
        Some(Some(id)) => *id != own.id,
        // Somebody has damaged it: it may be the same.
        Some(None) => false,
        // One that etcd cannot take never was there.
        None => EtcdNames::is_fit(name, own),
    }
}

fn say_unfit(name: &str, error: &stillframe_object::Error) {
    diagnostics::report(format!("object '{name}' is one of this node alone: {error}"));
}

/// What became of an object that the other nodes do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// It is removed here, too.
    Gone,
    /// A program of this node writes it, or wrote it: it stays for good.
    Written,
    /// It could not be looked at or removed just now. The next runtime tries again.
    Unclear,
}

/// Removes an object, as others have, unless a program of this node writes it: etcd's data may have been put back from an old copy.
fn remove(objects: &Objects, name: &str, id: NonZeroU64) -> Outcome {
    // Writers of other nodes that this one has heard of say nothing: they are gone with the object.
    remove_unless(objects, name, id, |one| one.is_alive && one.left.is_none())
}

/// Removes an object in favour of the one of that name that the other nodes have, unless a program of this node has written it.
fn give_way(objects: &Objects, name: &str, id: NonZeroU64) -> Outcome {
    remove_unless(objects, name, id, |_| true)
}

/// Removes an object unless one of its fragments of this node is such a one.
fn remove_unless(objects: &Objects, name: &str, id: NonZeroU64, holds: impl Fn(&LocalFragment) -> bool) -> Outcome {
    let removed = match look(objects, name) {
        Ok(Some(fragments)) if fragments.iter().any(holds) => {
            say_kept(name);
            return Outcome::Written;
        }
        Ok(Some(_)) => objects.remove_id(name, id, BOARD_LIMIT).map_err(|error| error.to_string()),
        Ok(None) => Err("another process has had the lock of its board for long; it may be stopped".into()),
        // What cannot be understood may be anybody's.
        Err(error) => Err(error.to_string()),
    };
    match removed {
        Ok(()) => Outcome::Gone,
        Err(error) => {
            let why = "other nodes have it no more, or another one of that name, and it cannot be removed here now";
            let advice = format!("the next runtime here tries again, or remove it here: still rm '{name}'");
            diagnostics::report(format!("object '{name}': {why}: {error}; {advice}"));
            Outcome::Unclear
        }
    }
}

/// The fragments of this node's processes.
fn look(objects: &Objects, name: &str) -> stillframe_object::Result<Option<Vec<LocalFragment>>> {
    let mut relay = objects.object_named(name)?.relay();
    for _ in 0..LOOKS_MAX {
        match relay.look()? {
            // Somebody is changing the board just now.
            None => std::thread::sleep(AGAIN),
            some => return Ok(some),
        }
    }
    Ok(None)
}

fn say_kept(name: &str) {
    let why =
        "other nodes have it no more, or another one of that name, and programs of this node have written this one";
    let advice = format!("if it is not needed, remove it here: still rm '{name}'");
    diagnostics::report(format!("object '{name}' is one of this node alone: {why}; {advice}"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use stillframe_object::Names;

    fn described(id: u64) -> Description {
        Description {
            text: "var u [4] int64".into(),
            bindings: BTreeMap::new(),
            initial: 0,
            id: id.try_into().unwrap(),
        }
    }

    #[test]
    fn what_etcd_lost_just_now_is_put_there_and_what_others_removed_is_gone() {
        let child = stillframe_etcd::Child::options().start().unwrap();
        let place = tempfile::Builder::new().prefix("stillframe-test-agree-").tempdir_in("/dev/shm").unwrap();
        let objects = Objects::options().dir(place.path()).as_runtime().open().unwrap();
        for name in ["read", "written"] {
            objects.create(name, "var u [4] int64").create().unwrap();
        }
        let mut writer = objects.object_named("written").unwrap().write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        let numbers = Numbers::open(place.path(), 1);
        numbers.join(stillframe_roster::writer::Node(1)).unwrap();
        numbers.note_epoch(Some(7)).unwrap();
        let names = |prefix: &str| {
            stillframe_etcd::Etcd::options().prefix(prefix).endpoint(child.endpoint()).open().unwrap().names()
        };
        let own = names("own");
        agree(&objects, &own, &numbers, || Ok(Some(8))).unwrap();
        assert_eq!(objects.list().unwrap(), ["read", "written"]);
        assert_eq!((own.ids().unwrap().len(), numbers.epoch()), (2, Some(8)));
        // The same data, in which there is none of them.
        agree(&objects, &names("others"), &numbers, || Ok(Some(8))).unwrap();
        assert_eq!(objects.list().unwrap(), ["written"], "a program of this node writes it");
        assert_eq!((numbers.epoch(), numbers.kept().len()), (Some(8), 1));
        // It is one of this node alone from here on, also when nobody writes it any more, and where etcd's data are lost.
        writer.detach().unwrap();
        objects.create("other", "var u [4] int64").create().unwrap();
        for (prefix, epoch) in [("others", 8), ("more", 9)] {
            let there = names(prefix);
            agree(&objects, &there, &numbers, || Ok(Some(epoch))).unwrap();
            assert!(!there.ids().unwrap().contains_key("written"), "{prefix}");
            assert!(objects.list().unwrap().contains(&"written".into()), "{prefix}");
        }
        objects.remove("written", false).unwrap();
        agree(&objects, &names("more"), &numbers, || Ok(Some(9))).unwrap();
        assert_eq!(numbers.kept().len(), 0);
    }

    /// A directory with an object that others removed, or created anew, while it had no runtime.
    fn place(id: u64) -> (tempfile::TempDir, Objects, Numbers) {
        let place = tempfile::Builder::new().prefix("stillframe-test-agree-").tempdir_in("/dev/shm").unwrap();
        let objects = Objects::options().dir(place.path()).as_runtime().open().unwrap();
        objects.names().put("u", &described(id)).unwrap();
        let numbers = Numbers::open(place.path(), 1);
        numbers.join(stillframe_roster::writer::Node(1)).unwrap();
        (place, objects, numbers)
    }

    /// Has a file's lock as a program that is stopped, until it is dropped.
    fn lock(place: &tempfile::TempDir) -> std::fs::File {
        let path = place.path().join(".objects/boards/u");
        let file = std::fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        assert!(stillframe_kernel::lock::try_lock(&file, stillframe_kernel::lock::Kind::Write, 0, 1).unwrap());
        file
    }

    /// Of one that was written, and of one that nobody wrote; in the epoch that was noted, and in another one.
    #[test]
    fn what_cannot_be_removed_just_now_is_removed_when_the_next_runtime_begins() {
        let child = stillframe_etcd::Child::options().start().unwrap();
        for (number, (is_written, noted)) in [(false, 8), (false, 7), (true, 8)].into_iter().enumerate() {
            let (place, objects, numbers) = place(1);
            let prefix = format!("job{number}");
            let etcd = stillframe_etcd::Etcd::options().prefix(prefix).endpoint(child.endpoint()).open().unwrap();
            // Others have created another one of that name.
            etcd.names().put("u", &described(2)).unwrap();
            numbers.note_epoch(Some(noted)).unwrap();
            if is_written {
                let mut writer = objects.object_named("u").unwrap().write("{ var v = u }").attach().unwrap();
                writer.publish(1).unwrap();
                writer.detach().unwrap();
            }
            let agree = || agree(&objects, &etcd.names(), &numbers, || Ok(Some(8))).unwrap();
            let busy = lock(&place);
            agree();
            assert_eq!((objects.list().unwrap().len(), numbers.kept().len()), (1, 0), "{number}");
            drop(busy);
            agree();
            assert_eq!((objects.list().unwrap().len(), numbers.kept().len()), (0, 0), "{number}");
            assert_eq!(numbers.epoch(), Some(8), "{number}");
        }
    }

    #[test]
    fn what_is_damaged_is_left_out_and_what_cannot_be_read_now_is_not() {
        let (place, objects, _) = place(1);
        objects.create("v", "var u [4] int64").create().unwrap();
        let path = place.path().join(".objects/names/u");
        std::fs::write(&path, "{").unwrap();
        let names = |all: Vec<(String, Description)>| all.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(super::described(&objects).map(names).unwrap(), ["v"]);
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        super::described(&objects).map(names).unwrap_err();
    }

    /// The object that the others know by its name may not be in etcd yet.
    #[test]
    fn after_a_loss_all_is_put_back_but_what_the_others_know_otherwise_or_have_removed() {
        let (place, objects, numbers) = place(1);
        let put_back = |unremoved: &[u64], known: Option<u64>| {
            let unremoved = unremoved.iter().copied().filter_map(NonZeroU64::new).collect();
            let (all, is_clear) =
                to_put_back(&objects, &numbers, &unremoved, |_| known.and_then(NonZeroU64::new)).unwrap();
            (all.len(), is_clear, numbers.kept().len())
        };
        assert_eq!(put_back(&[], None), (1, true, 0));
        assert_eq!(put_back(&[], Some(1)), (1, true, 0));
        assert_eq!(put_back(&[1], None), (0, true, 0));
        assert_eq!(put_back(&[], Some(2)), (0, false, 0), "nobody has written it: the next runtime removes it");
        let mut writer = objects.object_named("u").unwrap().write("{ var v = u }").attach().unwrap();
        writer.publish(1).unwrap();
        let busy = lock(&place);
        assert_eq!(put_back(&[], Some(2)), (0, false, 0), "it cannot be seen now");
        drop(busy);
        assert_eq!(put_back(&[], Some(2)), (0, true, 1));
        assert_eq!(put_back(&[], None), (0, true, 1), "it is of this node alone from here on");
    }

    #[test]
    fn only_what_others_removed_is_gone() {
        let id = |id: u64| NonZeroU64::new(id);
        let there = [("same", id(1)), ("other", id(2)), ("damaged", None)].map(|(name, id)| (name.to_owned(), id));
        let there = BTreeMap::from(there);
        let is_gone = |name: &str| is_gone(&(name.to_owned(), described(1)), &there);
        assert_eq!(["same", "other", "damaged", "removed"].map(is_gone), [false, true, false, true]);
        assert!(!is_gone(&"u".repeat(100_000)), "etcd cannot have had it");
    }

    #[test]
    fn what_etcd_does_not_take_is_not_put_again_and_again() {
        let all = [1, 2].map(|id| (format!("u{id}"), described(id)));
        let text =
            || stillframe_object::Error::Text { name: "u2".into(), what: "the description", mistakes: "long".into() };
        let of_etcd = |error: stillframe_etcd::Error| Err(error.into());
        let hostile = || stillframe_etcd::Error::Hostile { key: "u2".into(), why: "it is damaged".into() };
        let away = || stillframe_etcd::Error::Gone { call: "create" };
        assert_eq!(are_put(&all, &[Ok(described(1)), Ok(described(2))]), (true, true));
        assert_eq!(are_put(&all, &[Ok(described(1)), Ok(described(7))]), (true, false));
        assert_eq!(are_put(&all, &[Ok(described(1)), Err(text())]), (true, true));
        assert_eq!(are_put(&all, &[Ok(described(1)), of_etcd(hostile())]), (true, true));
        assert_eq!(are_put(&all, &[Ok(described(1)), of_etcd(away())]), (false, false));
    }
}
