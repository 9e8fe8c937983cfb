//! `still rm` of an object, and what `still gc` removes of objects.

use super::{PLACE, find, look, open};
use crate::context::Context;
use crate::failure::Failure;
use std::collections::HashSet;
use stillframe::inspect;
use stillframe_object::{Error, Object, Objects, WriterInfo, owner_of};

/// What is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Region,
    Object,
}

impl Kind {
    /// What it is called in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Region => "region",
            Kind::Object => "object",
        }
    }
}

/// What became of a region or an object.
pub struct Outcome {
    pub kind: Kind,
    pub name: String,
    pub fate: Fate,
}

/// How it ended.
pub enum Fate {
    /// It is gone, and so many bytes are free.
    Removed(u64),
    /// It stays because others may need it: why.
    Kept(String),
    /// It could not be removed: why.
    Failed(String),
}

impl Fate {
    /// Of an attempt to remove something.
    pub fn of(removed: Result<u64, impl ToString>) -> Fate {
        match removed {
            Ok(bytes) => Fate::Removed(bytes),
            Err(error) => Fate::Failed(error.to_string()),
        }
    }
}

/// Removes the object that a name on the command line means, if it means one, with all that was published of it: its own name, and the bytes that
/// this frees as far as they are known. One that cannot be looked at, because what it is or who writes it cannot be understood, goes as well.
pub fn run(context: &Context, name: &str, is_forced: bool) -> Result<Option<(String, u64)>, Failure> {
    let is_damaged = |error: &Error| matches!(error, Error::Corrupt { .. } | Error::Text { .. });
    let (own, bytes) = match find(context, name) {
        Ok(None) => return Ok(None),
        Ok(Some(object)) => match object.writers() {
            Ok(infos) => (object.name().to_owned(), infos.iter().map(|info| allocated_bytes(context, info)).sum()),
            Err(error) if is_damaged(&error) => (object.name().to_owned(), 0),
            Err(error) => return Err(error.into()),
        },
        Err(Failure::Object(error)) if is_damaged(&error) => {
            let is_whole =
                look(context)?.is_some_and(|objects| objects.list().is_ok_and(|all| all.contains(&name.into())));
            let own = name.strip_prefix(PLACE).and_then(|rest| rest.strip_prefix('/')).filter(|_| !is_whole);
            (own.unwrap_or(name).to_owned(), 0)
        }
        Err(failure) => return Err(failure),
    };
    open(context)?.remove(&own, is_forced)?;
    Ok(Some((own, bytes)))
}

/// Whether a region is for objects alone to remove: it is a fragment of one that is there.
pub struct Owned(Option<Objects>);

impl Owned {
    /// Looks for objects.
    pub fn new(context: &Context) -> Result<Owned, Failure> {
        Ok(Owned(look(context)?))
    }

    /// The object of which a region is a fragment. An object that cannot be looked at keeps its fragments.
    pub fn owner<'a>(&self, region: &'a str) -> Option<&'a str> {
        let (objects, owner) = (self.0.as_ref()?, owner_of(region)?);
        let is_gone = matches!(objects.names().get(owner), Ok(None));
        (!is_gone).then_some(owner)
    }

    /// An object whose fragments lie in an arena of this name, if any do.
    pub fn first_of(&self, arena: &str) -> Result<Option<String>, Failure> {
        match &self.0 {
            Some(objects) if arena == PLACE => Ok(objects.list()?.into_iter().next()),
            _ => Ok(None),
        }
    }
}

/// Removes objects that nobody writes and nobody holds, where there is no other node whose programs may, and of the others what writers left that are gone and no complete
/// version needs. Or, dry, only says so.
pub fn collect(context: &Context, is_dry: bool) -> Result<Vec<Outcome>, Failure> {
    let Some(objects) = look(context)? else { return Ok(Vec::new()) };
    let free: HashSet<String> = inspect::collectable(&context.dir)?.into_iter().map(|info| info.name).collect();
    let mut outcomes = Vec::new();
    let names = objects.list()?;
    if names.is_empty() {
        return Ok(outcomes);
    }
    let nodes = objects.nodes().map(|nodes| nodes.map_or(1, |nodes| nodes.len())).map_err(|error| error.to_string());
    for name in names {
        let found = objects.object_named(&name).map_err(Failure::from);
        match found.and_then(|object| collect_one(context, &objects, &object, &free, &nodes, is_dry)) {
            Ok(some) => outcomes.extend(some),
            Err(Failure::Object(Error::NoObject { .. } | Error::Removed { .. })) => {}
            Err(failure) => {
                outcomes.push(Outcome { kind: Kind::Object, name, fate: Fate::Failed(failure.to_string()) });
            }
        }
    }
    Ok(outcomes)
}

/// `free` are the regions that nobody produces and nobody holds; `nodes` is how many nodes there are, or why that is not known. Who holds
/// what on others is not known here.
fn collect_one(
    context: &Context,
    objects: &Objects,
    object: &Object,
    free: &HashSet<String>,
    nodes: &Result<usize, String>,
    is_dry: bool,
) -> Result<Vec<Outcome>, Failure> {
    let before = object.writers()?;
    // One that nobody has written yet is only a name, and somebody may be about to attach.
    if before.is_empty() {
        return Ok(Vec::new());
    }
    let is_used = |info: &WriterInfo| info.is_alive || !free.contains(&info.region) && is_there(context, info);
    if !before.iter().any(is_used) {
        let name = object.name().to_owned();
        let fate = match nodes {
            Ok(0..=1) => {
                let bytes = before.iter().map(|info| allocated_bytes(context, info)).sum();
                if !is_dry {
                    objects.remove_object(object, false)?;
                }
                Fate::Removed(bytes)
            }
            Ok(_) => Fate::Kept(format!(
                "programs of other nodes may read it; to remove it from all of them: still rm '{name}'"
            )),
            Err(why) => Fate::Failed(why.clone()),
        };
        return Ok(vec![Outcome { kind: Kind::Object, name, fate }]);
    }
    // What goes is decided by what can be had here.
    let newest = object.versions()?.last().copied().unwrap_or(object.description().initial);
    let going: Vec<(&WriterInfo, u64)> = before
        .iter()
        .filter(|info| info.is_unneeded(newest))
        .map(|info| (info, allocated_bytes(context, info)))
        .collect();
    let mut gone: HashSet<u32> = going.iter().map(|(info, _)| info.number).collect();
    if !is_dry && !going.is_empty() {
        object.collect()?;
        let stays: HashSet<u32> = object.writers()?.iter().map(|info| info.number).collect();
        gone.retain(|number| !stays.contains(number));
    }
    let going = going.into_iter().filter(|(info, _)| gone.contains(&info.number));
    let outcome = |(info, bytes): (&WriterInfo, u64)| Outcome {
        kind: Kind::Region,
        name: info.region.clone(),
        fate: Fate::Removed(bytes),
    };
    Ok(going.map(outcome).collect())
}

/// Whether a fragment has a region still, be it one that cannot be read.
fn is_there(context: &Context, info: &WriterInfo) -> bool {
    !matches!(inspect::region(&context.dir, &info.region), Err(stillframe::Error::NoRegion { .. }))
}

fn allocated_bytes(context: &Context, info: &WriterInfo) -> u64 {
    inspect::region(&context.dir, &info.region).map_or(0, |region| region.allocated_bytes)
}
