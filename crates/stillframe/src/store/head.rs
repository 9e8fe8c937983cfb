//! The shared head of a region, as the board of the protocol.

use crate::clock::unix_ns;
use crate::error::{Error, Result};
use crate::place::arena::Bell;
use crate::place::directory::Directory;
use crate::place::stretch::Stretch;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::space::read_begin;
use stillframe_kernel::{futex, points};
use stillframe_protocol::{Board, Newest, Stamp, State};
use stillframe_segment::Corrupt;
use stillframe_segment::head::{self, Counter, Descriptor};

/// Longest sleep before a waiting observer looks whether the producer still lives.
const WAIT_SLICE: Duration = Duration::from_millis(50);
/// The same where nobody is sure to wake who sleeps: half of what an observer in another machine may come late.
const POLL: Duration = Duration::from_millis(1);

/// The shared head of a region.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    map: Stretch,
    bell: Bell,
}

impl Head {
    /// The head in a file of a directory; `None` if its producer has not finished it.
    pub(crate) fn open(file: &File, dir: &Path) -> Result<Option<Head>> {
        let (path, corrupt) = (dir.join(head::FILE), |corrupt| Error::Corrupt { dir: dir.to_path_buf(), corrupt });
        let mut begin = [0; 64];
        let length = read_begin(file, &mut begin).map_err(|error| Error::io("read", &path, error))?;
        if !head::check_geometry(&begin[..length]).map_err(corrupt)? {
            return Ok(None);
        }
        // The magic is written last, so a head that has it has all its bytes. Its length is read after it: one read before may be that
        // of a head that was being written.
        let bytes = file.metadata().map_err(|error| Error::io("fstat", &path, error))?.len();
        if bytes < head::HEAD_BYTES as u64 {
            return Err(corrupt(Corrupt::cut(head::FILE, bytes, head::HEAD_BYTES as u64)));
        }
        let map = Mapping::shared(file, 0, head::HEAD_BYTES, false).map_err(|failure| Error::system(&path, failure))?;
        Ok(Some(Head::at(Stretch::new(map.into(), 0))))
    }

    /// The head that lies there.
    pub(crate) fn at(map: Stretch) -> Head {
        Head { map, bell: Bell::None }
    }

    /// The same, of which this wakes who waits.
    pub(crate) fn with_bell(self, bell: Bell) -> Head {
        Head { bell, ..self }
    }

    fn notifications(&self) -> &AtomicU32 {
        self.map.word32(head::NOTIFICATIONS_AT)
    }

    /// Lets everybody who waits look again.
    pub(crate) fn notify(&self) {
        self.bell.ring(self.notifications());
    }

    /// What is handed to [`sleep`](Head::sleep) by who looked after that.
    pub(crate) fn notified(&self) -> u32 {
        self.bell.word(self.notifications()).load(Ordering::Acquire)
    }

    /// Sleeps until somebody notifies, at most `limit`, unless somebody has since `notified`. Who was woken may have been woken for nothing.
    pub(crate) fn sleep(&self, notified: u32, limit: Duration) {
        futex::wait(self.bell.word(self.notifications()), notified, Some(limit));
    }

    /// How long who waits may sleep before he has to look by himself.
    pub(crate) fn longest_sleep(&self) -> Duration {
        if self.bell.is_sure() { WAIT_SLICE } else { POLL }
    }

    /// Whether the region is another enclave's.
    pub(crate) fn is_foreign(&self) -> bool {
        self.bell.is_foreign()
    }

    pub(crate) fn counter(&self, counter: Counter) -> u64 {
        self.map.word64(head::COUNTERS_AT + 8 * counter as usize).load(Ordering::Relaxed)
    }

    pub(crate) fn add(&self, counter: Counter, amount: u64) {
        let word = self.map.word64(head::COUNTERS_AT + 8 * counter as usize);
        word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, counter: Counter, value: u64) {
        self.map.word64(head::COUNTERS_AT + 8 * counter as usize).store(value, Ordering::Relaxed);
    }

    pub(crate) fn number32(&self, at: usize) -> u32 {
        self.map.word32(at).load(Ordering::Relaxed)
    }

    pub(crate) fn set_number32(&self, at: usize, value: u32) {
        self.map.word32(at).store(value, Ordering::Relaxed);
    }

    pub(crate) fn number64(&self, at: usize) -> u64 {
        self.map.word64(at).load(Ordering::Relaxed)
    }

    pub(crate) fn set_number64(&self, at: usize, value: u64) {
        self.map.word64(at).store(value, Ordering::Relaxed);
    }

    /// When the last producer ended by itself, in nanoseconds since 1970; 0 if it lives or was killed.
    pub(crate) fn ended_ns(&self) -> u64 {
        self.number64(head::ENDED_NS_AT)
    }

    pub(crate) fn set_ended(&self, ended: bool) {
        self.set_number64(head::ENDED_NS_AT, if ended { unix_ns() } else { 0 });
    }

    /// Shows that the producer begins to wait for room, or that it does not wait.
    pub(crate) fn set_waiting(&self, waiting: bool) {
        self.set_number64(head::WAITING_NS_AT, if waiting { unix_ns() } else { 0 });
    }

    /// Shows how many publishes were left out since the newest version, the last of them just now.
    pub(crate) fn set_skipping(&self, skipped: u64) {
        match skipped {
            0 => self.set_number64(head::SKIPPING_NS_AT, 0),
            1 => self.set_number64(head::SKIPPING_NS_AT, unix_ns()),
            _ => {}
        }
        self.set_number64(head::SKIPPING_AT, skipped);
    }

    /// A time that the producer which began last wrote; `None` if there is none, or it is a former one's.
    pub(crate) fn time_of_producer(&self, at: usize) -> Option<u64> {
        let (time_ns, begun_ns) = (self.number64(at), self.number64(head::BEGUN_NS_AT));
        Some(time_ns).filter(|time_ns| *time_ns != 0 && *time_ns >= begun_ns)
    }

    /// Whether the newest word names a version that can be leased.
    pub(crate) fn check_newest(&self) -> Result<(), Corrupt> {
        let newest = self.newest();
        if newest.sequence() == 0 {
            return Ok(());
        }
        if newest.slot() >= head::SLOTS {
            let expected = format!("a slot below {}", head::SLOTS);
            return Err(Corrupt::new(head::FILE, head::NEWEST_AT, expected, newest.slot()));
        }
        let stamp = self.stamp(newest.slot());
        // Between reading the two, a living producer may have gone on.
        if stamp != Stamp::new(newest.sequence(), State::Live) && self.newest() == newest {
            let (at, expected) = (head::descriptor_at(newest.slot()), format!("version {} live", newest.sequence()));
            return Err(Corrupt::new(head::FILE, at, expected, format!("{stamp:?}")));
        }
        Ok(())
    }

    pub(crate) fn descriptor(&self, slot: usize) -> Descriptor {
        let at = head::descriptor_at(slot) + 8;
        Descriptor::decode(std::array::from_fn(|word| self.map.word64(at + 8 * word).load(Ordering::Relaxed)))
    }

    /// The run that published the version in a slot.
    pub(crate) fn run_at(&self, slot: usize) -> u64 {
        self.map.word64(head::descriptor_at(slot) + head::descriptor::RUN_AT).load(Ordering::Relaxed)
    }

    /// The number of the version in a slot.
    pub(crate) fn number_at(&self, slot: usize) -> u64 {
        self.map.word64(head::descriptor_at(slot) + head::descriptor::VERSION_AT).load(Ordering::Relaxed)
    }

    /// Sequence number of the version that the producer retires tentatively, or 0.
    pub(crate) fn tentative(&self) -> u64 {
        self.map.word64(head::TENTATIVE_AT).load(Ordering::Acquire)
    }

    pub(crate) fn set_tentative(&self, sequence: u64) {
        self.map.word64(head::TENTATIVE_AT).store(sequence, Ordering::Release);
    }

    /// Number of the newest common version that was let go for want of room; 0 if none was.
    pub(crate) fn lapsed(&self) -> u64 {
        self.map.word64(head::LAPSED_AT).load(Ordering::Acquire)
    }

    pub(crate) fn set_lapsed(&self, version: u64) {
        self.map.word64(head::LAPSED_AT).store(version, Ordering::Release);
    }

    pub(crate) fn set_descriptor(&self, slot: usize, descriptor: &Descriptor) {
        let at = head::descriptor_at(slot) + 8;
        let words = descriptor.encode();
        let set = |word: usize| self.map.word64(at + 8 * word).store(words[word], Ordering::Relaxed);
        if let Some(done) = points::torn(words.len()) {
            done.into_iter().for_each(set);
            points::die();
        }
        (0..words.len()).for_each(set);
    }
}

impl Board for Head {
    fn newest(&self) -> Newest {
        Newest(self.map.word64(head::NEWEST_AT).load(Ordering::Acquire))
    }

    fn set_newest(&self, newest: Newest) {
        points::before_write();
        self.map.word64(head::NEWEST_AT).store(newest.0, Ordering::Release);
    }

    fn stamp(&self, slot: usize) -> Stamp {
        Stamp(self.map.word64(head::descriptor_at(slot)).load(Ordering::Acquire))
    }

    fn set_stamp(&self, slot: usize, stamp: Stamp) {
        points::before_write();
        self.map.word64(head::descriptor_at(slot)).store(stamp.0, Ordering::Release);
    }

    fn slots(&self) -> usize {
        head::SLOTS
    }
}

/// What the last producer of a region wrote as its process number; 0 if there is none.
pub(crate) fn producer_pid(directory: &Directory) -> u32 {
    head_word(directory, head::PRODUCER_PID_AT)
}

/// A number in the head of a region, whether it is finished or not; 0 if there is none.
pub(crate) fn head_word(directory: &Directory, at: usize) -> u32 {
    let mut word = [0; 4];
    let read =
        directory.file(head::FILE).ok().flatten().and_then(|(head, _)| head.read_exact_at(&mut word, at as u64).ok());
    read.map_or(0, |()| u32::from_le_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_head_opens_once_it_is_finished_and_is_damaged_once_it_is_cut() {
        let dir = std::env::temp_dir().join(format!("stillframe-head-{}", std::process::id()));
        fs::create_dir(&dir).unwrap();
        let file = File::options().read(true).write(true).create_new(true).open(dir.join(head::FILE)).unwrap();
        let open = || Head::open(&file, &dir);
        let (magic, rest) = (head::MAGIC.to_le_bytes(), &head::encode_geometry(1)[8..]);
        assert!(open().unwrap().is_none(), "nothing of it is there");
        // A write of three pages makes the file longer page by page.
        file.write_all_at(&rest[..8184], 8).unwrap();
        assert!(open().unwrap().is_none(), "two pages of it are there");
        file.write_all_at(&rest[8184..], 8192).unwrap();
        assert!(open().unwrap().is_none(), "all but the magic is there");
        file.write_all_at(&magic, 0).unwrap();
        assert!(open().unwrap().is_some());
        file.set_len(8192).unwrap();
        assert!(open().unwrap_err().to_string().contains("expected 12288 bytes"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
