//! Stand-ins for a network card or a GPU that any user has: they are told of memory once, keep its pages, and read or write
//! these without asking the page table again.
#![allow(unsafe_code)]

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};

const PAGE: usize = 4096;

/// A pipe that was given pages (vmsplice(2)): whoever looks into it sees what is in them then.
pub struct Viewer {
    pages: usize,
    reader: std::io::PipeReader,
    _writer: std::io::PipeWriter,
}

impl Viewer {
    /// Tells it of pages by their addresses; no more than a pipe of the default size takes.
    pub fn new(addresses: &[usize]) -> Viewer {
        assert!(addresses.len() <= 16);
        let (reader, writer) = std::io::pipe().unwrap();
        let page = |address: &usize| libc::iovec { iov_base: *address as *mut libc::c_void, iov_len: PAGE };
        let pages: Vec<libc::iovec> = addresses.iter().map(page).collect();
        // SAFETY: the vectors name pages that are mapped, which the kernel keeps for as long as the pipe has them.
        let taken = unsafe { libc::vmsplice(writer.as_raw_fd(), pages.as_ptr(), pages.len(), libc::SPLICE_F_NONBLOCK) };
        assert_eq!(taken, (pages.len() * PAGE) as isize, "{}", std::io::Error::last_os_error());
        Viewer { pages: pages.len(), reader, _writer: writer }
    }

    /// What its pages hold, one after the other.
    pub fn look(&self) -> Vec<u8> {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let bytes = self.pages * PAGE;
        // SAFETY: tee(2) takes descriptors and numbers only; both pipes are open.
        let taken = unsafe { libc::tee(self.reader.as_raw_fd(), writer.as_raw_fd(), bytes, libc::SPLICE_F_NONBLOCK) };
        assert_eq!(taken, bytes as isize, "{}", std::io::Error::last_os_error());
        drop(writer);
        let mut content = Vec::with_capacity(bytes);
        reader.read_to_end(&mut content).unwrap();
        content
    }
}

/// An io_uring with one registered buffer (io_uring_register(2), `IORING_REGISTER_BUFFERS`), which the kernel writes into by the
/// pages it had when it was registered.
pub struct Ring {
    ring: OwnedFd,
    map: usize,
    entries: usize,
    offsets: Offsets,
    address: usize,
    reader: std::io::PipeReader,
    writer: std::io::PipeWriter,
}

/// Where the kernel put what both sides share, in bytes from the map's begin.
struct Offsets {
    submitted: usize,
    array: usize,
    taken: usize,
    completed: usize,
    completions: usize,
    mask: usize,
}

// The ring of one entry lies in one page, and so does the entry.
const MAP_BYTES: usize = PAGE;
const ENTRY_BYTES: usize = 64;
const OFFSET_ENTRIES: i64 = 0x1000_0000;
const REGISTER_BUFFERS: u32 = 0;
const READ_FIXED: u8 = 4;
const ENTER_GETEVENTS: u32 = 1;
const FEATURE_SINGLE_MMAP: u32 = 1;

impl Ring {
    /// Registers memory; an error says why this system or this user cannot.
    pub fn new(address: usize, bytes: usize) -> std::io::Result<Ring> {
        let mut parameters = [0u32; 30];
        // SAFETY: the call fills the 120 bytes of its parameters.
        let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
        if ring < 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: the call returned a new descriptor, owned by nobody else.
        let ring = unsafe { OwnedFd::from_raw_fd(ring as RawFd) };
        if parameters[5] & FEATURE_SINGLE_MMAP == 0 {
            return Err(std::io::Error::other("a kernel before 5.4"));
        }
        let buffer = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes };
        // SAFETY: the vector names memory that the test keeps for longer than the ring.
        let registered = unsafe {
            libc::syscall(libc::SYS_io_uring_register, ring.as_raw_fd(), REGISTER_BUFFERS, &raw const buffer, 1)
        };
        if registered < 0 {
            return Err(std::io::Error::last_os_error());
        }
        let map = |offset: i64| {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the kernel chooses the address.
            let at = unsafe {
                libc::mmap(std::ptr::null_mut(), MAP_BYTES, protection, libc::MAP_SHARED, ring.as_raw_fd(), offset)
            };
            assert_ne!(at, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
            at as usize
        };
        // Offsets of the submission ring stand in words 10 to 19 of the parameters, those of the completion ring behind.
        let at = |word: usize| parameters[word] as usize;
        let offsets = Offsets {
            submitted: at(11),
            array: at(16),
            taken: at(20),
            completed: at(21),
            mask: at(22),
            completions: at(25),
        };
        let (reader, writer) = std::io::pipe()?;
        Ok(Ring { map: map(0), entries: map(OFFSET_ENTRIES), ring, offsets, address, reader, writer })
    }

    fn word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: the offset is one that the kernel named in the map, and the word is only accessed atomically.
        unsafe { AtomicU32::from_ptr((self.map + offset) as *mut u32) }
    }

    /// Writes bytes at an offset of the registered memory, as a device does.
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(bytes.len() <= PAGE);
        self.writer.write_all(bytes).unwrap();
        let mut entry = [0u8; ENTRY_BYTES];
        entry[0] = READ_FIXED;
        entry[4..8].copy_from_slice(&self.reader.as_raw_fd().to_ne_bytes());
        entry[8..16].copy_from_slice(&u64::MAX.to_ne_bytes());
        entry[16..24].copy_from_slice(&((self.address + offset) as u64).to_ne_bytes());
        entry[24..28].copy_from_slice(&(bytes.len() as u32).to_ne_bytes());
        // SAFETY: the ring has one entry, which the kernel looks at only when it is submitted.
        unsafe { std::ptr::copy_nonoverlapping(entry.as_ptr(), self.entries as *mut u8, ENTRY_BYTES) };
        self.word(self.offsets.array).store(0, Ordering::Relaxed);
        self.word(self.offsets.submitted).fetch_add(1, Ordering::Release);
        // SAFETY: the entry names an open pipe and registered memory.
        let done = unsafe {
            libc::syscall(
                libc::SYS_io_uring_enter,
                self.ring.as_raw_fd(),
                1,
                1,
                ENTER_GETEVENTS,
                std::ptr::null::<u8>(),
                0,
            )
        };
        assert_eq!(done, 1, "{}", std::io::Error::last_os_error());
        let taken = self.word(self.offsets.taken).load(Ordering::Relaxed);
        assert_ne!(taken, self.word(self.offsets.completed).load(Ordering::Acquire), "nothing was completed");
        let mask = self.word(self.offsets.mask).load(Ordering::Relaxed);
        let result =
            self.word(self.offsets.completions + (taken & mask) as usize * 16 + 8).load(Ordering::Relaxed) as i32;
        self.word(self.offsets.taken).store(taken.wrapping_add(1), Ordering::Release);
        assert_eq!(result, bytes.len() as i32, "{}", std::io::Error::from_raw_os_error(-result.min(0)));
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for map in [self.map, self.entries] {
            // SAFETY: both ranges were mapped for this ring, and nothing refers to them any more.
            unsafe { libc::munmap(map as *mut libc::c_void, MAP_BYTES) };
        }
    }
}
