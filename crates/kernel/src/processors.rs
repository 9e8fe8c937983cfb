//! The processors of the process, rather than those of the thread that asks.
//!
//! Programs bind their threads, and a thread that is bound to one processor says nothing of how many there are for copying;
//! threads that it starts inherit its place. What the process may use is what it was given when it was started, by
//! `taskset`, a control group or whoever starts the ranks of a parallel program. So it is noted when the program or the
//! library is loaded, before anybody is bound, with one exception: GCC's OpenMP binds the first thread while it is loaded, which
//! may be before. But it says which processors it found.

use crate::Failure;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const WORDS: usize = std::mem::size_of::<libc::cpu_set_t>() / 8;

/// A set of processors, a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processors([u64; WORDS]);

static AT_LOAD: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

extern "C" fn note() {
    for (word, found) in AT_LOAD.iter().zip(Processors::of_thread().0) {
        word.store(found, Ordering::Relaxed);
    }
}

// SAFETY: the section holds addresses of functions without arguments, which are called once when the program or library is
// loaded; this one takes none, and needs nothing that is not there yet.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

impl Processors {
    /// Those that the process was given.
    pub fn of_process() -> Processors {
        // Named here so that the linker keeps it where this is used.
        let _ = std::hint::black_box(&NOTE);
        let mut set = Processors(std::array::from_fn(|word| AT_LOAD[word].load(Ordering::Relaxed)));
        add_places(&mut set);
        if set.count() == 0 { Processors::of_thread() } else { set }
    }

    /// Those that the calling thread may run on; none if the kernel has more than fit.
    pub fn of_thread() -> Processors {
        let mut words = [0; WORDS];
        // SAFETY: the call writes at most as many bytes as it is told, and any bits are a set.
        match unsafe { libc::sched_getaffinity(0, WORDS * 8, words.as_mut_ptr().cast()) } {
            0 => Processors(words),
            _ => Processors([0; WORDS]),
        }
    }

    /// How many they are.
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Those with these numbers; none of what is beyond what the kernel can have.
    pub fn of_numbers(numbers: impl IntoIterator<Item = usize>) -> Processors {
        let mut set = Processors([0; WORDS]);
        numbers.into_iter().for_each(|number| set.insert(number));
        set
    }

    /// Those that are in both sets.
    pub fn and(&self, other: &Processors) -> Processors {
        Processors(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    fn has(&self, processor: usize) -> bool {
        self.0.get(processor / 64).is_some_and(|word| word >> (processor % 64) & 1 == 1)
    }

    /// How long they have been idle since the machine began, all taken together (proc(5), `/proc/stat`, in steps of a clock
    /// tick); `None` where the kernel does not say.
    pub fn idle(&self) -> Option<Duration> {
        let text = std::fs::read_to_string("/proc/stat").ok()?;
        // SAFETY: the call takes a number.
        let ticks_per_s = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok().filter(|ticks| *ticks > 0)?;
        let ticks = idle_ticks(&text, |processor| self.has(processor))?;
        Some(Duration::from_nanos((u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_s)) as u64))
    }

    fn insert(&mut self, processor: usize) {
        if let Some(word) = self.0.get_mut(processor / 64) {
            *word |= 1 << (processor % 64);
        }
    }

    /// Lets all threads of the process, and those that they start, run on these alone.
    pub fn bind_process(&self) -> Result<(), Failure> {
        let failure = |call, source| Failure { call, detail: format!("{} processors", self.count()), source };
        let threads = std::fs::read_dir("/proc/self/task").map_err(|source| failure("readdir", source))?;
        for thread in threads.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<libc::pid_t>().ok()) {
            // SAFETY: the call reads as many bytes as it is told.
            if unsafe { libc::sched_setaffinity(thread, WORDS * 8, self.0.as_ptr().cast()) } != 0 {
                let source = std::io::Error::last_os_error();
                // It ended since it was listed.
                if source.raw_os_error() != Some(libc::ESRCH) {
                    return Err(failure("sched_setaffinity", source));
                }
            }
        }
        Ok(())
    }

    /// Lets the calling thread run on all of them. Where the process was moved to others since, it stays where it is.
    pub fn take(&self) {
        // SAFETY: the call reads as many bytes as it is told.
        unsafe { libc::sched_setaffinity(0, WORDS * 8, self.0.as_ptr().cast()) };
    }
}

/// The sum of what the lines of processors in `/proc/stat` count as idle; waiting for a disk is idle too. `None` without such
/// a line.
fn idle_ticks(text: &str, is_counted: impl Fn(usize) -> bool) -> Option<u64> {
    let idle = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("cpu")?.split_ascii_whitespace();
        // The line of all processors together has no number.
        let number = words.next().filter(|_| !line.starts_with("cpu "))?.parse().ok()?;
        let mut times = words.skip(3).map(|word| word.parse::<u64>().ok());
        let (idle, waits) = (times.next()??, times.next().flatten().unwrap_or(0));
        is_counted(number).then_some(idle.saturating_add(waits))
    });
    idle.reduce(u64::saturating_add)
}

/// What makes GCC's OpenMP bind threads.
const BINDING: [&str; 3] = ["OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"];

/// Adds the processors that GCC's OpenMP found, if it is loaded and binds threads.
fn add_places(set: &mut Processors) {
    if BINDING.iter().all(|name| std::env::var_os(name).is_none()) {
        return;
    }
    type Number = extern "C" fn() -> i32;
    type NumberIn = extern "C" fn(i32) -> i32;
    type List = unsafe extern "C" fn(i32, *mut i32);
    // SAFETY: the names end with a zero byte, and nothing is loaded that is not there. The functions are as OpenMP 4.5 has them,
    // and the list is as long as it is said to become. The library stays loaded while its handle is open.
    unsafe {
        let library = libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            return;
        }
        let find = |name: &CStr| {
            let found = libc::dlsym(library, name.as_ptr());
            (!found.is_null()).then_some(found)
        };
        let functions =
            (find(c"omp_get_num_places"), find(c"omp_get_place_num_procs"), find(c"omp_get_place_proc_ids"));
        if let (Some(places), Some(count), Some(list)) = functions {
            let places = transmute::<*mut c_void, Number>(places);
            let count = transmute::<*mut c_void, NumberIn>(count);
            let list = transmute::<*mut c_void, List>(list);
            for place in 0..places() {
                let mut numbers = vec![0; usize::try_from(count(place)).unwrap_or(0)];
                list(place, numbers.as_mut_ptr());
                numbers.iter().filter_map(|number| usize::try_from(*number).ok()).for_each(|number| set.insert(number));
            }
        }
        libc::dlclose(library);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::thread::Thread;

    #[test]
    fn idle_time_is_that_of_the_processors_in_the_set() {
        let text = "cpu  9 9 9 900 90 9\ncpu0 1 2 3 40 5 6 7\ncpu1 1 2 3 100 0 6 7\ncpu70 1 2 3 7\nintr 5 6 7 8 9\n";
        let idle = |numbers: &[usize]| {
            let set = Processors::of_numbers(numbers.iter().copied());
            idle_ticks(text, |processor| set.has(processor))
        };
        assert_eq!(idle(&[0]), Some(45));
        assert_eq!(idle(&[0, 1, 70, 71]), Some(152));
        assert_eq!((idle(&[]), idle(&[5])), (None, None));
        assert!(Processors::of_process().idle().is_some());
    }

    #[test]
    fn threads_of_a_bound_thread_run_where_the_process_may() {
        let before = Processors::of_thread();
        assert_eq!(Processors::of_process(), before);
        let bound = std::thread::spawn(move || {
            let mut one = Processors([0; WORDS]);
            one.insert((0..).find(|number| before.0[number / 64] >> (number % 64) & 1 == 1).unwrap());
            one.take();
            assert_eq!((Processors::of_thread(), Processors::of_process()), (one, before));
            let (said, hears) = std::sync::mpsc::channel();
            Thread::start("place", move || said.send(Processors::of_thread()).unwrap()).unwrap().join();
            (hears.recv().unwrap(), Processors::of_thread() == one)
        });
        assert_eq!(bound.join().unwrap(), (before, true));
    }
}
