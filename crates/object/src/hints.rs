//! Which objects have news for the runtime of this node: a bit for each, which whoever publishes or attaches sets.
//!
//! | bytes of `.objects/hints` | |
//! |---|---|
//! | 0 to 3 | a word to sleep on |
//! | 64 to 67 | whether the runtime sleeps |
//! | 4096 on | 65 536 bits, of the objects' names by a hash |
//!
//! Without a runtime that takes bits they stay set, and to set one that is set costs a look at it. Whoever set it may have ended before the
//! runtime was woken: who finds it set wakes one that sleeps. The runtime sleeps while nothing happens, and is woken. While much does it
//! looks by itself every millisecond: who publishes wakes nobody, and mostly finds his bit set.

use crate::bell;
use crate::directory::Directory;
use crate::error::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Duration;
use stillframe_kernel::folder::Access;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::{futex, space};

const FILE: &str = "hints";
const SLEEPS_AT: usize = 64;
const BITS_AT: usize = 4096;
const BITS: usize = 1 << 16;
const BYTES: usize = BITS_AT + BITS / 8;

/// The bits of a directory. Who only looks has none.
#[derive(Debug, Clone)]
pub struct Hints {
    map: Option<Arc<Mapping>>,
}

/// Number of the bit of an object. Several may have the same.
pub fn bit_of(name: &str) -> usize {
    bell::hash(name) as usize % BITS
}

impl Hints {
    pub(crate) fn open(directory: &Directory) -> Result<Hints> {
        if !directory.is_writing() {
            return Ok(Hints { map: None });
        }
        let path = directory.objects.path.join(FILE);
        // Who may only read could wait there in the runtime's place, and it would not be woken (futex(2), FUTEX_REQUEUE).
        let place = directory.objects.with_folder_mode()?.of_writers();
        let opened = place.open(FILE, Access::CreateExact(0))?;
        let (file, about) = opened.ok_or_else(|| Error::io("open", &path, std::io::ErrorKind::NotFound.into()))?;
        place.permit(&file, &about).map_err(|error| Error::io("chmod", &path, error))?;
        if about.bytes < BYTES as u64 {
            file.set_len(BYTES as u64).map_err(|error| Error::io("ftruncate", &path, error))?;
        }
        // A word without memory, on a full file system, would end the process that touches it.
        if about.allocated_bytes < BYTES as u64 {
            space::take(&file, 0, BYTES as u64).map_err(|failure| Error::system(&path, failure).needing(BYTES))?;
        }
        let map = Mapping::shared(&file, 0, BYTES, true).map_err(|failure| Error::system(&path, failure))?;
        Ok(Hints { map: Some(Arc::new(map)) })
    }

    fn word(map: &Mapping, bit: usize) -> &AtomicU32 {
        map.word32(BITS_AT + bit / 32 * 4)
    }

    /// Says that an object has news.
    pub(crate) fn give(&self, bit: usize) {
        let Some(map) = &self.map else { return };
        let (word, mask) = (Hints::word(map, bit), 1 << (bit % 32));
        // What is news was stored before the bit is looked at.
        fence(Ordering::SeqCst);
        // Whoever takes a bit looks at the object after that: one that is set tells of this news as well.
        if word.load(Ordering::SeqCst) & mask == 0 {
            word.fetch_or(mask, Ordering::SeqCst);
        }
        // Also where it was set: whoever did that may have died here.
        if map.word32(SLEEPS_AT).load(Ordering::SeqCst) != 0 {
            map.word32(0).fetch_add(1, Ordering::SeqCst);
            futex::wake_all(map.word32(0));
        }
    }

    /// Takes the bits that are set, and waits for some at most so long. The news of an object are looked for after this.
    pub fn take(&self, longest: Duration) -> Vec<usize> {
        let Some(map) = &self.map else { return Vec::new() };
        let taken = Hints::take_set(map);
        if !taken.is_empty() || longest.is_zero() {
            return taken;
        }
        let seen = map.word32(0).load(Ordering::SeqCst);
        map.word32(SLEEPS_AT).store(1, Ordering::SeqCst);
        let mut taken = Hints::take_set(map);
        if taken.is_empty() {
            futex::wait(map.word32(0), seen, (longest < Duration::MAX).then_some(longest));
            taken = Hints::take_set(map);
        }
        map.word32(SLEEPS_AT).store(0, Ordering::SeqCst);
        taken
    }

    /// Wakes who waits in [`take`](Hints::take), or will wait next.
    pub fn wake(&self) {
        self.give(0);
    }

    fn take_set(map: &Mapping) -> Vec<usize> {
        let mut taken = Vec::new();
        for first in (0..BITS).step_by(32) {
            let word = Hints::word(map, first);
            if word.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let bits = word.swap(0, Ordering::SeqCst);
            taken.extend((0..32).filter(|bit| bits & (1 << bit) != 0).map(|bit| first + bit));
        }
        // And here it is looked for after the bits were taken.
        fence(Ordering::SeqCst);
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;
    use stillframe_kernel::folder::About;
    use stillframe_kernel::trust::Trust;

    /// A test that hangs ends.
    const LONG: Duration = Duration::from_secs(60);

    /// Another user of the group, who comes in the middle, would be refused without it.
    #[test]
    fn files_that_all_have_are_there_with_their_mode_or_not_at_all() {
        const MODE: u32 = 0o770;
        let place = tempfile::Builder::new().prefix("stillframe-test-modes-").tempdir_in("/dev/shm").unwrap();
        for round in 0..200 {
            let directory = Directory::make(&place.path().join(round.to_string()), MODE, Trust::Own).unwrap();
            std::thread::scope(|scope| {
                for name in ["hints", "bell"] {
                    let path = directory.objects.path.join(name);
                    scope.spawn(move || {
                        let about = std::iter::repeat_with(|| About::at(&path, true)).find_map(|about| about.ok());
                        assert_eq!(about.unwrap().mode & 0o777, MODE & 0o666, "{name}");
                    });
                }
                Hints::open(&directory).unwrap();
                bell::Bell::open(&directory).unwrap();
            });
        }
    }

    /// Whoever set it may have died before the runtime was woken, and been the only one to know of his news.
    #[test]
    fn whoever_finds_his_bit_set_wakes_a_runtime_that_sleeps_all_the_same() {
        let place = tempfile::Builder::new().prefix("stillframe-test-hints-").tempdir_in("/dev/shm").unwrap();
        let directory = Directory::make(place.path(), 0o700, Trust::Own).unwrap();
        let hints = Hints::open(&directory).unwrap();
        let map = hints.map.as_ref().unwrap();
        let woken = || map.word32(0).load(Ordering::SeqCst);
        for bit in [0, 31, 77, BITS - 1] {
            Hints::word(map, bit).fetch_or(1 << (bit % 32), Ordering::SeqCst);
            let before = woken();
            hints.give(bit);
            assert_eq!(woken(), before, "bit {bit}: nobody sleeps");
            map.word32(SLEEPS_AT).store(1, Ordering::SeqCst);
            hints.give(bit);
            assert_ne!(woken(), before, "bit {bit}: who sleeps is not woken");
            map.word32(SLEEPS_AT).store(0, Ordering::SeqCst);
        }
        assert_eq!(hints.take(Duration::ZERO), [0, 31, 77, BITS - 1]);
    }

    /// Who takes bits goes over from looking by itself to sleeping, and back, while others give some: each is taken.
    #[test]
    fn no_hint_is_lost_between_looking_and_sleeping() {
        const GIVERS: u32 = 3;
        const ROUNDS: u32 = 3000;
        let place = tempfile::Builder::new().prefix("stillframe-test-hints-").tempdir_in("/dev/shm").unwrap();
        let directory = Directory::make(place.path(), 0o700, Trust::Own).unwrap();
        let hints = Hints::open(&directory).unwrap();
        let news = [const { AtomicU32::new(0) }; GIVERS as usize];
        let seen = [const { AtomicU32::new(0) }; GIVERS as usize];
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut sleeps = true;
                while !has_ended.load(Ordering::SeqCst) {
                    let bits = hints.take(if sleeps { LONG } else { Duration::ZERO });
                    for bit in bits.iter().filter(|bit| **bit > 0) {
                        let giver = bit / 64 - 1;
                        seen[giver].store(news[giver].load(Ordering::SeqCst), Ordering::SeqCst);
                    }
                    sleeps = bits.is_empty();
                }
            });
            let givers: Vec<_> = (0..GIVERS)
                .map(|giver| {
                    let (hints, news, seen) = (&hints, &news[giver as usize], &seen[giver as usize]);
                    scope.spawn(move || {
                        for round in 1..=ROUNDS {
                            news.store(round, Ordering::SeqCst);
                            hints.give((giver as usize + 1) * 64);
                            let begin = Instant::now();
                            while seen.load(Ordering::SeqCst) != round {
                                if begin.elapsed() > LONG {
                                    return Some((giver, round));
                                }
                                std::thread::yield_now();
                            }
                            // Now at once, and now when nobody looks any more.
                            (0..round * (giver + 7) % 97 * 50).for_each(|_| std::hint::spin_loop());
                        }
                        None
                    })
                })
                .collect();
            let lost: Vec<_> = givers.into_iter().filter_map(|giver| giver.join().unwrap()).collect();
            has_ended.store(true, Ordering::SeqCst);
            hints.wake();
            assert!(lost.is_empty(), "giver and round of hints that nobody took: {lost:?}");
        });
    }
}
