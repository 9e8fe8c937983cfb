//! Pages of the pool, at addresses of our own.
//!
//! Each run of pages is a private mapping of a file without a name, which is closed again: the program's descriptors
//! stay its own, and what the mapping has is free when it is gone. A private mapping takes its reservation when it is
//! made, so a pool that has too few pages says so then, and not by a signal later. The run is filled elsewhere and
//! moved to its place only when it is whole.

use crate::bounds::{self, Bound, Size};
use crate::kernel::{
    Advice, Descriptor, Errno, READ_WRITE, WINDOW_BYTES, advise, map, map_file, move_over, put_back, quietly, unmap,
};
use crate::nodes;
use crate::say::say;
use crate::setting;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

/// What a hugetlbfs says of itself in statfs(2).
const HUGETLBFS: i64 = 0x9584_58f6;

/// A pool just opened.
pub struct Open {
    file: Descriptor,
    pub page_bytes: usize,
    /// Bytes that nobody has.
    pub free_bytes: usize,
}

/// Why nothing comes from the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Nobody named one.
    None,
    /// A child copies what its parent has.
    Closed,
    /// A call failed.
    Call(&'static str, Errno),
    /// The directory is no longer a pool's.
    Gone,
    /// All pages are taken.
    Empty,
    /// There are pages, but the kernel gives this process none.
    Bounded(Bound),
}

/// Whether a child is copying what its parent has: what others took of the pool then would be taken from the child.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);

/// Has nobody of this process take anything of the pool, or lets them again. Called by who forks, and one does at a time.
pub fn set_closed(is_closed: bool) {
    IS_CLOSED.store(is_closed, Ordering::Relaxed);
}

/// Opens the pool.
pub fn open() -> Result<Open, Refusal> {
    if IS_CLOSED.load(Ordering::Relaxed) {
        return Err(Refusal::Closed);
    }
    let path = setting::pool().ok_or(Refusal::None)?;
    let file = Descriptor::open(path, libc::O_TMPFILE | libc::O_RDWR).map_err(|errno| match errno {
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENOTDIR => Refusal::Gone,
        errno => Refusal::Call("open", errno),
    })?;
    let told = statfs(&file).ok_or(Refusal::Gone)?;
    let page_bytes = told.f_bsize as usize;
    if told.f_type != HUGETLBFS || !page_bytes.is_multiple_of(WINDOW_BYTES) || page_bytes == 0 {
        return Err(Refusal::Gone);
    }
    PAGE_BYTES.store(page_bytes, Ordering::Relaxed);
    Ok(Open { file, page_bytes, free_bytes: free_bytes(&told, page_bytes) })
}

/// One without a bound says nothing of itself; then what can be had shows when it is asked for.
fn free_bytes(told: &libc::statfs, page_bytes: usize) -> usize {
    match told.f_blocks {
        0 | u64::MAX => usize::MAX / 2 / page_bytes * page_bytes,
        _ => (told.f_bfree as usize).saturating_mul(page_bytes),
    }
}

/// What a file system says of itself.
fn statfs(file: &Descriptor) -> Option<libc::statfs> {
    // SAFETY: plain data, valid when zeroed, of which the call writes at most the size.
    let (result, told) = unsafe {
        let mut told: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.0, &mut told), told)
    };
    (result == 0).then_some(told)
}

static PAGE_BYTES: AtomicUsize = AtomicUsize::new(WINDOW_BYTES);

/// How large its pages are, as far as anybody opened it.
pub fn page_bytes() -> usize {
    PAGE_BYTES.load(Ordering::Relaxed)
}

/// The part of a range that is whole pages of the pool: it begins and ends at the first of them where there is none.
pub fn whole_pages(range: &Range<usize>) -> Range<usize> {
    let unit = page_bytes();
    let begin = range.start.checked_next_multiple_of(unit).unwrap_or(range.end).min(range.end);
    begin..(range.end / unit * unit).max(begin)
}

/// Whether the kernel moves large pages: before Linux 5.16 it does not, and says so only when it has taken away what was in
/// their place.
static CAN_MOVE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const MOVES: u8 = 1;
const MOVES_NOT: u8 = 2;

impl Open {
    /// Tries, once, to move a page to where nothing is.
    fn check_move(&self) -> Result<(), Refusal> {
        match CAN_MOVE.load(Ordering::Relaxed) {
            MOVES => return Ok(()),
            MOVES_NOT => return Err(Refusal::Call("mremap", libc::EINVAL)),
            _ => {}
        }
        let room = 2 * self.page_bytes;
        let at = map(room, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        let at = at.map_err(|errno| Refusal::Call("mmap", errno))?;
        let to = at.next_multiple_of(self.page_bytes);
        let moved = self.run(self.page_bytes).and_then(|from| {
            // SAFETY: both were mapped here, and nobody knows them.
            let moved = unsafe { move_over(from, self.page_bytes, to) };
            if moved.is_err() {
                // SAFETY: as above.
                unsafe { unmap(from, self.page_bytes) };
            }
            moved.map_err(|errno| Refusal::Call("mremap", errno))
        });
        // SAFETY: mapped here; a page that was moved there is nobody's.
        unsafe { unmap(at, room) };
        match moved {
            Ok(()) => CAN_MOVE.store(MOVES, Ordering::Relaxed),
            Err(Refusal::Call("mremap", libc::EINVAL)) => CAN_MOVE.store(MOVES_NOT, Ordering::Relaxed),
            Err(_) => {}
        }
        moved
    }

    /// A run of pages that are all there, at an address that the kernel chose.
    fn run(&self, bytes: usize) -> Result<usize, Refusal> {
        let refused = |call| {
            move |errno| match errno {
                libc::ENOMEM => Refusal::Empty,
                errno => Refusal::Call(call, errno),
            }
        };
        let flags = libc::MAP_PRIVATE;
        let at = map_file(bytes, READ_WRITE, flags, self.file.0, 0).map_err(refused("mmap"))?;
        nodes::spread(at, bytes);
        // A cgroup may bound the pages that a job has, which shows only here.
        if let Err(errno) = advise(at, bytes, Advice::Populate) {
            // SAFETY: just mapped, and nobody knows it.
            unsafe { unmap(at, bytes) };
            return Err(if errno == libc::EFAULT { Refusal::Empty } else { Refusal::Call("madvise", errno) });
        }
        Ok(at)
    }

    /// Pages that nobody is to use, at an address that the kernel chose.
    pub fn take(&self, bytes: usize) -> Result<usize, Refusal> {
        if bytes > self.free_bytes {
            return Err(Refusal::Empty);
        }
        self.run(bytes)
    }

    /// How many of so many bytes this process can have just now. Only the kernel knows what cgroups leave it, and says so only to who
    /// takes pages.
    pub fn at_hand(&self, bytes: usize) -> usize {
        let bytes = bytes.min(self.free_bytes) / self.page_bytes * self.page_bytes;
        if bytes == 0 {
            return 0;
        }
        match self.run(bytes) {
            // SAFETY: just mapped, and nobody knows it.
            Ok(at) => unsafe {
                unmap(at, bytes);
                bytes
            },
            Err(_) => 0,
        }
    }

    /// Why the kernel gave not even one page.
    fn why(&self) -> Refusal {
        match statfs(&self.file) {
            Some(told) if told.f_blocks > 0 => match free_bytes(&told, self.page_bytes) {
                0 => Refusal::Empty,
                free => Refusal::Bounded(bounds::find(self.page_bytes, free)),
            },
            _ => Refusal::Empty,
        }
    }

    /// Puts pages in the place of `bytes` at an address. They are zeros before `prepare` is called with where they are
    /// and how many bytes. Gives how many bytes that were, from the begin on.
    ///
    /// # Safety
    /// The place is this library's own or the program's before it runs, and `prepare` leaves nothing behind that is
    /// missed.
    pub unsafe fn place(&self, address: usize, bytes: usize, prepare: impl Fn(usize, usize)) -> Result<usize, Refusal> {
        let mut step = bytes.min(self.free_bytes) / self.page_bytes * self.page_bytes;
        if step > 0 {
            self.check_move().map_err(|refusal| if refusal == Refusal::Empty { self.why() } else { refusal })?;
        }
        loop {
            if step == 0 {
                return Err(self.why());
            }
            match self.run(step) {
                Ok(at) => {
                    prepare(at, step);
                    // SAFETY: as said; what was there is replaced whole.
                    if let Err(errno) = unsafe { move_over(at, step, address) } {
                        // SAFETY: the run is still where it was, and nobody knows it; the place is ours to fill.
                        unsafe {
                            put_back(at, step, address);
                            unmap(at, step);
                        }
                        return Err(Refusal::Call("mremap", errno));
                    }
                    return Ok(step);
                }
                // Another process was faster: what is left may be less.
                Err(Refusal::Empty) => step = step / 2 / self.page_bytes * self.page_bytes,
                Err(refusal) => return Err(refusal),
            }
        }
    }
}

/// The first refusal. Written by who has the lock of `windows`, so that no fork comes in between.
static NOTED: OnceLock<Refusal> = OnceLock::new();

/// Notes why the program goes on in small pages, to be said when no lock is held: nobody may read what is said, and then whoever
/// says it waits.
pub fn note(refusal: Refusal) {
    // That it is closed is soon over.
    if !matches!(refusal, Refusal::None | Refusal::Closed) {
        let _ = NOTED.set(refusal);
    }
}

/// Says once what was noted. Who calls this has no lock.
pub fn complain() {
    static IS_SAID: AtomicBool = AtomicBool::new(false);
    let Some(refusal) = NOTED.get().copied() else { return };
    if IS_SAID.load(Ordering::Relaxed) || IS_SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let path = setting::pool().and_then(|path| path.to_str().ok()).unwrap_or("?");
    let pid = crate::kernel::own_pid();
    let outcome = if setting::is_strict() { "gets no more memory (--strict)" } else { "goes on in small pages" };
    quietly(|| match refusal {
        Refusal::None | Refusal::Closed => {}
        Refusal::Call("mremap", libc::EINVAL) => say(format_args!(
            "the kernel does not move large pages of {path} (Linux 5.16 does): process {pid} {outcome}"
        )),
        Refusal::Call(call, errno) => {
            say(format_args!(
                "{call} of the pool {path} failed (errno {errno}): process {pid} {outcome}; \
                 `still pages` shows the pools and whose they are"
            ));
        }
        Refusal::Gone => say(format_args!(
            "the pool {path} is not there any more: process {pid} {outcome}; \
             `still pages` shows those that there are"
        )),
        Refusal::Bounded(bound) => {
            let size = Size(page_bytes());
            let say = |why: std::fmt::Arguments| {
                say(format_args!(
                    "process {pid} gets no more of the pool {path}, though it has free pages: {why}; it {outcome}"
                ));
            };
            match bound {
                Bound::Addresses => say(format_args!("its limit on addresses is reached (`ulimit -v`)")),
                Bound::Data => say(format_args!("its limit on data is reached (`ulimit -d`)")),
                Bound::Group => say(format_args!(
                    "a cgroup bounds what its processes have (hugetlb.{size}.max, hugetlb.{size}.rsvd.max)"
                )),
                Bound::Others => say(format_args!("they are promised to others (`still pages`)")),
                Bound::Unknown => say(format_args!(
                    "they may be of memory nodes that are not its own, a cgroup may bound them that it does not see, or it has too \
                     many mappings (vm.max_map_count)"
                )),
            }
        }
        Refusal::Empty => say(format_args!(
            "the pool {path} is empty: process {pid} {outcome}; `still pages` shows who has it, \
             `still pages reserve` makes a larger one"
        )),
    });
}
