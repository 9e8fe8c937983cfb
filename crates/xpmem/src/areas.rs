//! What memory this process has (proc_pid_maps(5)).

use crate::directory;
use crate::problem::Problem;
use libc::c_int;
use std::fmt;
use std::ops::Range;
use stillframe_kernel::maps::ListedMapping;

/// A mapping, or the part of it that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Area {
    pub start: usize,
    pub end: usize,
    pub protection: c_int,
    pub kind: Kind,
}

/// What a mapping shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Memory of no file, that no other process writes.
    Private,
    /// Pages of a file that this library, or the process that forked this one, made for shared memory, from an offset on.
    Pages { identity: (u64, u64), offset: u64 },
    /// Anything else, which cannot be shared.
    Other(Unsharable),
}

/// Why memory cannot be shared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unsharable {
    /// Nothing is mapped.
    Missing,
    /// It may not be read.
    Unreadable,
    /// It is a mapping of this file.
    File(String),
    /// It is shared with other processes already, by other means.
    Shared,
    /// It is what this thread computes on.
    Stack,
    /// The kernel has it for itself.
    Kernel(String),
    /// It is attached from another segment.
    Attached,
    /// It lies in too many pieces.
    Pieces(usize),
    /// It lies in a file with more, which the first mode keeps from those whom the second one lets in.
    Kept(u32, u32),
}

impl fmt::Display for Unsharable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const ONLY: &str =
            "only memory of the program's own, as from mmap (MAP_PRIVATE | MAP_ANONYMOUS) or malloc, can be shared";
        match self {
            Unsharable::Missing => write!(f, "is not there: nothing is mapped"),
            Unsharable::Unreadable => write!(f, "may not be read (mprotect)"),
            Unsharable::File(path) => write!(f, "is a mapping of the file {path}; {ONLY}"),
            Unsharable::Shared => write!(f, "is shared by other means already; {ONLY}"),
            Unsharable::Stack => write!(f, "is a stack; {ONLY}"),
            Unsharable::Kernel(name) => write!(f, "is the kernel's ({name}); {ONLY}"),
            Unsharable::Attached => write!(f, "is attached from another segment, which others can get themselves"),
            Unsharable::Kept(own, wanted) => write!(
                f,
                "was shared together with more, by the mode {own:04o}, which mode {wanted:04o} would open to others, too: share all \
                 of that by this mode, or remove its segments first"
            ),
            Unsharable::Pieces(pieces) => write!(f, "lies in {pieces} pieces, which are too many: share less at once"),
        }
    }
}

/// The mappings of a range, clipped to it, ascending. They may leave gaps.
pub fn areas(range: &Range<usize>) -> Result<Vec<Area>, Problem> {
    const PATH: &str = "/proc/self/maps";
    let text = std::fs::read(PATH).map_err(|error| Problem::file("read", PATH, error))?;
    let text = String::from_utf8_lossy(&text);
    let all = text.lines().filter_map(parse);
    Ok(all.filter(|area| area.start < range.end && range.start < area.end).map(|area| area.clipped(range)).collect())
}

impl Area {
    fn clipped(mut self, range: &Range<usize>) -> Area {
        let before = range.start.saturating_sub(self.start);
        if let Kind::Pages { offset, .. } = &mut self.kind {
            *offset += before as u64;
        }
        self.start += before;
        self.end = self.end.min(range.end);
        self
    }
}

/// A line of the kernel's list.
fn parse(line: &str) -> Option<Area> {
    let mapping = ListedMapping::parse(line)?;
    let ListedMapping { start, end, offset, device: (major, minor), inode, path, .. } = mapping;
    let device = libc::makedev(major, minor);
    let [read, write, execute, _] = mapping.permissions;
    let protection = [(read, b'r', libc::PROT_READ), (write, b'w', libc::PROT_WRITE), (execute, b'x', libc::PROT_EXEC)]
        .into_iter()
        .fold(libc::PROT_NONE, |all, (found, wanted, bit)| if found == wanted { all | bit } else { all });
    let (is_private, is_named_by_kernel) = (mapping.is_private(), path.starts_with('['));
    let kind = if is_private && inode == 0 {
        // Memory may have a name of its program's (prctl(2), PR_SET_VMA_ANON_NAME).
        match path {
            "[stack]" => Kind::Other(Unsharable::Stack),
            "[heap]" => Kind::Private,
            name if is_named_by_kernel && !name.starts_with("[anon:") => Kind::Other(Unsharable::Kernel(name.into())),
            _ => Kind::Private,
        }
    } else if !is_private && is_pages(path) {
        Kind::Pages { identity: (device, inode), offset }
    } else if is_private || path.starts_with('/') && !path.starts_with("/dev/zero") && !path.starts_with("/SYSV") {
        Kind::Other(Unsharable::File(path.into()))
    } else {
        Kind::Other(Unsharable::Shared)
    };
    let kind = match kind {
        Kind::Private | Kind::Pages { .. } if protection & libc::PROT_READ == 0 => Kind::Other(Unsharable::Unreadable),
        kind => kind,
    };
    Some(Area { start, end, protection, kind })
}

/// Whether a mapped file is one of this library's, whether it has its name still or not.
fn is_pages(path: &str) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    path.rsplit('/').next().is_some_and(directory::is_pages_file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_told_apart() {
        let kind = |line: &str| parse(line).unwrap().kind;
        assert_eq!(kind("7f0000000000-7f0000002000 rw-p 00000000 00:00 0 "), Kind::Private);
        assert_eq!(kind("5500000-5600000 rw-p 00000000 00:00 0                    [heap]"), Kind::Private);
        assert_eq!(kind("7f0000000000-7f0000002000 rw-p 00000000 00:00 0      [anon:a name]"), Kind::Private);
        let stack = "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0      [stack]";
        assert_eq!(kind(stack), Kind::Other(Unsharable::Stack));
        let vdso = "7ffd00000000-7ffd00021000 r-xp 00000000 00:00 0      [vdso]";
        assert_eq!(kind(vdso), Kind::Other(Unsharable::Kernel("[vdso]".into())));
        assert_eq!(kind("7f0000000000-7f0000002000 ---p 00000000 00:00 0 "), Kind::Other(Unsharable::Unreadable));
        let file = "7f0000000000-7f0000002000 rw-p 00001000 08:01 1234   /a file (deleted)";
        assert_eq!(kind(file), Kind::Other(Unsharable::File("/a file (deleted)".into())));
        let anonymous = "7f0000000000-7f0000002000 rw-s 00000000 00:01 1234   /dev/zero (deleted)";
        assert_eq!(kind(anonymous), Kind::Other(Unsharable::Shared));
        let pages = "7f0000000000-7f0000002000 rw-s 00003000 00:1b 77     /dev/shm/x/.xpmem-0000000a-3.pages (deleted)";
        assert_eq!(kind(pages), Kind::Pages { identity: (libc::makedev(0, 0x1b), 77), offset: 0x3000 });
        let private = pages.replace("rw-s", "rw-p");
        assert!(matches!(kind(&private), Kind::Other(Unsharable::File(_))));
    }

    #[test]
    fn an_area_is_clipped_with_its_offset() {
        let line = "10000-20000 r--s 00003000 00:1b 77     /x/.xpmem-0000000a-3.pages";
        let area = parse(line).unwrap().clipped(&(0x12000..0x15000));
        assert_eq!((area.start, area.end, area.protection), (0x12000, 0x15000, libc::PROT_READ));
        assert!(matches!(area.kind, Kind::Pages { offset: 0x5000, .. }));
    }

    #[test]
    fn memory_of_this_process_is_found() {
        let memory = vec![1u8; 1 << 20];
        let start = memory.as_ptr() as usize / 4096 * 4096;
        let found = areas(&(start..start + 8192)).unwrap();
        assert_eq!(found.first().map(|area| area.start), Some(start));
        assert!(found.iter().all(|area| area.kind == Kind::Private));
    }
}
