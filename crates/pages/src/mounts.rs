//! Where file systems of large pages are mounted, as `/proc/self/mountinfo` tells.

use crate::error::{Error, Result};
use crate::page::Page;
use crate::supply::System;
use std::fs;
use std::path::PathBuf;

/// A mounted hugetlbfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub path: PathBuf,
    /// Of which pages.
    pub page: Page,
    /// The device that its files are on: major and minor.
    pub device: (u32, u32),
}

/// All of them.
///
/// # Errors
/// Those of the file.
pub fn mounts(system: &System) -> Result<Vec<Mount>> {
    let path = system.proc().join("self/mountinfo");
    let text = fs::read(&path).map_err(Error::io("read", &path))?;
    // The name of a place may be any bytes. No pool's are but text.
    let lines = text.split(|byte| *byte == b'\n').filter_map(|line| str::from_utf8(line).ok());
    Ok(lines.filter_map(read).collect())
}

/// A line: number, parent, device, root, place, options, further fields, `-`, kind, source, options of the kind (proc_pid_mountinfo(5)).
fn read(line: &str) -> Option<Mount> {
    let (mount, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    if kind.next()? != "hugetlbfs" {
        return None;
    }
    let size = kind.nth(1)?.split(',').find_map(|option| option.strip_prefix("pagesize="))?;
    let mut fields = mount.split(' ').skip(2);
    let (major, minor) = fields.next()?.split_once(':')?;
    let path = PathBuf::from(unescape(fields.nth(1)?));
    Some(Mount { path, page: Page::of_bytes(bytes(size)?)?, device: (major.parse().ok()?, minor.parse().ok()?) })
}

/// A size in the kernel's words, which has pages of 1 GiB as `1024M`.
fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Blanks and such stand there as `\040`.
fn unescape(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                plain.push_str(&part[3..]);
            }
            None => {
                plain.push('\\');
                plain.push_str(part);
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_hugetlbfs_are_read_and_others_are_not() {
        let line = r"42 29 0:38 / /run/a\040b rw,relatime shared:18 - hugetlbfs none rw,gid=7,pagesize=2M,size=64M";
        let mount = Mount { path: "/run/a b".into(), page: Page::Large, device: (0, 38) };
        assert_eq!(read(line), Some(mount));
        let gigantic =
            read("42 29 0:38 / /run/g rw - hugetlbfs none rw,mode=700,pagesize=1024M,size=2147483648").unwrap();
        assert_eq!(gigantic.page, Page::Gigantic);
        assert_eq!(read("42 29 0:38 / /dev/shm rw shared:18 - tmpfs tmpfs rw,size=64M"), None);
        assert_eq!(read("42 29 0:38 / /x rw - hugetlbfs none rw,pagesize=16M"), None);
        assert_eq!(read(""), None);
    }

    #[test]
    fn a_place_whose_name_is_no_text_is_in_nobodys_way() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("self")).unwrap();
        let mut text = b"41 29 0:37 / /tmp/\xff rw - tmpfs none rw\n".to_vec();
        text.extend(b"42 29 0:38 / /run/a rw - hugetlbfs none rw,pagesize=2M\n");
        fs::write(dir.path().join("self/mountinfo"), text).unwrap();
        let found = mounts(&System::at(dir.path(), dir.path())).unwrap();
        assert_eq!(found.into_iter().map(|mount| mount.path).collect::<Vec<_>>(), [PathBuf::from("/run/a")]);
    }
}
