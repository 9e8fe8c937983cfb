//! Producers: writable private mappings of a file, published by `msync`.

use crate::file::{Carried, Publishing, Variable, View, Working};
use crate::kernel::{self, MS_UPDATE, Own, PAGE_BYTES, whole_pages};
use crate::lock::lock;
use crate::observer::{self, Fresh, root};
use crate::report::{Problem, remark};
use std::collections::BTreeMap;
use std::fs::File;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use stillframe::{
    Attributes, Declaration, Element, Error, Kind, Order, Outcome, Region, Rule, Scalar, Snapshot, VariableId,
};

/// Gives a new writable mapping the content that was published last, which on TCASM's kernel would be the file's.
pub fn restore(working: &Working, file_bytes: u64, readable: bool) -> Result<(), Problem> {
    let file = working.file;
    if !readable || !observer::has_region(file) {
        return Ok(());
    }
    let Some(snapshot) = observer::newest(file, &mut lock(&file.observer))? else { return Ok(()) };
    working.base.store(snapshot.version(), Ordering::Release);
    for (name, at, start, end) in observer::overlap(&snapshot, working.offset, working.bytes) {
        // Behind the end of the file there is nothing that could be touched.
        let end = end
            .min(whole_pages(file_bytes as usize) as u64)
            .min(at.saturating_add(snapshot.variable(&name)?.bytes as u64));
        if start >= end {
            continue;
        }
        for chunk in snapshot.chunks_in(&name, (start - at) as usize..(end - at) as usize)? {
            let begin = working.address + (at + chunk.offset as u64 - working.offset) as usize;
            let mut done = 0;
            // Page by page, so that pages that are as in the file need no memory of their own.
            while done < chunk.bytes.len() {
                let count = (PAGE_BYTES - (begin + done) % PAGE_BYTES).min(chunk.bytes.len() - done);
                // SAFETY: the mapping is readable, writable and has the file behind it there; nobody was told of it yet.
                let page = unsafe { std::slice::from_raw_parts_mut((begin + done) as *mut u8, count) };
                let published = &chunk.bytes[done..done + count];
                if page != published {
                    page.copy_from_slice(published);
                }
                done += count;
            }
        }
    }
    Ok(())
}

/// Publishes the pages of a mapping that a range of addresses touches.
pub fn publish(working: &Arc<Working>, addresses: Range<usize>) -> Result<(), Problem> {
    let file = working.file;
    let mut place = lock(&file.producer);
    // Whoever unmaps a part of it has the lock meanwhile.
    if working.torn.load(Ordering::Acquire) {
        let text = "a part of this mapping was unmapped or replaced meanwhile: publish what is left";
        return Err(Problem::new(libc::EINVAL, text));
    }
    if working.unreadable.load(Ordering::Acquire) {
        return Err(Problem::new(libc::EACCES, "this mapping may not be read: publish before mprotect forbids it"));
    }
    let Some(there) = file.metadata() else {
        return Err(Problem::new(
            libc::ENOENT,
            "the file was removed or renamed, so that nobody would find what is published: map it anew",
        ));
    };
    // The kernel maps whole pages, as far as the file goes.
    let bytes = (whole_pages(working.bytes) as u64).min(there.len().saturating_sub(working.offset)) as usize;
    let range = addresses.start - working.address..(addresses.end - working.address).min(bytes);
    if range.start >= bytes {
        let text = format!("the file has {} bytes, none of them here: give it a length by ftruncate", there.len());
        return Err(Problem::new(libc::EINVAL, text));
    }
    let publishing = match &mut *place {
        Some(publishing) => publishing,
        None => place.insert(Publishing::open(working)?),
    };
    publishing.publish(working, bytes, range)
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
    fn open(working: &Working) -> Result<Publishing, Problem> {
        let file = working.file;
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
        let options = Region::options().dir(root()).rule(Rule::Fail);
        let region = options.create(&file.name)?;
        let mut publishing = Publishing { region, variables: BTreeMap::new(), carried: Vec::new() };
        for variable in last.iter().flat_map(Snapshot::variables) {
            let (Some(offset), Some(last)) = (offset_of(&variable.attributes), &last) else { continue };
            let id = publishing.declare(offset)?;
            let (bytes, version) = (variable.bytes, last.version());
            let known = Variable { id, bytes, version, working: Weak::new(), is_shown: false };
            publishing.variables.insert(offset, known);
            publishing.carried.push(Carried { id, view: last.view(&variable.name)?, range: 0..bytes });
        }
        remark(|| format!("{} is published as region {}", file.path.display(), file.name));
        Ok(publishing)
    }

    /// Ends it, and removes the region.
    pub fn unlink(self) -> Result<(), Error> {
        self.region.unlink()
    }

    fn declare(&mut self, offset: u64) -> Result<VariableId, Error> {
        let mut declaration = Declaration::new(&name_of(offset), u8::dtype(), Kind::Tracked);
        declaration.attributes.insert("offset".into(), Scalar::Int(offset as i64));
        self.region.declare(declaration)
    }

    fn publish(&mut self, working: &Arc<Working>, bytes: usize, range: Range<usize>) -> Result<(), Problem> {
        let (file, offset) = (working.file, working.offset);
        self.check_neighbours(working, bytes)?;
        // What is left out where nothing was published yet is as an observer sees it before anything is changed.
        let is_known = self.variables.get(&offset).is_some_and(|variable| {
            let is_same = variable.bytes == bytes && std::ptr::eq(variable.working.as_ptr(), Arc::as_ptr(working));
            variable.is_shown && is_same
        });
        let is_whole = range.start < PAGE_BYTES && range.end == bytes;
        let before = if is_known || is_whole { None } else { Some(Pristine::open(working, bytes)?) };
        self.make_room(working, bytes)?;
        if !self.variables.contains_key(&offset) {
            let id = self.declare(offset)?;
            let variable = Variable { id, bytes: 0, version: 0, working: Weak::new(), is_shown: false };
            self.variables.insert(offset, variable);
        }
        let Some(variable) = self.variables.get_mut(&offset) else { return Ok(()) };
        self.carried.retain(|carried| carried.id != variable.id);
        let number = self.region.newest().map_or(1, |newest| newest + 1);
        let mut publication = self.region.publish(number);
        publication = publication.attr("device", file.key.0 as i64).attr("inode", file.key.1 as i64);
        for Carried { id, view, range } in &self.carried {
            let bytes = &view[range.clone()];
            // SAFETY: a version's pages, which the view holds.
            publication =
                unsafe { publication.tracked_raw(*id, bytes.as_ptr(), bytes.len(), &[bytes.len()], Order::C) };
        }
        let memory = std::ptr::slice_from_raw_parts(working.address as *const u8, bytes);
        let before = before.as_ref().map(|pristine| pristine.own.address as *const u8);
        // SAFETY: the mapping is readable and has the file behind it; whoever unmaps it waits for the lock that the caller
        // has, and the program, which is in msync, does not write what it publishes.
        publication = unsafe { publication.tracked_part(variable.id, memory, &[bytes], Order::C, range, before) };
        let published = publication.commit()?;
        if published.outcome == Outcome::Skipped {
            return Err(Problem::new(libc::ENOSPC, "there is no room for another version"));
        }
        self.carried.clear();
        let version = published.version;
        *variable = Variable { id: variable.id, bytes, version, working: Arc::downgrade(working), is_shown: true };
        // Nobody else publishes meanwhile, so all these memories have what there is of their bytes.
        for working in self.variables.values().filter_map(|variable| variable.working.upgrade()) {
            working.base.store(version, Ordering::Release);
        }
        remark(|| {
            let (copied, total) = (published.copied_pages, published.total_pages);
            format!("{}: version {} with {copied} of {total} pages copied", file.path.display(), published.version)
        });
        Ok(())
    }

    /// The variables that have bytes of the file from `offset` to `end`.
    fn overlapping(&self, offset: u64, end: u64) -> impl Iterator<Item = (u64, u64, &Variable)> {
        let ends =
            self.variables.iter().map(|(at, known)| (*at, at.saturating_add(whole_pages(known.bytes) as u64), known));
        ends.filter(move |(other, other_end, _)| *other < end && offset < *other_end)
    }

    /// Refuses what would make two memories answer for the same bytes of the file.
    fn check_neighbours(&self, working: &Arc<Working>, bytes: usize) -> Result<(), Problem> {
        for (_, _, variable) in self.overlapping(working.offset, working.offset + whole_pages(bytes) as u64) {
            match variable.working.upgrade() {
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

    /// Takes the bytes of a mapping from variables whose mapping is gone. What these have before and behind them stays.
    fn make_room(&mut self, working: &Arc<Working>, bytes: usize) -> Result<(), Problem> {
        let (offset, end) = (working.offset, working.offset + whole_pages(bytes) as u64);
        let others: Vec<(u64, u64)> = self
            .overlapping(offset, end)
            .filter(|(at, other_end, _)| *at != offset || *other_end > end)
            .map(|(at, other_end, _)| (at, other_end))
            .collect();
        for (at, other_end) in others {
            let Some(old) = self.variables.remove(&at) else { continue };
            // What is carried already was not published since.
            let place = self.carried.iter().position(|carried| carried.id == old.id);
            let (view, from) = match place.map(|index| self.carried.remove(index)) {
                Some(Carried { view, range, .. }) => (view, range.start),
                None => {
                    let snapshot = observer::newest(working.file, &mut lock(&working.file.observer))?;
                    let Some(snapshot) = snapshot else { continue };
                    (snapshot.view(&name_of(at))?, 0)
                }
            };
            let Variable { id, bytes: old_bytes, version, .. } = old;
            let mut pieces = Vec::new();
            if at < offset {
                pieces.push((id, at, (offset - at) as usize));
            } else if at == offset {
                self.variables.insert(at, Variable { bytes: 0, ..old });
            } else {
                self.region.remove(&name_of(at))?;
            }
            if other_end > end {
                pieces.push((self.declare(end)?, end, old_bytes - (end - at) as usize));
            }
            for (id, start, bytes) in pieces {
                let first = from + (start - at) as usize;
                self.carried.push(Carried { id, view: view.clone(), range: first..first + bytes });
                self.variables.insert(start, Variable { id, bytes, version, working: Weak::new(), is_shown: false });
            }
        }
        Ok(())
    }
}

/// The content of a mapping's part of the file before the program wrote into it, as an observer would see it.
struct Pristine {
    own: Own,
    _view: Option<View>,
}

impl Pristine {
    fn open(working: &Working, bytes: usize) -> Result<Pristine, Problem> {
        let file = working.file;
        let open = File::open(&file.path);
        let open = open.map_err(|error| Problem::new(error.raw_os_error().unwrap_or(libc::EIO), error.to_string()))?;
        let (flags, offset) = (libc::MAP_PRIVATE | libc::MAP_NORESERVE, working.offset);
        let address = kernel::mmap(0, bytes, libc::PROT_READ, flags, open.as_raw_fd(), offset as libc::off_t);
        if !kernel::is_address(address) {
            return Err(Problem::new(kernel::errno(), format!("no mapping of {bytes} bytes")));
        }
        let own = Own { address, bytes };
        let view = observer::show(file, &Fresh { address, bytes, offset, protection: libc::PROT_READ })?;
        Ok(Pristine { own, _view: view })
    }
}

/// The flags of msync that can go together with [`MS_UPDATE`].
pub const FLAGS: libc::c_int = MS_UPDATE | libc::MS_SYNC | libc::MS_ASYNC | libc::MS_INVALIDATE;

/// Whether a call of msync asks to publish.
pub fn is_publish(flags: libc::c_int) -> bool {
    flags & MS_UPDATE != 0
}
