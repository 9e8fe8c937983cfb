//! From files below `/dev/shm` to the names of their regions.

use crate::kernel::{Stat, fstat};
use once_cell::race::OnceBox;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The group of the regions that stand for files.
const GROUP: &str = "tcasm";

/// Where POSIX shared memory lies, and the device it is on.
fn shared_memory() -> Option<&'static (PathBuf, u64)> {
    static FOUND: OnceBox<Option<(PathBuf, u64)>> = OnceBox::new();
    let find = || {
        let path = std::fs::canonicalize("/dev/shm").ok()?;
        let device = fstat(std::fs::File::open(&path).ok()?.as_raw_fd())?.key.0;
        Some((path, device))
    };
    FOUND.get_or_init(|| Box::new(find())).as_ref()
}

/// Whether a file may lie below `/dev/shm`. The answer `false` is cheap.
pub fn may_be_shared(stat: &Stat) -> bool {
    stat.is_regular && shared_memory().is_some_and(|(_, device)| *device == stat.key.0)
}

/// The path of an open file, if it lies below `/dev/shm` and is no region's own.
pub fn path_of(descriptor: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    is_ours(&path).then_some(path)
}

/// Whether a path lies below `/dev/shm`, and is no region's own file.
pub fn is_ours(path: &Path) -> bool {
    let Some((root, _)) = shared_memory() else { return false };
    let Ok(below) = path.strip_prefix(root) else { return false };
    // A file that was removed while it was open is told by this end of its path.
    let text = below.as_os_str().as_bytes();
    let is_region = text.starts_with(b"stillframe-") || path.starts_with(stillframe::inspect::root());
    !text.is_empty() && !text.ends_with(b" (deleted)") && !is_region
}

/// The name of the region for a file below `/dev/shm`: its path, with all characters that a name cannot have escaped.
pub fn region_name(path: &Path) -> Option<String> {
    let below = path.strip_prefix(&shared_memory()?.0).ok()?;
    let parts = below.iter().map(|part| escape(part.as_bytes()));
    Some(std::iter::once(GROUP.to_string()).chain(parts).collect::<Vec<_>>().join("/"))
}

/// Names that a region calls its own files begin so.
const TAKEN: [&[u8]; 5] = [b"head", b"tables", b"lease", b"plane.", b"schema."];

fn escape(part: &[u8]) -> String {
    let is_taken = TAKEN.iter().any(|name| if name.ends_with(b".") { part.starts_with(name) } else { part == *name });
    let mut name = String::with_capacity(part.len());
    for (index, byte) in part.iter().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let begins_escape = *byte == b'_' && part.get(index + 1) == Some(&b'x');
        if !is_plain || begins_escape || index == 0 && (*byte == b'.' || is_taken) {
            name.push_str(&format!("_x{byte:02x}_"));
        } else {
            name.push(char::from(*byte));
        }
    }
    name
}
