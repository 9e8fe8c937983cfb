//! The list of mappings as text, for kernels that cannot be asked for one of them, and for what the question does not tell.

use super::{PATH, Sharing};
use std::ops::Range;

/// Whose writes the mappings of a range show, by the whole list; `None` if it cannot be read.
pub(super) fn sharing(range: &Range<usize>) -> Option<Sharing> {
    let mut most = Sharing::Private;
    for line in std::fs::read(PATH).ok()?.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // Names of files may be in any encoding, and come last.
        let line = String::from_utf8_lossy(line);
        let mapping = ListedMapping::parse(&line)?;
        // The list ascends.
        if mapping.start >= range.end {
            break;
        }
        if range.start < mapping.end {
            most = most.max(mapping.sharing());
        }
    }
    Some(most)
}

/// A line of a list of mappings (proc_pid_maps(5)).
#[derive(Debug, Clone, Copy)]
pub struct ListedMapping<'a> {
    /// Its first address.
    pub start: usize,
    /// The address behind it.
    pub end: usize,
    /// `r`, `w`, `x`, each or `-`, and `p` or `s`.
    pub permissions: [u8; 4],
    /// Where it begins in its file, in bytes.
    pub offset: u64,
    /// The file's device, major and minor.
    pub device: (u32, u32),
    /// The file's inode; 0 without a file.
    pub inode: u64,
    /// The file's path, or the kernel's name of it in brackets; empty if there is none.
    pub path: &'a str,
}

impl<'a> ListedMapping<'a> {
    /// `None` if it is no such line.
    pub fn parse(line: &'a str) -> Option<ListedMapping<'a>> {
        let mut fields = line.splitn(6, ' ');
        let (range, permissions, offset) = (fields.next()?, fields.next()?.as_bytes(), fields.next()?);
        let (device, inode, path) = (fields.next()?, fields.next()?, fields.next().unwrap_or("").trim_start());
        let hex = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (start, end) = range.split_once('-')?;
        let (major, minor) = device.split_once(':')?;
        Some(ListedMapping {
            start: hex(start)? as usize,
            end: hex(end)? as usize,
            permissions: *permissions.first_chunk()?,
            offset: hex(offset)?,
            device: (hex(major)? as u32, hex(minor)? as u32),
            inode: inode.parse().ok()?,
            path,
        })
    }

    /// Whether it is private, not shared.
    pub fn is_private(&self) -> bool {
        self.permissions[3] == b'p'
    }

    fn sharing(&self) -> Sharing {
        Sharing::of(!self.is_private(), self.inode)
    }
}
