//! What a forked child must not keep.
//!
//! A child inherits open files, and with them their record locks: a producer that died would look alive for as long as
//! some child of it lives. A handler that runs in every child of fork(3) therefore closes the registered files, none of
//! which is open without being registered when a thread forks; and a generation number tells handles that they were made by
//! another process. The handler also puts copies of the child's own in the place of shared pages that its parent may write.
//!
//! It inherits locks too, as they are, and of the threads that hold them none. What belongs to a handle is of no more use
//! in the child; what belongs to the process must therefore not be a lock that anyone waits for, unless the forking thread
//! has it across the fork, as it has the gate. Values that are made once are `once_cell::race`'s: whoever comes meanwhile
//! makes one as well.

use crate::entries::Entries;
use crate::lock;
use std::cell::{Cell, RefCell};
use std::fs::{File, TryLockError};
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A bit for each descriptor that children close, as far as Linux has them by default (`fs.nr_open`). A higher one is merely
/// inherited, as any other file would be.
static CLOSE: [AtomicU64; 1 << 14] = [const { AtomicU64::new(0) }; 1 << 14];
/// Words of [`CLOSE`] that ever had a bit.
static CLOSE_WORDS: AtomicUsize = AtomicUsize::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(0);
static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

/// Held by whoever forks, and by whoever must not be forked from the middle of something.
static GATE: Mutex<()> = Mutex::new(());

thread_local! {
    static IS_IN_GATE: Cell<bool> = const { Cell::new(false) };
    static FORKING: RefCell<Option<InGate>> = const { RefCell::new(None) };
}

/// Sets [`IS_IN_GATE`] from before the lock is taken until after it is given back, so that there is no instant in which a
/// signal handler that forks would wait for this very thread.
struct Mark;

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = IS_IN_GATE.try_with(|is_in| is_in.set(false));
    }
}

struct InGate {
    _guard: MutexGuard<'static, ()>,
    _mark: Mark,
}

impl InGate {
    /// `None` if this thread is in it already: in a signal handler, which must not wait for what it interrupted.
    fn enter() -> Option<InGate> {
        let is_first = IS_IN_GATE.try_with(|is_in| !is_in.replace(true)).unwrap_or(false);
        let mark = is_first.then_some(Mark)?;
        Some(InGate { _guard: GATE.lock().unwrap_or_else(PoisonError::into_inner), _mark: mark })
    }
}

/// Does what no other thread is to fork in the middle of: a fork waits for it, so it must not take long, nor wait for anybody.
/// One thread at a time is in here, but for a signal handler of that thread.
pub fn undivided<T>(work: impl FnOnce() -> T) -> T {
    generation();
    let _in_gate = InGate::enter();
    work()
}

extern "C" fn before() {
    // Where the handlers are installed twice, the first of them has entered.
    if let Some(in_gate) = InGate::enter() {
        let _ = FORKING.try_with(|forking| forking.replace(Some(in_gate)));
    }
}

extern "C" fn in_parent() {
    drop(FORKING.try_with(RefCell::take));
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    for (index, word) in CLOSE[..CLOSE_WORDS.load(Ordering::SeqCst)].iter().enumerate() {
        let mut bits = word.swap(0, Ordering::SeqCst);
        while bits != 0 {
            let descriptor = index * 64 + bits.trailing_zeros() as usize;
            // SAFETY: close is async-signal-safe. The owner of the descriptor learns from the generation that it must
            // neither use nor close it any more.
            unsafe { libc::close(descriptor as i32) };
            bits &= bits - 1;
        }
    }
    RANGES.all().for_each(Range::make_private);
    drop(FORKING.try_with(RefCell::take));
}

/// A number that differs between a process and its forked children.
pub fn generation() -> u32 {
    // Threads that come here together may install them twice, which only counts a fork twice.
    if !IS_INSTALLED.load(Ordering::Acquire) {
        // SAFETY: the handlers live as long as the program or library they are in, and the C library forgets them when a
        // library is unloaded. What the child's touches is whole there, for the forking thread had it, or is atomic.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        IS_INSTALLED.store(true, Ordering::Release);
    }
    GENERATION.load(Ordering::Relaxed)
}

/// A file that forked children do not keep open, and with it no lock that is taken on it.
#[derive(Debug)]
pub struct Unforked {
    file: ManuallyDrop<File>,
    generation: u32,
    /// Whether the whole file was locked: few are, and to give back what nobody took costs a call.
    is_locked_whole: AtomicBool,
}

/// The word of [`CLOSE`] for a descriptor, its index, and the descriptor's bit.
fn place(descriptor: i32) -> Option<(usize, &'static AtomicU64, u64)> {
    let index = usize::try_from(descriptor).ok()? / 64;
    Some((index, CLOSE.get(index)?, 1 << (descriptor % 64)))
}

impl Unforked {
    /// The file that `open` opens, which must not wait for anybody: a fork waits for it.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn open<E>(open: impl FnOnce() -> Result<File, E>) -> Result<Unforked, E> {
        // A child forked between the two steps would have the open file, and each lock that this process takes on it
        // later, for as long as it lives.
        undivided(|| {
            let file = open()?;
            if let Some((index, word, bit)) = place(file.as_raw_fd()) {
                CLOSE_WORDS.fetch_max(index + 1, Ordering::SeqCst);
                word.fetch_or(bit, Ordering::SeqCst);
            }
            let (file, is_locked_whole) = (ManuallyDrop::new(file), AtomicBool::new(false));
            Ok(Unforked { file, generation: generation(), is_locked_whole })
        })
    }

    /// Whether this is the process that opened the file.
    pub fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    /// The file, unless this process is a forked child of the one that opened it.
    pub fn get(&self) -> Option<&File> {
        self.is_ours().then_some(&*self.file)
    }

    /// The file, which forked children inherit from here on; `None` in a forked child.
    pub fn into_file(self) -> Option<File> {
        let mut this = ManuallyDrop::new(self);
        let is_ours = this.is_ours();
        undivided(|| {
            is_ours.then(|| {
                if let Some((_, word, bit)) = place(this.file.as_raw_fd()) {
                    word.fetch_and(!bit, Ordering::SeqCst);
                }
                // SAFETY: the value is not dropped, so that the file is taken once, by the process that opened it.
                unsafe { ManuallyDrop::take(&mut this.file) }
            })
        })
    }

    /// Locks the whole file or directory, as flock(2) does, and waits until nobody else has it locked. Nothing is done in a
    /// forked child.
    ///
    /// # Errors
    /// As flock(2).
    pub fn lock_whole(&self) -> std::io::Result<()> {
        let Some(file) = self.get() else { return Ok(()) };
        self.is_locked_whole.store(true, Ordering::Relaxed);
        file.lock()
    }

    /// As [`lock_whole`](Unforked::lock_whole), but does not wait.
    ///
    /// # Errors
    /// As flock(2); that somebody else has it locked.
    pub fn try_lock_whole(&self) -> Result<(), TryLockError> {
        let Some(file) = self.get() else { return Ok(()) };
        self.is_locked_whole.store(true, Ordering::Relaxed);
        file.try_lock()
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        let Some(file) = self.get() else { return };
        // A child that is about to start another program has the file, too, until it does. To give back what one has, or
        // nothing, cannot fail in a way that could be mended.
        let _ = lock::unlock(file, 0, 0);
        if self.is_locked_whole.load(Ordering::Relaxed) {
            let _ = file.unlock();
        }
        let descriptor = file.as_raw_fd();
        // A child has the files of one instant of its fork, and the memory of a later one.
        undivided(|| {
            if let Some((_, word, bit)) = place(descriptor) {
                word.fetch_and(!bit, Ordering::SeqCst);
            }
            // SAFETY: the file is dropped once, here, and only by the process that opened it.
            unsafe { ManuallyDrop::drop(&mut self.file) };
        });
    }
}

/// A file that all of a process have together for as long as anybody has it. A forked child opens its own.
#[derive(Debug)]
pub struct Common {
    known: Mutex<Weak<Unforked>>,
}

impl Common {
    /// With nothing open.
    pub const fn new() -> Common {
        Common { known: Mutex::new(Weak::new()) }
    }

    /// The file that is open, or else the one that `open` opens, which must not wait for anybody.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn get<E>(&self, open: impl FnOnce() -> Result<File, E>) -> Result<Arc<Unforked>, E> {
        undivided(|| {
            // Who has it in the gate is this thread, interrupted by a signal handler: that one opens a file of its own.
            let Ok(mut known) = self.known.try_lock() else { return Unforked::open(open).map(Arc::new) };
            if let Some(file) = known.upgrade().filter(|file| file.is_ours()) {
                return Ok(file);
            }
            let file = Arc::new(Unforked::open(open)?);
            *known = Arc::downgrade(&file);
            Ok(file)
        })
    }
}

impl Default for Common {
    fn default() -> Common {
        Common::new()
    }
}

/// Addresses at which part of a file is mapped, for all who map it. Those that are taken have bytes while children are to
/// have a copy. All of it is atomic: a thread that forks must find no lock that it might have itself.
#[derive(Default)]
struct Range {
    is_taken: AtomicBool,
    bytes: AtomicUsize,
    address: AtomicUsize,
    descriptor: AtomicI32,
    offset: AtomicU64,
}

static RANGES: Entries<Range> = Entries::new();

impl Range {
    /// In a child, whose only thread this is: shows the same pages of the file, but what is written is the child's.
    fn make_private(&self) {
        let bytes = self.bytes.swap(0, Ordering::SeqCst);
        if bytes == 0 {
            return;
        }
        let address = self.address.load(Ordering::Relaxed) as *mut libc::c_void;
        let (descriptor, offset) = (self.descriptor.load(Ordering::Relaxed), self.offset.load(Ordering::Relaxed));
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_NORESERVE;
        // SAFETY: who registered the range owns it, and takes it back before it is anybody else's. The calls are
        // async-signal-safe.
        unsafe {
            let at = libc::mmap(
                address,
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags,
                descriptor,
                offset as libc::off_t,
            );
            if at == libc::MAP_FAILED {
                // Better the child does not see these pages than that it writes its parent's.
                libc::mprotect(address, bytes, libc::PROT_NONE);
            }
        }
    }
}

/// Says that forked children have copies of pages that are shared with everybody who maps their file.
#[derive(Debug)]
pub(crate) struct Private {
    range: Option<(usize, &'static Range)>,
    _file: Arc<File>,
}

impl std::fmt::Debug for Range {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {:#x}", self.bytes.load(Ordering::Relaxed), self.address.load(Ordering::Relaxed))
    }
}

impl Private {
    /// Of part of a file that is mapped at an address, until [`end`](Private::end).
    pub(crate) fn begin(address: usize, bytes: usize, file: Arc<File>, offset: u64) -> Private {
        generation();
        // None if the process has a thousand times as many as it can have mappings.
        let range = RANGES.take(|range| !range.is_taken.swap(true, Ordering::AcqRel));
        if let Some((_, range)) = range {
            range.address.store(address, Ordering::Relaxed);
            range.descriptor.store(file.as_raw_fd(), Ordering::Relaxed);
            range.offset.store(offset, Ordering::Relaxed);
            range.bytes.store(bytes, Ordering::SeqCst);
        }
        Private { range, _file: file }
    }

    /// The addresses show something else by now, or are about to be unmapped.
    pub(crate) fn end(&self) {
        if let Some((_, range)) = self.range {
            range.bytes.store(0, Ordering::SeqCst);
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.end();
        if let Some((number, range)) = self.range {
            range.is_taken.store(false, Ordering::Release);
            RANGES.give_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_file_is_open_once_while_anybody_has_it_and_a_child_opens_its_own() {
        let common = Common::new();
        let open = || common.get(|| File::open("/dev/null")).unwrap();
        let fails = || common.get(|| Err::<File, _>(()));
        let first = open();
        assert!(Arc::ptr_eq(&first, &open()));
        // SAFETY: the child opens a file and ends without running what belongs to the parent.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let own = open();
            let is_right = own.is_ours() && own.get().is_some() && !first.is_ours() && Arc::ptr_eq(&own, &open());
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!is_right)) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live number, and the child is one of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(Arc::ptr_eq(&first, &fails().unwrap()));
        drop(first);
        assert!(fails().is_err());
        assert!(open().get().is_some());
    }

    #[test]
    fn a_child_has_none_of_them_however_many_there_are() {
        const COUNT: usize = 1500;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls are given a live structure.
        unsafe {
            libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
        let open = || Unforked::open(|| File::open("/dev/null")).unwrap();
        let mut files: Vec<Unforked> = (0..COUNT).map(|_| open()).collect();
        files.truncate(COUNT - 1);
        let descriptors: Vec<i32> = files.iter().map(|file| file.file.as_raw_fd()).collect();
        // SAFETY: the child takes no memory, and ends without running what belongs to the parent.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: the call only asks.
            let is_open = |descriptor: &i32| unsafe { libc::fcntl(*descriptor, libc::F_GETFD) } >= 0;
            let all = !files[0].is_ours() && files[0].get().is_none() && !descriptors.iter().any(is_open);
            // SAFETY: as above.
            unsafe { libc::_exit(i32::from(!all)) };
        }
        let mut status = 0;
        // SAFETY: the pointer is to a live number, and the child is one of this process.
        assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
        assert_eq!(status, 0);
        assert!(files.iter().all(|file| file.get().is_some_and(|file| file.metadata().is_ok())));
    }
}
