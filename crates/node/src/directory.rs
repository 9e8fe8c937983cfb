//! What a node's directory of objects says against what etcd says.
//!
//! While a runtime runs both have the same objects. When one begins they may not: etcd may have lost its data meanwhile, or programs created
//! objects before the directory had its first runtime; and others may have removed objects, or created them anew. Which of these it was,
//! the [epoch](crate::numbers) says in which etcd had all objects of the directory. Until etcd has them, this node claims the role of no
//! home and gives none up: what etcd does not know has no home on another node.

use crate::error::Result;
use crate::numbers::Numbers;
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::time::Duration;
use stillframe_etcd::EtcdNames;
use stillframe_object::relay::LocalFragment;
use stillframe_object::{Description, Objects};

/// How often it is looked at an object whose board somebody is changing, and how long to wait before the next time.
const LOOKS_MAX: u32 = 100;
const AGAIN: Duration = Duration::from_millis(10);

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
            kept.extend(gone.filter(|(name, _)| !remove(objects, name)).map(|(_, own)| own.id.get()));
            return numbers.note_kept(kept);
        }
    }
    let epoch = epoch_now()?;
    for ((name, own), put) in all.iter().zip(names.put_all(&all)) {
        match put {
            Ok(there) if there.id != own.id => {
                if !give_way(objects, name) {
                    kept.insert(own.id.get());
                }
            }
            Ok(_) => {}
            Err(error) if is_unfit(&error) => say_unfit(name, &error),
            Err(error) => return Err(error.into()),
        }
    }
    // What is kept would be removed, or put in the place of another one, if it were not known for that.
    numbers.note_kept(kept)?;
    // Where it cannot be written, all are put there once more when the next runtime begins.
    let _ = numbers.note_epoch(epoch);
    Ok(())
}

/// All objects of a directory, but those whose names are damaged.
///
/// # Errors
/// Those of the directory.
pub(crate) fn described(objects: &Objects) -> Result<Vec<(String, Description)>> {
    let names = objects.list()?;
    let described = names.into_iter().filter_map(|name| {
        let description = objects.names().get(&name).ok().flatten()?;
        Some((name, description))
    });
    Ok(described.collect())
}

/// Whether etcd has objects of all these names, as far as it can take them; and whether they are the very ones. Of another one it tells
/// by itself.
pub(crate) fn are_put(all: &[(String, Description)], put: &[stillframe_object::Result<Description>]) -> (bool, bool) {
    let is_same = |(own, put): (&(String, Description), &stillframe_object::Result<Description>)| match put {
        Ok(there) => there.id == own.1.id,
        Err(_) => true,
    };
    let are_there = put.iter().all(|one| one.as_ref().err().is_none_or(is_unfit));
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

/// Whether an object cannot be put into etcd, now or later: for what it is, or for what somebody has put in its place.
fn is_unfit(error: &stillframe_object::Error) -> bool {
    use std::error::Error;
    let of_etcd = || error.source().and_then(|source| source.downcast_ref::<stillframe_etcd::Error>());
    matches!(error, stillframe_object::Error::Text { .. })
        || matches!(of_etcd(), Some(stillframe_etcd::Error::Hostile { .. }))
}

fn say_unfit(name: &str, error: &stillframe_object::Error) {
    eprintln!("still node: object '{name}' is one of this node alone: {error}");
}

/// Removes an object, as others have, unless a program of this node writes it: etcd's data may have been put back from an old copy. Whether it is
/// gone.
fn remove(objects: &Objects, name: &str) -> bool {
    let fragments = look(objects, name);
    let is_free = |fragments: &[LocalFragment]| fragments.iter().all(|one| !one.is_alive || one.left.is_some());
    // What cannot be understood may be anybody's.
    if !matches!(&fragments, Ok(Some(fragments)) if is_free(fragments)) {
        say_kept(name);
        return false;
    }
    // Writers of other nodes that this one has heard of say nothing: they are gone with the object.
    match objects.remove(name, true) {
        Ok(()) => true,
        Err(error) => {
            let why = "other nodes have it no more, or another one of that name, and it cannot be removed here";
            eprintln!("still node: object '{name}': {why}: {error}");
            false
        }
    }
}

/// Removes an object in favour of the one of that name that the other nodes have, unless a program of this node has written it; whether it is
/// gone.
fn give_way(objects: &Objects, name: &str) -> bool {
    let fragments = look(objects, name);
    if matches!(fragments, Ok(Some(fragments)) if fragments.is_empty()) {
        return remove(objects, name);
    }
    say_kept(name);
    false
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
    eprintln!(
        "still node: object '{name}' is one of this node alone: {why}; if it is not needed, remove it here: still rm '{name}'"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

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
