//! What all handles of an object in this process have in common.

use crate::bell::Bell;
use crate::board::Board;
use crate::description::{Description, TEXT_BYTES_MAX};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::hints::{self, Hints};
use crate::interrupt::Interrupt;
use crate::names::Names;
use crate::space::Space;
use drepl::{Bindings, Schema, View};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use stillframe::inspect::{RegionInfo, State};
use stillframe::{Arena, ArenaOptions, Observer, ObserverOptions, Trust, inspect};
use stillframe_roster::writer::{Node, Version};

/// The arena with the regions of all fragments.
pub(crate) const ARENA: &str = "objects";

/// In place of a fragment's number: the region in which the runtime of this node publishes the versions of which the home has said that
/// they are complete. It has no data, and stands for all fragments of other nodes.
pub(crate) const COMPLETE: u32 = u32::MAX;

/// This node. The number of a node that has a runtime is another one, and the others know it by that.
pub(crate) const HERE: Node = Node(0);

/// The objects of one directory.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) directory: Directory,
    pub(crate) bell: Bell,
    pub(crate) hints: Hints,
    pub(crate) trust: Trust,
    /// Whom the program said to trust, if it did.
    pub(crate) asked_trust: Option<Trust>,
    pub(crate) mode: u32,
    /// Asked while something is waited for.
    pub(crate) interrupt: Interrupt,
    pub(crate) arena_bytes: u64,
    pub(crate) arena_fragments: u32,
    /// Opened when it is needed first, and once for all.
    arena: Mutex<Option<Arena>>,
    looked: Mutex<Option<Arena>>,
    /// Of one that was opened to look: the same, opened to write when that was needed first.
    writing: Mutex<Option<Arc<Site>>>,
}

impl Site {
    pub(crate) fn new(
        directory: Directory,
        bell: Bell,
        trust: Trust,
        mode: u32,
        bytes: u64,
        regions: u32,
    ) -> Result<Site> {
        let (arena, looked) = (Mutex::new(None), Mutex::new(None));
        let (interrupt, hints) = (Interrupt::default(), Hints::open(&directory)?);
        let (arena_bytes, arena_fragments, asked_trust, writing) = (bytes, regions, None, Mutex::new(None));
        Ok(Site {
            directory,
            bell,
            hints,
            trust,
            asked_trust,
            mode,
            interrupt,
            arena_bytes,
            arena_fragments,
            arena,
            looked,
            writing,
        })
    }

    /// The same for who changes something: whoever opened it to look can tell nobody of that.
    pub(crate) fn writing(self: &Arc<Site>) -> Result<Arc<Site>> {
        if self.directory.is_writing() {
            return Ok(self.clone());
        }
        let mut kept = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(site) = &*kept {
            return Ok(site.clone());
        }
        let trust = inspect::trust_to_write(self.asked_trust)?;
        let directory = Directory::make(&self.directory.dir, self.mode, trust)?;
        let bell = Bell::open(&directory)?.unwrap_or_else(|| self.bell.clone());
        let site = Site::new(directory, bell, trust, self.mode, self.arena_bytes, self.arena_fragments)?;
        let interrupt = self.interrupt.clone();
        Ok(kept.insert(Arc::new(Site { interrupt, asked_trust: self.asked_trust, ..site })).clone())
    }

    fn options(&self) -> ArenaOptions {
        Arena::options().dir(&self.directory.dir).mode(self.mode).trust(self.trust)
    }

    /// The arena to make regions in, which is made if need be. One that is there has the size that it has.
    pub(crate) fn arena(&self) -> Result<Arena> {
        let mut kept = self.arena.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = &*kept {
            return Ok(arena.clone());
        }
        let options = || self.options().bytes(self.arena_bytes).regions(self.arena_fragments);
        let arena = match options().create(ARENA) {
            Err(stillframe::Error::BadOption { option: "bytes", .. }) => self.options().open(ARENA)?,
            other => other?,
        };
        *kept = Some(arena.clone());
        Ok(arena)
    }

    /// Looks at regions of the arena; by names within it.
    pub(crate) fn observing(&self) -> Result<ObserverOptions> {
        let mut kept = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let arena = match &*kept {
            Some(arena) => arena.clone(),
            None => kept.insert(self.options().look(ARENA)?).clone(),
        };
        Ok(Observer::options().arena(&arena).trust(self.trust))
    }
}

/// The object of which a region is a fragment, going by their names: `heat` of `objects/heat/3`.
pub fn owner_of(region: &str) -> Option<&str> {
    owner_in_arena(region.strip_prefix(ARENA)?.strip_prefix('/')?)
}

/// As [`owner_of`], of a name within the arena.
fn owner_in_arena(region: &str) -> Option<&str> {
    let (owner, last) = region.rsplit_once('/')?;
    is_fragment(last).then_some(owner)
}

/// Whether the last part of a region's name is that of a fragment.
pub(crate) fn is_fragment(part: &str) -> bool {
    // One to read that a runtime fills has an `r` before its number.
    let number = part.strip_prefix('r').unwrap_or(part);
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// The numbers of names that a text leaves open, as the layout language has them.
pub fn bindings(numbers: &BTreeMap<String, i64>) -> Bindings {
    numbers.iter().map(|(name, value)| (name.as_str(), *value)).collect()
}

fn regions_of(dir: &Path, name: &str) -> Result<Vec<RegionInfo>> {
    let mut regions = inspect::regions(&dir.join(ARENA))?;
    regions.retain(|region| owner_in_arena(&region.name) == Some(name));
    Ok(regions)
}

/// # Errors
/// [`Error::InUse`] if a process of this node writes fragments that the object of a name has, whatever its board says.
pub(crate) fn check_unwritten(site: &Site, name: &str) -> Result<()> {
    // What is complete a runtime publishes, which lives whoever writes.
    let complete = format!("/{COMPLETE}");
    let is_written = |region: &RegionInfo| region.state == State::Live && !region.name.ends_with(&complete);
    match regions_of(&site.directory.dir, name)?.into_iter().find(is_written) {
        Some(region) => {
            let who = format!("process {} ({ARENA}/{})", region.producer_pid, region.name);
            Err(Error::InUse { name: name.into(), who })
        }
        None => Ok(()),
    }
}

/// Removes the regions of all fragments that the object of a name has, whatever its board says.
pub(crate) fn remove_regions(site: &Site, name: &str) -> Result<()> {
    remove_regions_if(&site.directory.dir, site.trust, name, |_| true)
}

/// Removes what a runtime of this directory that was killed had filled for programs, of all objects. What cannot be removed is in nobody's way but
/// for its memory.
///
/// # Errors
/// Those of the directory.
pub(crate) fn remove_filled(site: &Site) -> Result<()> {
    let dir = &site.directory.dir;
    let is_filled = |region: &RegionInfo| {
        let last = region.name.rsplit_once('/').map_or("", |(_, last)| last);
        region.state != State::Live && last.starts_with('r') && is_fragment(last)
    };
    for region in inspect::regions(&dir.join(ARENA))?.iter().filter(|region| is_filled(region)) {
        let _ = inspect::remove_trusting(dir, &format!("{ARENA}/{}", region.name), false, Some(site.trust));
    }
    Ok(())
}

/// Removes the regions of all fragments that programs of this node wrote of an object of a name. What the runtime makes beside them stays: it
/// may be that of the next object of the name already.
pub(crate) fn remove_written(dir: &Path, trust: Trust, name: &str) -> Result<()> {
    let (complete, filled) = (format!("/{COMPLETE}"), format!("{name}/r"));
    remove_regions_if(dir, trust, name, |region| !region.ends_with(&complete) && !region.starts_with(&filled))
}

fn remove_regions_if(dir: &Path, trust: Trust, name: &str, is_one: impl Fn(&str) -> bool) -> Result<()> {
    for region in regions_of(dir, name)?.into_iter().filter(|region| is_one(&region.name)) {
        let name = format!("{ARENA}/{}", region.name);
        match inspect::remove_trusting(dir, &name, true, Some(trust)) {
            Ok(_) | Err(stillframe::Error::NoRegion { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// One object, as it is known here.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) description: Description,
    pub(crate) schema: Schema,
    pub(crate) space: Space,
    pub(crate) board: Board,
    pub(crate) bell: Bell,
    /// The object's bit.
    hint: usize,
    pub(crate) site: Arc<Site>,
}

impl Shared {
    /// `schema` is what the description says.
    pub(crate) fn new(
        site: &Arc<Site>,
        names: &Arc<dyn Names>,
        name: &str,
        description: Description,
        schema: Schema,
    ) -> Shared {
        let space = Space::new(schema.dataset());
        let board = Board::new(&site.directory, site.trust, names, name, description.id);
        let (bell, hint) = (site.bell.of(name), hints::bit_of(name));
        Shared { name: name.into(), description, schema, space, board, bell, hint, site: site.clone() }
    }

    /// The same for who changes something; see [`Site::writing`].
    pub(crate) fn writing(self: &Arc<Shared>) -> Result<Arc<Shared>> {
        if self.site.directory.is_writing() {
            return Ok(self.clone());
        }
        let (description, schema) = (self.description.clone(), self.schema.clone());
        Ok(Arc::new(Shared::new(&self.site.writing()?, self.board.names(), &self.name, description, schema)))
    }

    /// What the text of a fragment describes: a view, of which only the braces are needed, or the name of a view or replica
    /// that the object's own text declares.
    pub(crate) fn view(&self, text: &str, bindings: &Bindings) -> Result<View> {
        if let Some(view) = self.schema.view(text.trim()) {
            return Ok(view.clone());
        }
        if let Some(replica) = self.schema.replica(text.trim()) {
            let first = replica.views.first().map(|stored| &self.schema.views()[stored.view]);
            let layout = first.map(|view| view.layout).unwrap_or_default();
            let (name, fragment) = (Some(replica.name.clone()), replica.fragment.clone());
            return Ok(View { name, layout, default: false, readonly: replica.readonly, clipped: false, fragment });
        }
        let fault = |mistakes: String| Error::Text { name: self.name.clone(), what: "a fragment", mistakes };
        if text.len() > TEXT_BYTES_MAX {
            return Err(fault(format!("it has {} bytes, and at most {TEXT_BYTES_MAX} are read", text.len())));
        }
        self.schema.parse_view(text, bindings).map_err(|mistakes| fault(mistakes.to_string()))
    }

    /// The region of a fragment, within the arena.
    pub(crate) fn region(&self, number: u32) -> String {
        format!("{}/{number}", self.name)
    }

    /// The first number from this one on whose fragment has a region that no object, created before this one, is called by.
    pub(crate) fn free_number(&self, from: u32) -> Result<u32> {
        for number in from..COMPLETE {
            if !self.is_object(&number.to_string())? {
                return Ok(number);
            }
        }
        Err(self.board.corrupt(32, "all numbers of fragments are used up"))
    }

    /// Whether an object has the name that a fragment's region would have.
    pub(crate) fn is_object(&self, fragment: &str) -> Result<bool> {
        match self.board.names().get(&format!("{}/{fragment}", self.name)) {
            Ok(found) => Ok(found.is_some()),
            Err(Error::Corrupt { .. }) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The newest version that this node's runtime knows to be complete, whether its elements can still be had or not; the initial one
    /// without a runtime.
    pub(crate) fn newest_announced(&self) -> Result<Version> {
        let newest = self.observe_complete()?.and_then(|observer| observer.newest_number());
        Ok(newest.unwrap_or(self.description.initial))
    }

    /// Looks at the versions that this node's runtime knows to be complete; `None` if there is no such region, or if it is of a former
    /// object of the name, whose remover died.
    pub(crate) fn observe_complete(&self) -> Result<Option<Observer>> {
        let opened = self.site.observing().and_then(|options| Ok(options.open(&self.region(COMPLETE))?));
        // Each version says whose it is, also while a runtime takes the region over, or after it died of that.
        let is_own = |observer: &Observer| {
            observer.versions().last().is_none_or(|newest| newest.run == Some(self.description.id))
        };
        match opened {
            Ok(observer) => Ok(Some(observer).filter(is_own)),
            Err(Error::Region(stillframe::Error::NoRegion { .. } | stillframe::Error::NoArena { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Removes the region of a fragment; one that is gone is not missed.
    pub(crate) fn remove_region(&self, number: u32, force: bool) -> Result<()> {
        let name = format!("{ARENA}/{}", self.region(number));
        match inspect::remove_trusting(&self.site.directory.dir, &name, force, Some(self.site.trust)) {
            Ok(_) | Err(stillframe::Error::NoRegion { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Says to the runtime of this node, if there is one, that the object has news.
    pub(crate) fn give_hint(&self) {
        self.site.hints.give(self.hint);
    }

    /// An error if a wait is to end early.
    pub(crate) fn check_interrupt(&self) -> Result<()> {
        self.site.interrupt.check(&self.name)
    }

    pub(crate) fn scattered(&self) -> impl Fn(drepl::index_box::TooScattered) -> Error + '_ {
        |error| Error::Plan { name: self.name.clone(), why: error.to_string(), is_timeout: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragments_are_told_from_other_regions_by_their_names() {
        assert_eq!(owner_of("objects/heat/3"), Some("heat"));
        assert_eq!(owner_of("objects/run/heat/12"), Some("run/heat"));
        assert_eq!(owner_of("objects/heat/r3"), Some("heat"));
        for other in
            ["objects", "objects/3", "objects/heat/r", "objects/heat/rr3", "objects/heat/x", "heat/3", "objectsheat/3"]
        {
            assert_eq!(owner_of(other), None, "{other}");
        }
    }
}
