//! Gathering what a recovered version has scattered.
//!
//! After many steps that write single pages, those of a window lie in two planes or more, in hundreds of pieces. To show
//! them as they lie takes a mapping for each piece; to copy the window takes memory for all of it. So the pages that lie
//! elsewhere are copied into the free slots of the plane that has most of the window, where there mostly is memory already,
//! and the version is committed once more, with tables that say so. What was the newest version before lives on as long as
//! somebody holds it.
//!
//! # Safety
//!
//! This module copies pages within planes. Its law: what is read is in use by a version; what is written was free, is marked
//! before, and has memory.
#![allow(unsafe_code)]

use crate::managed::{PIECES_MAX, Subtable, count_pieces};
use crate::mask::Mask;
use crate::place::Place;
use crate::planes::{Assignment, Planes};
use crate::producer::{Producer, Version, expand, expand_window};
use crate::{Error, Result};
use std::sync::{Arc, Mutex};
use stillframe_kernel::copy::{Copier, PageCopy};
use stillframe_kernel::map::Mapping;
use stillframe_kernel::{Failure, points};
use stillframe_protocol::{self as protocol, Leased, State};
use stillframe_segment::table::{self, Entry, SUBTABLE, ZERO_PLANE};
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

/// What a page that cannot be gathered costs, in pages that can: memory of its own is taken for it.
const OWN_COST: usize = 4;
/// Pages of a window in one plane for which mapping that is worth it: fewer are read as a file.
const MAPPED_PAGES_MIN: usize = 64;
/// Windows for which starting another thread is worth it.
const WINDOWS_PER_THREAD: usize = 4;

impl Producer {
    /// Gathers the scattered windows of a place that the newest version shows. What cannot be gathered, for want of blocks,
    /// of a ring slot or of free slots, stays as it is.
    pub(crate) fn gather(&mut self, place: &mut Place) -> Result<()> {
        let Some(newest) = self.versions.last().cloned() else { return Ok(()) };
        let first = place.window as usize;
        let scattered: Vec<usize> = (first..first + place.windows as usize)
            .filter(|window| newest.table.get(*window).is_some_and(|word| word & SUBTABLE != 0))
            .filter(|window| count_pieces(&expand_window(&self.tables, &newest.table, *window)) > PIECES_MAX)
            .collect();
        let Some(slot) = self.free_slot().filter(|_| !scattered.is_empty()) else { return Ok(()) };
        let Ok(sequence) = self.next_sequence() else { return Ok(()) };
        let most_bytes = self.planes.present_bytes() + (scattered.len() * WINDOW_BYTES) as u64;
        let has_room = self.options.bound_bytes.is_none_or(|bound_bytes| most_bytes <= bound_bytes);
        if !has_room {
            self.planes.see()?;
        }
        let plan = self.plan_gathering(&newest, &scattered, has_room);
        if plan.is_empty() {
            return Ok(());
        }
        plan.iter().for_each(|part| self.planes.mark(part.plane, part.window, part.pages));
        let copied = self.copy_gathered(place, &newest, &plan);
        points::hit("gather.copied");
        let table = match copied {
            Ok(true) => self.gathered_table(&newest, &plan).map(Some),
            Ok(false) => Ok(None),
            Err(error) => Err(error),
        };
        if let Ok(Some((words, block))) = table {
            return self.commit_gathered(newest, Leased { slot, sequence }, words, block, &plan);
        }
        plan.iter().for_each(|part| self.planes.unmark(part.plane, part.window, part.pages));
        match table {
            Ok(_) | Err(Error::NoSpace { .. } | Error::NoMappings { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Chooses a plane for each window, and the pages that are copied into it: with `has_room` also into slots that may have
    /// no memory yet.
    fn plan_gathering(&self, newest: &Version, scattered: &[usize], has_room: bool) -> Vec<Assignment> {
        let mut plan: Vec<Assignment> = Vec::new();
        for window in scattered.iter().copied() {
            let table = expand_window(&self.tables, &newest.table, window);
            let mut shown = vec![Mask::EMPTY; self.planes.count()];
            for (page, plane) in table.iter().enumerate() {
                if let Some(mask) = shown.get_mut(*plane as usize) {
                    mask.insert(page);
                }
            }
            let pages = shown.iter().fold(Mask::EMPTY, |all, mask| all.or(*mask));
            if pages.runs().count() > PIECES_MAX {
                // Zeros between them, which are in no plane.
                continue;
            }
            let choices = shown.iter().enumerate().map(|(plane, shown)| {
                let elsewhere = pages.without(*shown);
                let slots = if has_room { Planes::free } else { Planes::ready };
                let gathered = elsewhere.and(slots(&self.planes, plane, window));
                let own = elsewhere.without(gathered);
                (gathered.count() + OWN_COST * own.count(), Assignment { window, plane, pages: gathered })
            });
            // Neighbours in one plane are one mapping.
            let hint = plan.last().map_or(usize::MAX, |part| part.plane);
            let best = choices.min_by_key(|(cost, part)| if part.plane == hint { *cost * 7 / 8 } else { *cost });
            plan.extend(best.map(|(_, part)| part).filter(|part| !part.pages.is_empty()));
        }
        plan
    }

    /// Copies the pages. `false`: there is no memory for them.
    fn copy_gathered(&mut self, place: &mut Place, newest: &Version, plan: &[Assignment]) -> Result<bool> {
        let tables: Vec<Subtable> =
            plan.iter().map(|part| expand_window(&self.tables, &newest.table, part.window)).collect();
        for plane in 0..self.planes.count() {
            place.map(plane, &self.planes)?;
        }
        let work = Gathering {
            first: place.window as usize,
            maps: place.known_maps().collect(),
            planes: &self.planes,
            copier: &self.copier,
        };
        let failed = Mutex::new(None);
        self.copier.workers().share(plan.len(), plan.len() / WINDOWS_PER_THREAD, &|index| {
            let (part, table) = (&plan[index], &tables[index]);
            if let Err(failure) = work.copy_window(part, table) {
                *failed.lock().unwrap_or_else(|poison| poison.into_inner()) = Some((part.plane, failure));
            }
        });
        let failed = failed.into_inner().unwrap_or_else(|poison| poison.into_inner());
        self.planes.notice(if failed.is_none() { plan } else { &[] })?;
        match failed {
            None => Ok(true),
            // The kernel says that an address cannot be written when no memory is left for it.
            Some((_, failure)) if failure.errno() == libc::EFAULT => Ok(false),
            Some((plane, failure)) => Err(Error::system(&self.planes.plane(plane).path, failure)),
        }
    }

    /// The window table of the version with its pages gathered, and the block it was written to. Its blocks are counted.
    fn gathered_table(&mut self, newest: &Version, plan: &[Assignment]) -> Result<(Vec<u32>, u32)> {
        let mut words = Vec::clone(&newest.table);
        for word in words.iter().filter(|word| **word & SUBTABLE != 0) {
            self.tables.retain(word & !SUBTABLE, WINDOW_PAGES);
        }
        let result = self.write_gathered(&mut words, plan);
        if result.is_err() {
            self.release_table(&words);
        }
        result.map(|block| (words, block))
    }

    fn write_gathered(&mut self, words: &mut [u32], plan: &[Assignment]) -> Result<u32> {
        for part in plan {
            let old = words[part.window];
            let mut subtable = expand(&self.tables, old);
            part.pages.pages().for_each(|page| subtable[page] = part.plane as u8);
            let new = if subtable.iter().all(|plane| *plane == subtable[0]) {
                Entry::Uniform(subtable[0])
            } else {
                let block = self.tables.take(WINDOW_PAGES)?;
                self.tables.write(block, &subtable);
                Entry::Mixed(block)
            };
            self.tables.release(old & !SUBTABLE, WINDOW_PAGES);
            words[part.window] = new.encode();
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let block = self.tables.take(bytes.len())?;
        self.tables.write(block, &bytes);
        Ok(block)
    }

    /// Commits the newest version once more, with this table, and lets go of what it was before.
    fn commit_gathered(
        &mut self,
        newest: Version,
        leased: Leased,
        words: Vec<u32>,
        table_block: u32,
        plan: &[Assignment],
    ) -> Result<()> {
        let mut descriptor = self.head.descriptor(newest.leased.slot);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        (descriptor.table_block, descriptor.table_crc) = (table_block, table::checksum(&bytes));
        self.tables.retain(newest.manifest.0, newest.manifest.1);
        self.head.set_descriptor(leased.slot, &descriptor);
        points::hit("gather.described");
        self.sequence = leased.sequence;
        protocol::commit(&self.head, leased.slot, leased.sequence);
        points::hit("gather.committed");
        // The draft of the next version may differ elsewhere by now.
        let draft = Arc::make_mut(&mut self.table);
        plan.iter().for_each(|part| draft[part.window] = words[part.window]);
        self.versions.push(Version { leased, state: State::Live, table: Arc::new(words), table_block, ..newest });
        self.retire(self.versions.len() - 2)?;
        points::hit("gather.done");
        Ok(())
    }
}

/// What the threads that gather a place share.
struct Gathering<'a> {
    /// First window of the place.
    first: usize,
    /// The place in each plane.
    maps: Vec<&'a Mapping>,
    planes: &'a Planes,
    copier: &'a Copier,
}

impl Gathering<'_> {
    /// Copies pages of a window, which lie where `table` says, into the plane that was chosen.
    fn copy_window(&self, part: &Assignment, table: &Subtable) -> Result<(), Failure> {
        let (map, at) = (self.maps[part.plane], (part.window - self.first) * WINDOW_BYTES);
        // All that is in use or will be has its page-table entries made, many at a time, and memory. Other free slots are left
        // out: they may have none, and would get it.
        let entered = Mask::FULL.without(self.planes.free(part.plane, part.window)).or(part.pages);
        let has_memory =
            entered.runs().all(|(start, end)| map.has_memory(at + start * PAGE_BYTES, (end - start) * PAGE_BYTES));
        let mut counts = [0; ZERO_PLANE as usize + 1];
        part.pages.pages().for_each(|page| counts[table[page] as usize] += 1);
        let mut copies = Vec::new();
        for (start, end) in part.pages.runs() {
            let mut page = start;
            for run in table[start..end].chunk_by(|left, right| left == right) {
                let source = run[0] as usize;
                let offset = at + page * PAGE_BYTES;
                if has_memory && counts[source] >= MAPPED_PAGES_MIN {
                    let (from, to) = (self.maps[source].address() + offset, map.address() + offset);
                    let pages = (0..run.len()).map(|page| page * PAGE_BYTES);
                    copies.extend(pages.map(|page| PageCopy { from: from + page, to: to + page }));
                } else {
                    let from = (part.window * WINDOW_BYTES + page * PAGE_BYTES) as u64;
                    map.read_from(offset, &self.planes.plane(source).file, from, run.len() * PAGE_BYTES)?;
                }
                page += run.len();
            }
        }
        // SAFETY: all pages lie in the maps of the place. Those that are read are in use, so that nobody writes them and they
        // have memory. Those that are written were free and are marked, so that nobody else has them, and got memory above.
        unsafe { self.copier.copy_here(&copies) };
        Ok(())
    }
}
