//! Regions of an arena that this process is the producer of.

use super::records::Found;
use super::{Arena, ArenaLeases, Owned, Shared, exclusively};
use crate::error::{Error, Result};
use crate::place::names;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};
use stillframe_kernel::points;
use stillframe_segment::arena::{self, chunk_of, record};

impl Arena {
    /// Takes the producer's lock of a region that is there: `None` if there is none, and `Some(None)` if somebody else has the
    /// lock.
    pub(crate) fn try_claim(&self, name: &str) -> Result<Option<Option<Claimed>>> {
        let shared = &self.shared;
        while let Some((number, known)) = shared.look_up(name)? {
            if !shared.try_produce_there(number)? {
                return Ok(Some(None));
            }
            if shared.is_half_done() {
                shared.end_producing(number);
                shared.change(|_| Ok(()))?;
                continue;
            }
            let claimed = Claimed::new(shared, name, number, known.generation);
            if shared.is_current(number, known.generation)
                && shared.look_up(name)?.is_some_and(|found| found.0 == number)
            {
                return Ok(Some(Some(claimed)));
            }
        }
        Ok(None)
    }

    /// Becomes the producer of a region, which is made if there is none of the name. Waits for another producer at most for
    /// `patience`.
    pub(crate) fn claim(&self, name: &str, patience: Duration) -> Result<Claimed> {
        names::region_dir(std::path::Path::new(""), names::shown_name(name))?;
        self.claim_any(name, patience)
    }

    /// As [`claim`](Arena::claim), of any name: also one that nobody is shown.
    pub(super) fn claim_any(&self, name: &str, patience: Duration) -> Result<Claimed> {
        let begin = Instant::now();
        let shared = &self.shared;
        shared.producers()?;
        if !arena::is_name(name) {
            return Err(Error::BadName {
                name: name.into(),
                what: "region",
                why: "it is too long for an arena".into(),
            });
        }
        loop {
            let Some((number, known)) = shared.look_up(name)? else {
                shared.check_neighbours(name)?;
                match shared.change(|changes| shared.create(changes, name))? {
                    Some((number, generation)) => return Ok(Claimed::new(shared, name, number, generation)),
                    None => continue,
                }
            };
            if shared.try_produce_there(number)? {
                if shared.is_half_done() {
                    shared.end_producing(number);
                    shared.change(|_| Ok(()))?;
                    continue;
                }
                let is_named = shared.look_up(name)?.is_some_and(|found| found.0 == number);
                if is_named && shared.is_current(number, known.generation) {
                    shared.record_word(number, record::PID_AT).store(std::process::id(), Relaxed);
                    points::hit("arena.claim.done");
                    return Ok(Claimed::new(shared, name, number, known.generation));
                }
                shared.end_producing(number);
                continue;
            }
            if begin.elapsed() >= patience {
                return Err(Error::in_use(name, known.pid));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Shared {
    /// Takes the producer's lock of a region, as [`try_produce`](Shared::try_produce), in an arena that is still there. Who removes
    /// the arena has had the locks of all regions.
    fn try_produce_there(&self, region: u32) -> Result<bool> {
        let is_had = self.try_produce(region)?;
        if is_had && let Err(error) = self.check_there() {
            self.end_producing(region);
            return Err(error);
        }
        Ok(is_had)
    }
}

/// A region whose producer this is, until it is dropped.
#[derive(Debug)]
pub(crate) struct Claimed {
    leases: ArenaLeases,
    /// Whether the lock goes when this does.
    is_producing: bool,
    /// The small chunk in which pages were taken last.
    near: AtomicU32,
}

impl Claimed {
    pub(super) fn new(shared: &Arc<Shared>, name: &str, number: u32, generation: u32) -> Claimed {
        let leases = ArenaLeases::new(shared, name, number, generation);
        Claimed { leases, is_producing: true, near: AtomicU32::new(0) }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        self.leases.shared()
    }

    pub(crate) fn number(&self) -> u32 {
        self.leases.number()
    }

    pub(crate) fn name(&self) -> &str {
        self.leases.name()
    }

    #[cfg(test)]
    pub(super) fn generation(&self) -> u32 {
        self.found().generation
    }

    /// The region, as others find it by its name; without its head.
    pub(crate) fn found(&self) -> Found {
        Found { number: self.number(), generation: self.leases.generation(), head_at: None }
    }

    /// The region's leases.
    pub(crate) fn leases(&self) -> &ArenaLeases {
        &self.leases
    }

    /// Gives the producer's lock back.
    pub(super) fn end(&mut self) {
        // Another thread may have the number and the lock next.
        if std::mem::take(&mut self.is_producing) {
            self.shared().end_producing(self.number());
        }
    }

    /// An error in a forked child, which has no lock.
    fn check(&self) -> Result<(&Shared, u32)> {
        let shared = self.shared();
        shared.producers()?;
        Ok((shared, self.number()))
    }

    /// Says in which page the region's head begins.
    pub(crate) fn set_head(&self, page: u32) -> Result<()> {
        let (shared, region) = self.check()?;
        shared.check_chunk(chunk_of(page))?;
        shared.record_word(region, record::HEAD_PAGE_AT).store(page, Release);
        Ok(())
    }

    /// Takes chunks: in one run if there is one, else in several. They have no memory yet, but on hugetlbfs, and read as
    /// zeros.
    ///
    /// # Errors
    /// [`Error::ArenaFull`] if there are not as many; [`Error::NoSpace`] if there are no large pages.
    pub(crate) fn take_chunks(&self, count: u32) -> Result<Vec<Range<u32>>> {
        let (shared, region) = self.check()?;
        shared.take_chunks(region, count)
    }

    /// Takes a run of 1 to 512 pages of one chunk that is shared with other regions. They have no memory yet, but on
    /// hugetlbfs, and read as zeros.
    ///
    /// # Errors
    /// As [`take_chunks`](Claimed::take_chunks).
    pub(crate) fn take_pages(&self, count: u32) -> Result<Range<u32>> {
        let (shared, region) = self.check()?;
        let pages = shared.take_pages(region, count, self.near.load(Relaxed))?;
        self.near.store(chunk_of(pages.start), Relaxed);
        Ok(pages)
    }

    /// Gives chunks back, and their memory.
    pub(crate) fn give_back_chunks(&self, mut chunks: Range<u32>) -> Result<()> {
        let (shared, region) = self.check()?;
        chunks.try_for_each(|chunk| shared.give_back_chunk(region, chunk))
    }

    /// Gives pages back, and their memory but on hugetlbfs.
    pub(crate) fn give_back_pages(&self, pages: Range<u32>) -> Result<()> {
        let (shared, region) = self.check()?;
        shared.give_back_pages(region, pages)
    }

    /// What the region owns, also what a producer took that died before it noted that anywhere.
    pub(crate) fn owned(&self) -> Result<Owned> {
        let (shared, region) = self.check()?;
        exclusively(&shared.search, |_| {
            let owned = shared.owned(region)?;
            shared.narrow_span(region, &owned);
            Ok(owned)
        })
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.end();
    }
}
