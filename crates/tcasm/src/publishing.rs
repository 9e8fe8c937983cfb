//! Publishing a mapping: what the next version shows is made up first, and takes the place of what the newest one shows when
//! the version is committed. A publish that fails changes nothing.

use crate::file::{Carried, Publishing, Shown, Variable, Working};
use crate::fork::state;
use crate::holes;
use crate::kernel::whole_pages;
use crate::lock::lock;
use crate::names::root;
use crate::observer;
use crate::pristine::Pristine;
use crate::report::{Problem, remark};
use crate::state::Extent;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use stillframe::{
    Attributes, Declaration, Element, Error, Kind, Order, Outcome, Region, Rule, Scalar, Snapshot, VariableId,
};

/// A part of a mapping to be published.
pub struct Part<'a> {
    pub working: &'a Arc<Working>,
    /// Bytes of the mapping that the file has.
    pub bytes: usize,
    /// Those of them that are published.
    pub range: Range<usize>,
    /// Whether the file may have holes.
    pub is_sparse: bool,
}

/// What the next version shows if it is committed.
struct Next {
    shown: Shown,
    /// Variables that it shows nothing of, by offset in the file.
    gone: Vec<u64>,
}

fn offset_of(attributes: &Attributes) -> Option<u64> {
    match attributes.get("offset") {
        Some(Scalar::Int(offset)) => Some(*offset as u64),
        _ => None,
    }
}

fn name_of(offset: u64) -> String {
    if offset == 0 { "data".into() } else { format!("data_{offset}") }
}

impl Publishing {
    /// Takes the region of a mapping's file, with what was published of it.
    pub fn open(working: &Working) -> Result<Publishing, Problem> {
        let file = &working.file;
        let mut attached = None;
        let last: Option<Snapshot> = observer::newest(file, &mut attached)?;
        if last.is_none() && observer::newest_of_name(file, &mut attached)?.is_some() {
            // It was published from a file that is no more.
            match stillframe::inspect::remove(root(), &file.name, false) {
                Ok(_) | Err(Error::NoRegion { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // A program that publishes must not wait for those that look, so a lack of room is its error.
        // What is published of a file is what its mappings have. A hole of it would take room if it were read.
        let options = Region::options().dir(root()).rule(Rule::Fail).constant_files(true);
        let region = options.create(&file.name)?;
        let mut shown = Shown::default();
        if let Some(last) = &last {
            for variable in last.variables().iter().filter(|variable| variable.bytes > 0) {
                let Some(offset) = offset_of(&variable.attributes) else { continue };
                let (bytes, version) = (variable.bytes, last.version());
                shown.variables.insert(offset, Variable { bytes, version, working: Weak::new() });
                shown.carried.insert(offset, Carried::all(last, &variable.name)?);
            }
        }
        remark(|| format!("{} is published as region {}", file.path.display(), file.name));
        Ok(Publishing { region, declared: BTreeMap::new(), shown })
    }

    /// Ends it, and removes the region.
    pub fn unlink(self) -> Result<(), Error> {
        self.region.unlink()
    }

    /// Publishes a part of a mapping, and beside it what was published of others.
    pub fn publish(&mut self, part: Part) -> Result<(), Problem> {
        let Part { working, bytes, range, is_sparse } = part;
        let (file, offset) = (&working.file, working.offset);
        self.check_neighbours(working, bytes)?;
        // What is left out where nothing was published yet is as an observer sees it.
        let is_known = self.shown.variables.get(&offset).is_some_and(|variable| {
            variable.bytes == bytes && std::ptr::eq(variable.working.as_ptr(), Arc::as_ptr(working))
        });
        let is_whole = range.start < stillframe::PAGE_BYTES && range.end == bytes;
        let before = if is_known || is_whole { None } else { Some(Pristine::open(working, bytes)?) };
        let mut holes = None;
        if is_sparse
            // Who may not open it by now publishes it all the same.
            && let Ok(open) = file.open()
        {
            // At the first publish all that is left out is looked at, too, and from then on what is asked for.
            let looked = if is_known { range.clone() } else { 0..bytes };
            holes = Some(holes::of_mapping(working, &open, bytes, looked)?);
        }
        let number = self.region.newest().map_or(1, |newest| newest + 1);
        let next = self.next(working, bytes, number)?;
        let id = self.declare(offset)?;
        let carried = next.shown.carried.iter().map(|(at, carried)| Ok((self.declare(*at)?, carried)));
        let carried = carried.collect::<Result<Vec<_>, Error>>()?;
        let gone: Vec<VariableId> = next.gone.iter().filter_map(|at| self.declared.get(at).copied()).collect();

        let mut publication = self.region.publish(number);
        publication = publication.attr("device", file.key.0 as i64).attr("inode", file.key.1 as i64);
        for (id, Carried { view, zeros, range }) in carried {
            let bytes = &view[range.clone()];
            let shape = [bytes.len()];
            // SAFETY: a version's pages, which the view holds.
            publication = unsafe { publication.tracked_raw(id, bytes.as_ptr(), bytes.len(), &shape, Order::C) };
            publication = publication.zeros(id, &holes::within(zeros, range), &[]);
        }
        for id in gone {
            // SAFETY: no bytes are read.
            publication = unsafe { publication.tracked_raw(id, std::ptr::null(), 0, &[0], Order::C) };
        }
        let memory = std::ptr::slice_from_raw_parts(working.address as *const u8, bytes);
        let (address, none) = (before.as_ref().map(|pristine| pristine.own.address as *const u8), Vec::new());
        let holes_before = before.as_ref().map_or(&none, |pristine| &pristine.holes);
        // SAFETY: the mapping is readable and has the file behind it; whoever unmaps it waits for the lock that the caller
        // has, and the program, which is in msync, does not write what it publishes.
        publication = unsafe { publication.tracked_part(id, memory, &[bytes], Order::C, range, address) };
        if holes.is_some() || !holes_before.is_empty() {
            publication = publication.holes(id, &holes.unwrap_or_default(), holes_before);
        }
        let published = publication.commit()?;
        if published.outcome == Outcome::Skipped {
            return Err(Problem::new(libc::ENOSPC, "there is no room for another version"));
        }
        self.take_up(next);
        remark(|| {
            let (copied, total) = (published.copied_pages, published.total_pages);
            format!("{}: version {} with {copied} of {total} pages copied", file.path.display(), published.version)
        });
        Ok(())
    }

    /// Notes that a version was committed.
    fn take_up(&mut self, next: Next) {
        // From the next version on there is no trace of them. A name that cannot be removed is shown with no bytes.
        for offset in next.gone {
            if self.region.remove(&name_of(offset)).is_ok() {
                self.declared.remove(&offset);
            }
        }
        self.shown = Shown { carried: BTreeMap::new(), ..next.shown };
        // Nobody else publishes meanwhile, so all these memories have what there is of their bytes.
        let version = self.region.newest().unwrap_or_default();
        for working in self.shown.variables.values().filter_map(|variable| variable.working.upgrade()) {
            working.base.store(version, Ordering::Release);
        }
    }

    /// The variable of what lies at an offset of the file.
    fn declare(&mut self, offset: u64) -> Result<VariableId, Error> {
        if let Some(id) = self.declared.get(&offset) {
            return Ok(*id);
        }
        let mut declaration = Declaration::new(&name_of(offset), u8::dtype(), Kind::Tracked);
        declaration.attributes.insert("offset".into(), Scalar::Int(offset as i64));
        let id = self.region.declare(declaration)?;
        self.declared.insert(offset, id);
        Ok(id)
    }

    /// Refuses what would make two memories answer for the same bytes of the file.
    fn check_neighbours(&self, working: &Arc<Working>, bytes: usize) -> Result<(), Problem> {
        for (_, _, variable) in self.shown.overlapping(working.offset, working.offset + whole_pages(bytes) as u64) {
            let mapped = variable.working.upgrade().filter(|other| state().extent(other) != Extent::Torn);
            match mapped {
                Some(other) if Arc::ptr_eq(&other, working) => {}
                Some(_) => {
                    let text = "another mapping of the same bytes publishes them: unmap it, or publish that one";
                    return Err(Problem::new(libc::EBUSY, text));
                }
                None if variable.version > working.base.load(Ordering::Acquire) => {
                    let text =
                        "these bytes were published from another mapping since this one was made: map the file anew";
                    return Err(Problem::new(libc::EBUSY, text));
                }
                None => {}
            }
        }
        Ok(())
    }

    /// What a version shows in which a mapping has its bytes. Those of variables whose mapping is gone become the mapping's;
    /// what these have before and behind them stays.
    fn next(&self, working: &Arc<Working>, bytes: usize, version: u64) -> Result<Next, Problem> {
        let (offset, end) = (working.offset, working.offset + whole_pages(bytes) as u64);
        let mut next = Next { shown: self.shown.clone(), gone: Vec::new() };
        for (at, other_end, old) in self.shown.overlapping(offset, end) {
            next.shown.variables.remove(&at);
            let carried = next.shown.carried.remove(&at);
            if at > offset {
                next.gone.push(at);
            }
            if at >= offset && other_end <= end {
                continue;
            }
            let whole = match carried {
                Some(carried) => carried,
                None => {
                    let snapshot = observer::newest(&working.file, &mut lock(&working.file.observer))?;
                    let Some(snapshot) = snapshot else { continue };
                    Carried::all(&snapshot, &name_of(at))?
                }
            };
            let before = (at < offset).then(|| (at, (offset - at) as usize));
            let behind = (other_end > end).then(|| (end, old.bytes - (end - at) as usize));
            for (start, bytes) in before.into_iter().chain(behind) {
                let first = whole.range.start + (start - at) as usize;
                next.shown.carried.insert(start, Carried { range: first..first + bytes, ..whole.clone() });
                let variable = Variable { bytes, version: old.version, working: Weak::new() };
                next.shown.variables.insert(start, variable);
            }
        }
        next.shown.variables.insert(offset, Variable { bytes, version, working: Arc::downgrade(working) });
        Ok(next)
    }
}

impl Carried {
    /// All of a version's variable.
    fn all(snapshot: &Snapshot, name: &str) -> Result<Carried, Error> {
        let view = snapshot.view(name)?;
        let range = 0..view.len();
        Ok(Carried { view, zeros: snapshot.zeros(name)?.into(), range })
    }
}

impl Shown {
    /// The variables that have bytes of the file from `offset` to `end`.
    fn overlapping(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, u64, &Variable)> {
        let ends =
            self.variables.iter().map(|(at, known)| (*at, at.saturating_add(whole_pages(known.bytes) as u64), known));
        ends.filter(move |(other, other_end, _)| *other < end && offset < *other_end)
    }
}
