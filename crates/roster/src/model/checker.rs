//! A search through all states of a small world.

use std::{
    collections::{HashSet, VecDeque},
    rc::Rc,
};

use super::{
    actions::Action,
    world::{INITIAL, Setup, World},
};
use crate::{
    readiness::Readiness,
    writer::{Node, Version},
};

/// What a search came to.
#[derive(Debug)]
pub struct Explored {
    pub states: usize,
    /// States from which the world was let go on to its end.
    pub finished: usize,
    /// The newest version that was complete in any of these ends.
    pub newest: Version,
}

/// How a state was come to.
struct Path {
    action: Action,
    before: Option<Rc<Path>>,
}

fn describe(path: Option<&Rc<Path>>, last: Option<Action>) -> String {
    let mut actions: Vec<Action> = last.into_iter().collect();
    let mut path = path;
    while let Some(step) = path {
        actions.push(step.action);
        path = step.before.as_ref();
    }
    actions.iter().rev().map(|action| format!("\n  {action:?}")).collect()
}

/// From one of so many states the world goes on to its end; from more of them where a rule is broken, which few ends may show.
const ENDS: u64 = 64;
const ENDS_OF_BROKEN: u64 = 4;

/// Looks at all states, or at most so many, those that are reached by fewer steps first. The error says what is wrong, and what led there.
pub fn explore(setup: &Setup, states_max: usize) -> Result<Explored, String> {
    let first = World::new(setup)?;
    let mut known = HashSet::from([first.fingerprint()]);
    let mut open = VecDeque::from([(first, None::<Rc<Path>>)]);
    let (mut finished, mut newest) = (0, INITIAL);
    let ends = if setup.bug.is_some() { ENDS_OF_BROKEN } else { ENDS };
    while let Some((world, path)) = open.pop_front() {
        let print = world.fingerprint();
        if print.is_multiple_of(ends) {
            finished += 1;
            let mut end = world.clone();
            end.finish(setup)
                .and_then(|()| check_end(setup, &end))
                .map_err(|wrong| format!("{wrong}, in the end, after{}", describe(path.as_ref(), None)))?;
            newest = newest.max(end.seen.newest());
        }
        for action in world.actions(setup) {
            let mut next = world.clone();
            next.act(setup, action)
                .map_err(|wrong| format!("{wrong}, after{}", describe(path.as_ref(), Some(action))))?;
            if known.len() < states_max && known.insert(next.fingerprint()) {
                open.push_back((next, Some(Rc::new(Path { action, before: path.clone() }))));
            }
        }
    }
    Ok(Explored { states: known.len(), finished, newest })
}

/// In the end what can be complete is, all know it, and who waits for what cannot be had is told.
fn check_end(setup: &Setup, world: &World) -> Result<(), String> {
    let newest = world.seen.newest();
    let live = || world.runtimes.iter().enumerate().filter_map(|(node, one)| Some((node, one.as_ref()?)));
    for (node, runtime) in live() {
        // What a former home announced of its own, after its nodes had left it, may be lost.
        let version = runtime.announced().version;
        if world.apart.contains(&node) {
            // It hears nothing.
            continue;
        }
        // One that is gone may have been complete at a home that was lost, and is nobody's: who goes on begins above it.
        let is_right = if runtime.announced().is_gone() { version >= newest } else { version == newest };
        if !is_right && !world.has_lost(newest) {
            return Err(format!("node {node} knows of version {version}, and {newest} is complete"));
        }
        let nodes = runtime.announced().nodes.iter().copied();
        let missing: Vec<Node> = nodes.filter(|of| !pins(world, *of, version)).collect();
        let told: Vec<Node> = match world.seen.unpinned.get(&node) {
            Some((of, nodes)) if *of == version => nodes.iter().map(|one| one.node).collect(),
            _ => Vec::new(),
        };
        // Of a node that is cut off nobody knows what it pins.
        if told != missing && world.apart.is_empty() {
            return Err(format!(
                "of version {version} node {node} is told that {told:?} do not pin it: {missing:?} do not"
            ));
        }
    }
    let whole = world.seen.published.iter().map(|(_, version)| *version).filter(|version| {
        let is_there = |writer: &usize| {
            let runtime = world.runtimes[setup.writers[*writer].node].as_ref();
            runtime.is_some_and(|runtime| runtime.has(world.writer(setup, *writer), *version))
        };
        let published = |writer: &usize| world.seen.published.contains(&(*writer, *version));
        let mut rosters = setup.rosters(*version).iter();
        rosters.any(|roster| roster.iter().all(|writer| is_there(writer) && published(writer)))
    });
    if let Some(whole) =
        whole.max().filter(|whole| !setup.may_be_stuck && *whole > newest && !world.seen.has_yielded(*whole))
    {
        return Err(format!("version {whole} is there, and is never complete"));
    }
    for (reader, (node, version, ..)) in setup.wants.iter().enumerate() {
        if world.runtimes[*node].is_none() {
            continue;
        }
        let has_died = (0..setup.writers.len()).any(|writer| world.is_dead(writer, setup));
        match world.seen.told.get(&reader) {
            None => return Err(format!("reader {reader} is told nothing")),
            Some(Readiness::Waiting(shares)) => {
                // Nobody knows of a writer that died with its node before it had said anything.
                let is_unknown = shares.iter().all(|share| share.who.is_none()) && has_died;
                if !is_unknown {
                    return Err(format!("reader {reader} waits for version {version} for ever: {shares:?}"));
                }
            }
            Some(Readiness::Lost(_) | Readiness::Ready(_)) => {}
        }
    }
    Ok(())
}

fn pins(world: &World, node: Node, version: u64) -> bool {
    world.runtimes[node.0 as usize].as_ref().is_some_and(|runtime| runtime.has_pinned(version))
}
