//! Short files of the system, read without memory from anybody.

use crate::kernel::{Descriptor, READ_WRITE, map, unmap};
use std::ffi::CStr;
use std::ops::Range;

const FILE_BYTES: usize = 4096;

/// Room for a text, which is not taken of a stack: that may be a fiber's, and small.
pub struct Room(usize);

impl Room {
    pub fn new() -> Option<Room> {
        map(FILE_BYTES, READ_WRITE, libc::MAP_PRIVATE).ok().map(Room)
    }

    fn all(&self) -> &[u8] {
        // SAFETY: mapped by `new`, as long, and nobody else's.
        unsafe { std::slice::from_raw_parts(self.0 as *const u8, FILE_BYTES) }
    }

    pub fn all_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `all`.
        unsafe { std::slice::from_raw_parts_mut(self.0 as *mut u8, FILE_BYTES) }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // SAFETY: mapped by `new`; nothing of it is lent any more.
        unsafe { unmap(self.0, FILE_BYTES) };
    }
}

/// The begin of a file.
pub struct Short {
    room: Room,
    used: usize,
}

impl Short {
    pub fn read(path: &CStr) -> Option<Short> {
        let file = Descriptor::open(path, libc::O_RDONLY).ok()?;
        let mut short = Short { room: Room::new()?, used: 0 };
        while short.used < FILE_BYTES {
            let used = short.used;
            match file.read(&mut short.room.all_mut()[used..]).ok()? {
                0 => break,
                count => short.used += count,
            }
        }
        Some(short)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.room.all()[..self.used]
    }

    /// What follows a word at the begin of a line, up to its end.
    pub fn after(&self, word: &str) -> Option<&[u8]> {
        self.bytes().split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(word.as_bytes()))
    }
}

/// The first number in a text.
pub fn number(text: &[u8]) -> Option<usize> {
    let begin = text.iter().position(u8::is_ascii_digit)?;
    let mut digits = text[begin..].iter().take_while(|byte| byte.is_ascii_digit());
    digits.try_fold(0usize, |sum, digit| sum.checked_mul(10)?.checked_add(usize::from(digit - b'0')))
}

/// Calls a function with each line of a file, of which only so much is read as one reading gives: the end of a longer one is another.
pub fn each_line(path: &CStr, mut visit: impl FnMut(&[u8])) -> Option<()> {
    let file = Descriptor::open(path, libc::O_RDONLY).ok()?;
    let mut room = Room::new()?;
    let buffer = room.all_mut();
    let mut used = 0;
    loop {
        let count = file.read(&mut buffer[used..]).ok()?;
        used += count;
        let mut begin = 0;
        while let Some(end) = buffer[begin..used].iter().position(|byte| *byte == b'\n') {
            visit(&buffer[begin..begin + end]);
            begin += end + 1;
        }
        if begin == 0 && used == buffer.len() {
            begin = used;
        }
        buffer.copy_within(begin..used, 0);
        used -= begin;
        if count == 0 {
            return Some(());
        }
    }
}

/// The addresses at the begin of a line of `/proc/self/maps` and `smaps`.
pub fn addresses(line: &[u8]) -> Option<Range<usize>> {
    let text = std::str::from_utf8(line.split(|byte| *byte == b' ').next()?).ok()?;
    let (begin, end) = text.split_once('-')?;
    Some(usize::from_str_radix(begin, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// Whether all of some addresses are private memory without a file, to be read and written.
pub fn is_anonymous(range: &Range<usize>) -> bool {
    let mut bytes = 0;
    let read = each_line(c"/proc/self/maps", |line| {
        let Some(found) = addresses(line) else { return };
        let part = found.start.max(range.start)..found.end.min(range.end);
        // Protection, offset, device and inode stand behind the addresses.
        let is_anonymous =
            line.windows(6).any(|part| part == b" rw-p ") && line.windows(8).any(|part| part == b" 00:00 0");
        if !part.is_empty() && is_anonymous {
            bytes += part.len();
        }
    });
    read.is_some() && bytes == range.len()
}
