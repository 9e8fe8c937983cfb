//! Owned ranges of address space (mmap(2)).

use crate::fork::Private;
use crate::workers::Workers;
use crate::{Failure, PAGE_BYTES, futex, points};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Size and alignment of a large page.
pub const LARGE_BYTES: usize = 2 << 20;

/// An address range that this value owns and unmaps.
#[derive(Debug)]
pub struct Mapping {
    address: usize,
    bytes: usize,
    /// Bytes reserved before and after it for its alignment: to give them back with it costs no call.
    around: (usize, usize),
    writable: bool,
    /// Who takes its pages out of the page tables when it goes.
    workers: Option<Arc<Workers>>,
    /// Whether forked children have a copy of it.
    private: Vec<Private>,
}

/// Least number of bytes whose page-table entries one thread makes, or takes out, at a time.
const PIECE_BYTES_MIN: usize = 2 * LARGE_BYTES;
/// Pieces for each thread, so that one that is late leaves its share to others.
const PIECES_PER_THREAD: usize = 64;

fn map(
    address: usize,
    bytes: usize,
    protection: i32,
    flags: i32,
    file: Option<(&File, u64)>,
) -> Result<usize, Failure> {
    let (descriptor, offset) = file.map_or((-1, 0), |(file, offset)| (file.as_raw_fd(), offset));
    if let Some(source) = points::fails(libc::ENOMEM) {
        return Err(Failure { call: "mmap", detail: format!("{bytes} bytes, file offset {offset}"), source });
    }
    // SAFETY: without MAP_FIXED the kernel chooses free addresses; callers that pass MAP_FIXED own the range they name.
    let at = unsafe {
        libc::mmap(address as *mut libc::c_void, bytes, protection, flags, descriptor, offset as libc::off_t)
    };
    if at == libc::MAP_FAILED {
        return Err(Failure::last("mmap", format!("{bytes} bytes, file offset {offset}")));
    }
    Ok(at as usize)
}

fn too_large(bytes: usize) -> Failure {
    let source = std::io::Error::from_raw_os_error(libc::ENOMEM);
    Failure { call: "mmap", detail: format!("{bytes} bytes"), source }
}

impl Mapping {
    /// Maps part of a file so that all who map it see the same bytes. The file is as long as the mapping, or longer.
    /// Large pages of the file can be entered as such: they begin at the same addresses, modulo their size, as in the file.
    pub fn shared(file: &File, offset: u64, bytes: usize, writable: bool) -> Result<Mapping, Failure> {
        let protection = if writable { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let flags = libc::MAP_SHARED | libc::MAP_NORESERVE;
        if bytes < LARGE_BYTES || !offset.is_multiple_of(LARGE_BYTES as u64) || !bytes.is_multiple_of(PAGE_BYTES) {
            let address = map(0, bytes, protection, flags, Some((file, offset)))?;
            return Ok(Mapping { address, bytes, around: (0, 0), writable, workers: None, private: Vec::new() });
        }
        let mut mapping = Mapping::reserve_around(bytes, libc::PROT_NONE)?;
        map(mapping.address, bytes, protection, flags | libc::MAP_FIXED, Some((file, offset)))?;
        mapping.writable = writable;
        Ok(mapping)
    }

    /// As [`shared`](Mapping::shared), to be written. Forked children find the same pages, but what they write is theirs: a
    /// child may go on when its parent has given the pages to somebody else.
    pub fn shared_unforked(file: Arc<File>, offset: u64, bytes: usize) -> Result<Mapping, Failure> {
        let mut mapping = Mapping::shared(&file, offset, bytes, true)?;
        mapping.private = vec![Private::begin(mapping.address, bytes, file, offset)];
        Ok(mapping)
    }

    /// As [`shared_unforked`](Mapping::shared_unforked), for runs of a file one after the other: their offsets and lengths.
    pub fn shared_unforked_runs(file: Arc<File>, runs: Vec<(u64, usize)>) -> Result<Mapping, Failure> {
        if let [(offset, bytes)] = runs[..] {
            return Mapping::shared_unforked(file, offset, bytes);
        }
        let mut mapping = Mapping::reserve(runs.iter().map(|run| run.1).sum())?;
        let mut at = 0;
        for (offset, bytes) in &runs {
            let flags = libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            map(mapping.address + at, *bytes, protection, flags, Some((&file, *offset)))?;
            mapping.private.push(Private::begin(mapping.address + at, *bytes, file.clone(), *offset));
            at += bytes;
        }
        mapping.writable = true;
        Ok(mapping)
    }

    /// A range that belongs to somebody else, and stays mapped when this value is dropped.
    ///
    /// # Safety
    /// The owner lets the range be replaced through this value, and relies on nothing that is mapped there.
    pub unsafe fn lent(address: usize, bytes: usize) -> ManuallyDrop<Mapping> {
        ManuallyDrop::new(Mapping {
            address,
            bytes,
            around: (0, 0),
            writable: false,
            workers: None,
            private: Vec::new(),
        })
    }

    /// Reserves addresses, aligned to a large page, that cannot be used until something is [laid](Mapping::lay) over them.
    pub fn reserve(bytes: usize) -> Result<Mapping, Failure> {
        Mapping::aligned(bytes, libc::PROT_NONE)
    }

    /// Zeroed private memory, aligned to a large page, for which large pages are asked if `large`.
    pub fn private(bytes: usize, large: bool) -> Result<Mapping, Failure> {
        let mapping = Mapping::aligned(bytes, libc::PROT_READ | libc::PROT_WRITE)?;
        if large {
            // Large pages are a wish: a kernel without them serves small ones.
            let _ = mapping.advise(0, bytes, libc::MADV_HUGEPAGE);
        }
        Ok(mapping)
    }

    fn aligned(bytes: usize, protection: i32) -> Result<Mapping, Failure> {
        let mut mapping = Mapping::reserve_around(bytes, protection)?;
        let (before, after) = std::mem::take(&mut mapping.around);
        // SAFETY: both pieces belong to the mapping made above and lie outside the part that is kept.
        unsafe {
            if before > 0 {
                libc::munmap((mapping.address - before) as *mut libc::c_void, before);
            }
            if after > 0 {
                libc::munmap((mapping.address + mapping.bytes) as *mut libc::c_void, after);
            }
        }
        Ok(mapping)
    }

    /// Anonymous memory, aligned to a large page, and what lies around it.
    fn reserve_around(bytes: usize, protection: i32) -> Result<Mapping, Failure> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let bytes = bytes.checked_next_multiple_of(PAGE_BYTES).ok_or_else(|| too_large(bytes))?;
        let whole = bytes.checked_add(LARGE_BYTES).ok_or_else(|| too_large(bytes))?;
        let raw = map(0, whole, protection, flags, None)?;
        let address = raw.next_multiple_of(LARGE_BYTES);
        let around = (address - raw, raw + LARGE_BYTES - address);
        let writable = protection & libc::PROT_WRITE != 0;
        Ok(Mapping { address, bytes, around, writable, workers: None, private: Vec::new() })
    }

    /// First address.
    pub fn address(&self) -> usize {
        self.address
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn check(&self, offset: usize, bytes: usize) {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.bytes), "{bytes} bytes at {offset} of a mapping of {}", self.bytes);
    }

    /// Lays part of a file over part of this range, read-only.
    pub fn lay(&self, offset: usize, file: &File, file_offset: u64, bytes: usize) -> Result<(), Failure> {
        self.check(offset, bytes);
        // Private, so that whoever allows writing later, as the owner of a lent range may, writes a copy.
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        map(self.address + offset, bytes, libc::PROT_READ, flags, Some((file, file_offset))).map(drop)
    }

    /// Lays part of a file over part of this range, writable: what is written is a copy of this process's own.
    pub fn lay_copy_on_write(&self, offset: usize, file: &File, file_offset: u64, bytes: usize) -> Result<(), Failure> {
        self.check(offset, bytes);
        assert!(self.writable, "laying writable pages over a read-only mapping");
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        map(self.address + offset, bytes, protection, flags, Some((file, file_offset))).map(drop)
    }

    /// Lays zeroed private memory over part of this range, writable, for which large pages are asked if `large`. What was
    /// there is given back.
    pub fn lay_private(&self, offset: usize, bytes: usize, large: bool) -> Result<(), Failure> {
        self.check(offset, bytes);
        assert!(self.writable, "laying writable pages over a read-only mapping");
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        map(self.address + offset, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, None)?;
        if large {
            // A wish, as for `private`.
            let _ = self.advise(offset, bytes, libc::MADV_HUGEPAGE);
        }
        Ok(())
    }

    /// Lays zeros over part of this range, read-only.
    pub fn lay_zeros(&self, offset: usize, bytes: usize) -> Result<(), Failure> {
        self.check(offset, bytes);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
        map(self.address + offset, bytes, libc::PROT_READ, flags, None).map(drop)
    }

    /// A private, writable copy-on-write mapping of part of a file.
    pub fn copy_on_write(file: &File, offset: u64, bytes: usize) -> Result<Mapping, Failure> {
        let flags = libc::MAP_PRIVATE | libc::MAP_NORESERVE;
        let address = map(0, bytes, libc::PROT_READ | libc::PROT_WRITE, flags, Some((file, offset)))?;
        Ok(Mapping { address, bytes, around: (0, 0), writable: true, workers: None, private: Vec::new() })
    }

    /// Puts the pages of `other` in the place of part of this range: no moment exists at which a reader finds neither. If
    /// `other` shows several parts of files, they come one after the other on kernels before 6.17, which move one mapping at a
    /// time; each of them but the last has to be as long as a large page, or several. On an error some may have come.
    pub fn replace(&self, offset: usize, other: Mapping) -> Result<(), Failure> {
        self.check(offset, other.bytes);
        let mut other = ManuallyDrop::new(other);
        (other.workers, other.private) = (None, Vec::new());
        let moved = match self.take_from(offset, &other, other.bytes) {
            Err((_, failure)) if failure.errno() == libc::EFAULT => self.take_from(offset, &other, LARGE_BYTES),
            moved => moved,
        };
        if let Err((done, failure)) = moved {
            // SAFETY: what was not moved is owned; where the rest was may be somebody else's by now.
            unsafe { libc::munmap((other.address + done) as *mut libc::c_void, other.bytes - done) };
            return Err(failure);
        }
        if offset == 0 && other.bytes == self.bytes {
            self.private.iter().for_each(Private::end);
        }
        Ok(())
    }

    /// Moves the pages of `other` here, `step` bytes at a time. An error says how many bytes were moved before it.
    fn take_from(&self, offset: usize, other: &Mapping, step: usize) -> Result<(), (usize, Failure)> {
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
        for at in (0..other.bytes).step_by(step) {
            let bytes = step.min(other.bytes - at);
            let (from, to) =
                ((other.address + at) as *mut libc::c_void, (self.address + offset + at) as *mut libc::c_void);
            // SAFETY: both ranges are owned and lie inside their mappings, and nothing looks at `other` any more.
            if unsafe { libc::mremap(from, bytes, bytes, flags, to) } == libc::MAP_FAILED {
                return Err((at, Failure::last("mremap", format!("{bytes} bytes"))));
            }
        }
        Ok(())
    }

    /// Advises the kernel about part of the range (madvise(2)).
    fn advise(&self, offset: usize, bytes: usize, advice: i32) -> Result<(), Failure> {
        self.check(offset, bytes);
        // SAFETY: the range is owned. The advice used in this crate (HUGEPAGE, COLLAPSE, POPULATE_*) does not change content,
        // or (DONTNEED) is given when nobody will look at it any more.
        match unsafe { libc::madvise((self.address + offset) as *mut libc::c_void, bytes, advice) } {
            0 => Ok(()),
            _ => Err(Failure::last("madvise", format!("{bytes} bytes, advice {advice}"))),
        }
    }

    /// Allows writing again, to memory that was made to be written.
    pub fn make_writable(&mut self) -> Result<(), Failure> {
        assert!(self.writable, "writing to a read-only mapping");
        // SAFETY: the range is owned, and nobody has a reference into it.
        match unsafe {
            libc::mprotect(self.address as *mut libc::c_void, self.bytes, libc::PROT_READ | libc::PROT_WRITE)
        } {
            0 => Ok(()),
            _ => Err(Failure::last("mprotect", format!("{} bytes", self.bytes))),
        }
    }

    /// Forbids writing, until [`make_writable`](Mapping::make_writable).
    pub fn make_read_only(&self) -> Result<(), Failure> {
        // SAFETY: the range is owned; a later write through `&mut` would fault, which `writable` callers never do after.
        match unsafe { libc::mprotect(self.address as *mut libc::c_void, self.bytes, libc::PROT_READ) } {
            0 => Ok(()),
            _ => Err(Failure::last("mprotect", format!("{} bytes", self.bytes))),
        }
    }

    /// Makes page-table entries for part of the range, so that writing there faults no more. Best effort: a kernel
    /// before 5.14 cannot, and then each page faults at its first write.
    pub fn populate_for_writing(&self, offset: usize, bytes: usize) {
        let _ = self.advise(offset, bytes, libc::MADV_POPULATE_WRITE);
    }

    /// As [`populate_for_writing`](Mapping::populate_for_writing), by several threads.
    pub fn populate_for_writing_by(&self, offset: usize, bytes: usize, workers: &Workers) {
        self.advise_by(offset, bytes, libc::MADV_POPULATE_WRITE, workers);
    }

    /// Makes page-table entries for part of the range, by several threads, so that reading there faults no more. Best effort,
    /// as [`populate_for_writing`](Mapping::populate_for_writing).
    ///
    /// The kernel enters pages of a shared mapping, if the file has them, in batches, and as writable where they may be
    /// written: for those that were written before this is the cheaper way to be ready for writing, too.
    pub fn populate_by(&self, offset: usize, bytes: usize, workers: &Workers) {
        self.advise_by(offset, bytes, libc::MADV_POPULATE_READ, workers);
    }

    /// Leaves the work of taking its pages out of the page tables, when it goes, to several threads.
    pub fn unmap_by(&mut self, workers: &Arc<Workers>) {
        self.workers = Some(workers.clone());
    }

    /// Advice that may fail, for part of the range in pieces. Threads of a process make entries and take them out side by
    /// side: most of the time goes into waiting for memory that describes the pages.
    fn advise_by(&self, offset: usize, bytes: usize, advice: i32, workers: &Workers) {
        let share = bytes / (PIECES_PER_THREAD * workers.count());
        let piece_bytes = share.next_multiple_of(LARGE_BYTES).max(PIECE_BYTES_MIN);
        workers.parallel_for(bytes.div_ceil(piece_bytes), usize::MAX, &|piece| {
            let at = piece * piece_bytes;
            let _ = self.advise(offset + at, piece_bytes.min(bytes - at), advice);
        });
    }

    /// Makes page-table entries for part of the range, as [`populate_by`](Mapping::populate_by) does; whether all of these pages
    /// are known to have memory by then.
    pub fn has_memory(&self, offset: usize, bytes: usize) -> bool {
        self.advise(offset, bytes, libc::MADV_POPULATE_READ).is_ok()
    }

    /// Makes sure that part of the range can be read. A file in memory takes some where it has a hole, also when that is read, and
    /// where there is none that would end the process.
    ///
    /// # Errors
    /// As madvise(2): `EFAULT` if there is no memory. A kernel before 5.14, and a device's memory, cannot be asked.
    pub fn take_to_read(&self, offset: usize, bytes: usize) -> Result<(), Failure> {
        loop {
            match self.advise(offset, bytes, libc::MADV_POPULATE_READ) {
                Err(failure) if failure.errno() == libc::EINTR => {}
                Err(failure) if failure.errno() == libc::EINVAL => return Ok(()),
                done => return done,
            }
        }
    }

    /// Moves part of a file in memory into large pages, as far as there are any to be had, and enters them. What is there
    /// already costs next to nothing. Best effort: a kernel before 6.1 or another file system cannot.
    pub fn collapse(&self, offset: usize, bytes: usize) -> bool {
        self.advise(offset, bytes, libc::MADV_COLLAPSE).is_ok()
    }

    /// Asks for large pages behind the range, where the kernel has some. A wish.
    pub fn prefer_large_pages(&self) {
        let _ = self.advise(0, self.bytes, libc::MADV_HUGEPAGE);
    }

    /// An aligned word that other processes may change at any time.
    pub fn word64(&self, offset: usize) -> &AtomicU64 {
        self.check(offset, 8);
        assert!(offset.is_multiple_of(8));
        // SAFETY: the word lies inside the mapping, is aligned, and is only ever accessed atomically. On a read-only
        // mapping callers only load.
        unsafe { AtomicU64::from_ptr((self.address + offset) as *mut u64) }
    }

    /// An aligned half word that other processes may change at any time.
    pub fn word32(&self, offset: usize) -> &AtomicU32 {
        self.check(offset, 4);
        assert!(offset.is_multiple_of(4));
        // SAFETY: as for `word64`.
        unsafe { AtomicU32::from_ptr((self.address + offset) as *mut u32) }
    }

    /// Copies bytes out of the mapping.
    pub fn read(&self, offset: usize, out: &mut [u8]) {
        self.check(offset, out.len());
        // SAFETY: the source was checked; `out` is a distinct Rust allocation. A concurrent writer may tear the bytes,
        // which the caller treats as hostile anyway.
        unsafe { std::ptr::copy_nonoverlapping((self.address + offset) as *const u8, out.as_mut_ptr(), out.len()) };
    }

    /// Copies bytes into the mapping.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        self.check(offset, bytes.len());
        assert!(self.writable, "writing to a read-only mapping");
        if let Some(done) = points::torn(bytes.len().div_ceil(8)) {
            for at in done.into_iter().map(|part| 8 * part) {
                self.write_whole(offset + at, &bytes[at..bytes.len().min(at + 8)]);
            }
            points::die();
        }
        self.write_whole(offset, bytes);
    }

    fn write_whole(&self, offset: usize, bytes: &[u8]) {
        // SAFETY: the caller checked the target, it is writable, and no Rust reference to it exists.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), (self.address + offset) as *mut u8, bytes.len()) };
    }

    /// Copies part of a file into the mapping (pread(2)). What is not there to be written is an error.
    pub fn read_from(&self, offset: usize, file: &File, file_offset: u64, bytes: usize) -> Result<(), Failure> {
        self.check(offset, bytes);
        assert!(self.writable, "writing to a read-only mapping");
        let mut done = 0;
        while done < bytes {
            let to = (self.address + offset + done) as *mut libc::c_void;
            let from = file_offset + done as u64;
            // SAFETY: the target was checked, and no Rust reference to it exists; the kernel checks that it can be written.
            match unsafe { libc::pread(file.as_raw_fd(), to, bytes - done, from as libc::off_t) } {
                -1 => match Failure::last("pread", format!("{bytes} bytes at {file_offset}")) {
                    failure if failure.errno() == libc::EINTR => {}
                    failure => return Err(failure),
                },
                0 => {
                    let source = std::io::ErrorKind::UnexpectedEof.into();
                    return Err(Failure { call: "pread", detail: format!("{bytes} bytes at {file_offset}"), source });
                }
                read => done += read as usize,
            }
        }
        Ok(())
    }

    /// Copies bytes from another mapping.
    pub fn copy_from(&self, offset: usize, other: &Mapping, other_offset: usize, bytes: usize) {
        self.check(offset, bytes);
        other.check(other_offset, bytes);
        assert!(self.writable, "writing to a read-only mapping");
        // SAFETY: both ranges were checked and belong to different mappings, so they do not overlap; no Rust reference to
        // the target exists.
        unsafe {
            let from = (other.address + other_offset) as *const u8;
            std::ptr::copy_nonoverlapping(from, (self.address + offset) as *mut u8, bytes);
        }
    }

    /// The bytes of part of the mapping.
    ///
    /// # Safety
    /// Nobody may write these bytes while the slice lives: a lease holds them, or the caller owns them.
    pub unsafe fn bytes_at(&self, offset: usize, bytes: usize) -> &[u8] {
        self.check(offset, bytes);
        // SAFETY: in range and mapped for as long as `self`; the caller vouches that nobody writes.
        unsafe { std::slice::from_raw_parts((self.address + offset) as *const u8, bytes) }
    }

    /// Part of the mapping as a mutable slice.
    ///
    /// # Safety
    /// The caller owns these bytes alone while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn bytes_at_mut(&self, offset: usize, bytes: usize) -> &mut [u8] {
        self.check(offset, bytes);
        assert!(self.writable, "writing to a read-only mapping");
        // SAFETY: in range, writable, mapped for as long as `self`; the caller vouches for exclusiveness.
        unsafe { std::slice::from_raw_parts_mut((self.address + offset) as *mut u8, bytes) }
    }

    /// Writes to the pages of part of the range without changing them, so that copy-on-write pages become private and armed
    /// pages are disarmed. Where memory is short, or the file that is shown has none, that is an error and never a signal.
    pub fn touch(&self, offset: usize, bytes: usize) -> Result<(), Failure> {
        if let Some(source) = points::fails(libc::ENOMEM) {
            return Err(Failure { call: "madvise", detail: format!("{bytes} bytes"), source });
        }
        loop {
            match self.advise(offset, bytes, libc::MADV_POPULATE_WRITE) {
                Err(failure) if failure.errno() == libc::EINTR => {}
                // A kernel before 5.14 does not know this advice.
                Err(failure) if failure.errno() == libc::EINVAL => return self.touch_each(offset, bytes),
                result => return result,
            }
        }
    }

    /// As [`touch`](Mapping::touch), page by page, on any kernel.
    fn touch_each(&self, offset: usize, bytes: usize) -> Result<(), Failure> {
        self.check(offset, bytes);
        let (first, end) = (offset / PAGE_BYTES * PAGE_BYTES, offset + bytes);
        (first..end).step_by(PAGE_BYTES).try_for_each(|page| futex::write_unchanged(self.word32(page)))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.private.clear();
        if let Some(workers) = self.workers.take().filter(|workers| workers.count() > 1) {
            // `munmap` would do this alone, and finds only empty page tables then.
            self.advise_by(0, self.bytes, libc::MADV_DONTNEED, &workers);
        }
        let (before, after) = self.around;
        // SAFETY: the range and what lies around it are owned, and no borrow of it can outlive `self`.
        unsafe { libc::munmap((self.address - before) as *mut libc::c_void, before + self.bytes + after) };
    }
}

#[cfg(test)]
mod tests;
