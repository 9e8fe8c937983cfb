//! What is asked of the kernel, past the functions that this library and others put in the way.

use libc::{c_int, c_void};
use std::sync::atomic::AtomicU32;

/// A window: what one entry of a page table of the second level covers.
pub const WINDOW_BYTES: usize = 2 << 20;
pub const PAGE_BYTES: usize = 4 << 10;

pub const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// `errno` of a call that failed.
pub type Errno = c_int;

pub fn errno() -> Errno {
    // SAFETY: the C library gives each thread a valid location.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(errno: Errno) {
    // SAFETY: as for `errno`.
    unsafe { *libc::__errno_location() = errno };
}

/// Runs `work` without a trace in `errno`.
pub fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

/// Makes a call whose arguments are all as wide as the kernel reads them.
///
/// # Safety
/// As of the call.
unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> Result<usize, Errno> {
    let [one, two, three, four, five, six] = arguments;
    // SAFETY: the caller's.
    match unsafe { libc::syscall(number, one, two, three, four, five, six) } {
        -1 => Err(errno()),
        result => Ok(result as usize),
    }
}

/// New memory without a file. Where is the kernel's choice.
pub fn map(bytes: usize, protection: c_int, flags: c_int) -> Result<usize, Errno> {
    map_file(bytes, protection, flags | libc::MAP_ANONYMOUS, -1, 0)
}

/// A new mapping of a file, from an offset on. Where is the kernel's choice.
pub fn map_file(bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: usize) -> Result<usize, Errno> {
    // SAFETY: without MAP_FIXED the call touches no memory that there is.
    unsafe { call(libc::SYS_mmap, [0, bytes, protection as usize, flags as usize, file as usize, offset]) }
}

/// Takes a mapping away.
///
/// # Safety
/// It is this library's own, and nobody uses it any more.
pub unsafe fn unmap(address: usize, bytes: usize) {
    // SAFETY: as said.
    let _ = unsafe { call(libc::SYS_munmap, [address, bytes, 0, 0, 0, 0]) };
}

/// Makes addresses without memory of what was there.
///
/// # Safety
/// They are this library's own, and nobody misses what was there.
pub unsafe fn reserve(address: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: as said.
    unsafe { map_at(address, bytes, libc::PROT_NONE, libc::MAP_FIXED) }
}

/// The same, where nothing is. Says whether that was so.
pub fn reserve_free(address: usize, bytes: usize) -> bool {
    // SAFETY: what is there stays.
    unsafe { map_at(address, bytes, libc::PROT_NONE, libc::MAP_FIXED_NOREPLACE) }.is_ok()
}

/// Whether something is mapped at each address of a window or less.
pub fn is_mapped(address: usize, bytes: usize) -> bool {
    let mut pages = [0u8; WINDOW_BYTES / PAGE_BYTES];
    // SAFETY: the call writes a byte for each page.
    bytes <= WINDOW_BYTES && unsafe { libc::mincore(address as *mut c_void, bytes, pages.as_mut_ptr()) } == 0
}

/// Puts new ordinary memory in the place of what was there.
///
/// # Safety
/// As of [`reserve`].
pub unsafe fn renew(address: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: as said.
    unsafe { map_at(address, bytes, READ_WRITE, libc::MAP_FIXED) }
}

unsafe fn map_at(address: usize, bytes: usize, protection: c_int, fixed: c_int) -> Result<(), Errno> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | fixed;
    // SAFETY: the caller's.
    unsafe { call(libc::SYS_mmap, [address, bytes, protection as usize, flags as usize, usize::MAX, 0]) }.map(drop)
}

/// Puts a mapping in the place of another.
///
/// # Safety
/// Both are this library's own, and nobody misses what was at `to`.
pub unsafe fn move_over(from: usize, bytes: usize, to: usize) -> Result<(), Errno> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
    // SAFETY: as said.
    unsafe { call(libc::SYS_mremap, [from, bytes, bytes, flags as usize, to, 0]) }.map(drop)
}

/// The same, and the addresses that are left stay mapped, so that nobody else gets them.
///
/// # Safety
/// As of [`move_over`]; what was at `from` is missed by nobody there.
pub unsafe fn move_and_keep(from: usize, bytes: usize, to: usize) -> Result<(), Errno> {
    let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
    // SAFETY: as said.
    unsafe { call(libc::SYS_mremap, [from, bytes, bytes, flags as usize, to, 0]) }.map(drop)
}

/// Puts ordinary memory with the same content where a mapping could not be moved, for the kernel may have taken away what was
/// there.
///
/// # Safety
/// As of [`move_over`].
pub unsafe fn put_back(from: usize, bytes: usize, to: usize) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED | libc::MAP_NORESERVE;
    // SAFETY: as said.
    unsafe {
        if call(libc::SYS_mmap, [to, bytes, READ_WRITE as usize, flags as usize, usize::MAX, 0]).is_err() {
            return;
        }
        copy_nonzero(from, to, bytes);
    }
}

/// Copies what is not zero to where all is: pages of zeros take no memory there.
///
/// # Safety
/// Both have that many bytes, and nobody else uses them meanwhile.
pub unsafe fn copy_nonzero(from: usize, to: usize, bytes: usize) {
    for at in (0..bytes).step_by(PAGE_BYTES) {
        // SAFETY: as said.
        unsafe {
            let page = std::slice::from_raw_parts((from + at) as *const u8, PAGE_BYTES.min(bytes - at));
            if page.iter().any(|byte| *byte != 0) {
                std::ptr::copy_nonoverlapping(page.as_ptr(), (to + at) as *mut u8, page.len());
            }
        }
    }
}

/// Changes the protection of memory.
///
/// # Safety
/// It is this library's own, and may be used so.
pub unsafe fn protect(address: usize, bytes: usize, protection: c_int) -> Result<(), Errno> {
    // SAFETY: as said.
    unsafe { call(libc::SYS_mprotect, [address, bytes, protection as usize, 0, 0, 0]) }.map(drop)
}

/// Advice that changes no content: large pages, or that pages are there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// In large pages where some can be had.
    Large,
    /// Made large now.
    Collapse,
    /// There now, to be written.
    Populate,
    /// Entered now, to be read.
    Enter,
}

/// Gives advice. Memory that is not there, or cannot be, is an error.
pub fn advise(address: usize, bytes: usize, advice: Advice) -> Result<(), Errno> {
    let number = match advice {
        Advice::Large => libc::MADV_HUGEPAGE,
        Advice::Collapse => libc::MADV_COLLAPSE,
        Advice::Populate => libc::MADV_POPULATE_WRITE,
        Advice::Enter => libc::MADV_POPULATE_READ,
    };
    // SAFETY: none of them changes what is in the memory.
    unsafe { call(libc::SYS_madvise, [address, bytes, number as usize, 0, 0, 0]) }.map(drop)
}

/// Reads memory of this process. Where it is not there this is an error and no signal.
///
/// By the call that writes into another process's memory, which is this one: what it writes it reads as any call reads
/// its arguments. The call that reads would first take a large page of its own for what is shared with another process.
/// Where that call is refused, as some containers do, memory goes through a pipe.
pub fn read_own(address: usize, out: &mut [u8]) -> Result<(), Errno> {
    match read_own_at_once(address, out) {
        Err(libc::EPERM | libc::ENOSYS) => read_own_by_pipe(address, out),
        done => done,
    }
}

fn read_own_by_pipe(address: usize, out: &mut [u8]) -> Result<(), Errno> {
    let mut ends = [-1; 2];
    // SAFETY: the call writes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(errno());
    }
    let [reader, writer] = ends.map(Descriptor);
    let mut done = 0;
    while done < out.len() {
        // What a pipe takes at once at least, so that the write does not wait.
        let count = PAGE_BYTES.min(out.len() - done);
        // SAFETY: the call reads what it checks.
        let written = unsafe { call(libc::SYS_write, [writer.0 as usize, address + done, count, 0, 0, 0]) }?;
        let mut from = 0;
        while from < written {
            match reader.read(&mut out[done + from..done + written])? {
                0 => return Err(libc::EIO),
                count => from += count,
            }
        }
        done += written;
    }
    Ok(())
}

fn read_own_at_once(address: usize, out: &mut [u8]) -> Result<(), Errno> {
    // SAFETY: nobody else has what is written.
    unsafe { copy_at_once(address, out.as_mut_ptr() as usize, out.len()) }
}

/// Copies at most a page of this process's memory. Where one of the two is not there, or may not be written, this is an error and no signal.
///
/// # Safety
/// Nobody misses what was there.
pub unsafe fn copy_own(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    // SAFETY: the caller's.
    match unsafe { copy_at_once(from, to, bytes) } {
        Err(libc::EPERM | libc::ENOSYS) => copy_by_pipe(from, to, bytes),
        done => done,
    }
}

/// As [`copy_own`], by calls that containers let a process make.
fn copy_by_pipe(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    let mut ends = [-1; 2];
    // SAFETY: the call writes two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(errno());
    }
    let [reader, writer] = ends.map(Descriptor);
    let mut done = 0;
    while done < bytes {
        // SAFETY: the calls check both, and the caller gives up what is there. A page is what a pipe takes at once at least.
        done += unsafe {
            let written = call(libc::SYS_write, [writer.0 as usize, from + done, bytes - done, 0, 0, 0])?;
            call(libc::SYS_read, [reader.0 as usize, to + done, written, 0, 0, 0])?
        };
    }
    Ok(())
}

/// # Safety
/// Nobody misses what was there.
unsafe fn copy_at_once(from: usize, to: usize, bytes: usize) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes {
        let part = |begin: usize| libc::iovec { iov_base: (begin + done) as *mut c_void, iov_len: bytes - done };
        let (from, to) = (part(from), part(to));
        // SAFETY: the call checks both, and the caller gives up what is written over.
        let copied = unsafe {
            let (from, to) = (&raw const from as usize, &raw const to as usize);
            call(libc::SYS_process_vm_writev, [own_pid() as usize, from, 1, to, 1, 0])
        };
        match copied? {
            0 => return Err(libc::EFAULT),
            copied => done += copied,
        }
    }
    Ok(())
}

pub fn own_pid() -> libc::pid_t {
    // SAFETY: takes nothing.
    unsafe { libc::syscall(libc::SYS_getpid) as libc::pid_t }
}

/// Waits until a child has ended. The C library's function for it ends a thread there that somebody has cancelled.
pub fn wait_for(child: libc::pid_t) {
    // SAFETY: the call writes nothing.
    while unsafe { call(libc::SYS_wait4, [child as usize, 0, 0, 0, 0, 0]) } == Err(libc::EINTR) {}
}

/// Whether a child has ended. It stays to be waited for.
pub fn has_ended(child: libc::pid_t) -> bool {
    // SAFETY: it is a structure of numbers.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = (libc::WEXITED | libc::WNOHANG | libc::WNOWAIT) as usize;
    let to = &raw mut info as usize;
    // SAFETY: the call writes one structure of this kind.
    match unsafe { call(libc::SYS_waitid, [libc::P_PID as usize, child as usize, to, options, 0, 0]) } {
        // SAFETY: of a child that ended, or zero.
        Ok(_) => unsafe { info.si_pid() != 0 },
        Err(libc::EINTR) => false,
        // Where nobody waits for children, the kernel forgets them.
        Err(_) => true,
    }
}

/// Takes a signal of a set that waits, if one does. As [`wait_for`] past the C library.
pub fn take_signal(set: &libc::sigset_t) {
    /// Signals that the kernel knows, in bytes.
    const SET_BYTES: usize = 8;
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let (set, at_once) = (&raw const *set as usize, &raw const at_once as usize);
    // SAFETY: the call reads a set, of which the kernel has the first bytes, and a time.
    while unsafe { call(libc::SYS_rt_sigtimedwait, [set, 0, at_once, SET_BYTES, 0, 0]) } == Err(libc::EINTR) {}
}

/// Writes to a descriptor what it takes at once.
pub fn write(descriptor: c_int, bytes: &[u8]) {
    // SAFETY: the call reads the bytes, and no more of them.
    let _ = unsafe { call(libc::SYS_write, [descriptor as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
}

/// Has pages of memory that are not there yet come from memory nodes in turn, a bit for each.
pub fn interleave(address: usize, bytes: usize, nodes: u64) -> Result<(), Errno> {
    let (mode, bits) = (libc::MPOL_INTERLEAVE as usize, u64::BITS as usize + 1);
    // SAFETY: the call reads as many bits as it is told of, less one, and changes no content.
    unsafe { call(libc::SYS_mbind, [address, bytes, mode, &raw const nodes as usize, bits, 0]) }.map(drop)
}

/// A descriptor for the faults of this process.
pub fn userfaultfd(flags: c_int) -> Result<Descriptor, Errno> {
    // SAFETY: the call makes a descriptor.
    let opened = unsafe { call(libc::SYS_userfaultfd, [(flags | libc::O_CLOEXEC) as usize, 0, 0, 0, 0, 0]) };
    opened.map(|descriptor| Descriptor(descriptor as c_int))
}

/// Makes a call on a descriptor, which reads and writes words.
///
/// # Safety
/// The call has as many words.
pub unsafe fn ioctl<const WORDS: usize>(
    file: &Descriptor,
    number: usize,
    words: &mut [u64; WORDS],
) -> Result<(), Errno> {
    // SAFETY: as said.
    unsafe { call(libc::SYS_ioctl, [file.0 as usize, number, words.as_mut_ptr() as usize, 0, 0, 0]) }.map(drop)
}

/// A descriptor that is closed in the end.
#[derive(Debug)]
pub struct Descriptor(pub c_int);

impl Descriptor {
    /// Opens a path that ends with a zero.
    pub fn open(path: &std::ffi::CStr, flags: c_int) -> Result<Descriptor, Errno> {
        // SAFETY: the path ends with a zero.
        let opened = unsafe {
            let flags = flags | libc::O_CLOEXEC;
            call(libc::SYS_openat, [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, 0o600, 0, 0])
        };
        opened.map(|descriptor| Descriptor(descriptor as c_int))
    }

    /// Whether a byte of the file is in memory, so that it is read without the disk. What cannot tell is an error.
    pub fn is_in_memory(&self, offset: u64) -> Result<bool, Errno> {
        let mut byte = 0u8;
        let into = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
        let (into, flags) = (&raw const into as usize, libc::RWF_NOWAIT as usize);
        // SAFETY: the call writes one byte.
        match unsafe { call(libc::SYS_preadv2, [self.0 as usize, into, 1, offset as usize, 0, flags]) } {
            Ok(bytes) => Ok(bytes == 1),
            Err(libc::EAGAIN) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Writes a page of memory at an offset. Where the memory is not there this is an error.
    pub fn write_at(&self, address: usize, offset: usize) -> Result<(), Errno> {
        // SAFETY: the call reads what it checks.
        match unsafe { call(libc::SYS_pwrite64, [self.0 as usize, address, PAGE_BYTES, offset, 0, 0]) } {
            Ok(PAGE_BYTES) => Ok(()),
            Ok(_) => Err(libc::EFAULT),
            Err(errno) => Err(errno),
        }
    }

    /// Reads from an offset on.
    pub fn read_at(&self, out: &mut [u8], offset: usize) -> Result<usize, Errno> {
        // SAFETY: the call writes at most as many bytes as there are.
        unsafe { call(libc::SYS_pread64, [self.0 as usize, out.as_mut_ptr() as usize, out.len(), offset, 0, 0]) }
    }

    /// Reads what is there at once.
    pub fn read(&self, out: &mut [u8]) -> Result<usize, Errno> {
        loop {
            // SAFETY: the call writes at most as many bytes as there are.
            match unsafe { call(libc::SYS_read, [self.0 as usize, out.as_mut_ptr() as usize, out.len(), 0, 0, 0]) } {
                Err(libc::EINTR) => {}
                other => return other,
            }
        }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: nobody else has this descriptor.
        let _ = unsafe { call(libc::SYS_close, [self.0 as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Says of each page of a range whether it is there, in the lowest bit. None is touched.
pub fn resident(address: usize, bytes: usize, there: &mut [u8]) -> Result<(), Errno> {
    if there.len() * PAGE_BYTES < bytes {
        return Err(libc::EINVAL);
    }
    let to = there.as_mut_ptr() as usize;
    // SAFETY: the call writes a byte for each page of the range.
    unsafe { call(libc::SYS_mincore, [address, bytes, to, 0, 0, 0]) }.map(drop)
}

/// Sleeps as long as a word is as said, or until it is woken.
pub fn sleep_while(word: &AtomicU32, is: u32) {
    let wait = (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word outlives the call, which only reads it.
    let _ = unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, wait, is as usize, 0, 0, 0]) };
}

/// Wakes one who sleeps.
pub fn wake_one(word: &AtomicU32) {
    let wake = (libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word's address is a name here.
    let _ = unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, wake, 1, 0, 0, 0]) };
}

/// Sleeps until a word that other processes have, too, is another one than said, or a little while.
pub fn sleep_shared_while(word: &AtomicU32, is: u32) {
    let longest = libc::timespec { tv_sec: 0, tv_nsec: 20_000_000 };
    let (word, longest) = (word.as_ptr() as usize, &raw const longest as usize);
    // SAFETY: the word and the time outlive the call, which only reads them.
    let _ = unsafe { call(libc::SYS_futex, [word, libc::FUTEX_WAIT as usize, is as usize, longest, 0, 0]) };
}

/// Wakes another process that sleeps by such a word.
pub fn wake_shared(word: &AtomicU32) {
    // SAFETY: the word's address is a name here.
    let _ = unsafe { call(libc::SYS_futex, [word.as_ptr() as usize, libc::FUTEX_WAKE as usize, 1, 0, 0, 0]) };
}

/// Whether the process may have only so many addresses.
pub fn has_address_limit() -> bool {
    // SAFETY: plain data, which the call fills.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_AS, &mut limit) == 0 && limit.rlim_cur != libc::RLIM_INFINITY
    }
}

/// The machine's memory.
pub fn memory_bytes() -> usize {
    // SAFETY: plain data, which the call fills.
    let told = unsafe {
        let mut told: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&mut told);
        told
    };
    (told.totalram as usize).saturating_mul(told.mem_unit as usize)
}

/// Milliseconds since some instant, of a clock that costs nothing to read.
pub fn now_ms() -> u64 {
    // SAFETY: plain data, which the call fills.
    let now = unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now);
        now
    };
    now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
}
