//! Short files of the system, read without memory from anybody.

use crate::kernel::Descriptor;
use std::ffi::CStr;

const FILE_BYTES: usize = 4096;

/// The begin of a file.
pub struct Short {
    bytes: [u8; FILE_BYTES],
    used: usize,
}

impl Short {
    pub fn read(path: &CStr) -> Option<Short> {
        let file = Descriptor::open(path, libc::O_RDONLY).ok()?;
        let mut short = Short { bytes: [0; FILE_BYTES], used: 0 };
        while short.used < FILE_BYTES {
            match file.read(&mut short.bytes[short.used..]).ok()? {
                0 => break,
                count => short.used += count,
            }
        }
        Some(short)
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
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
