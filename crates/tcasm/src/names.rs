//! From files below `/dev/shm` to the names of their regions.

use crate::kernel::{Stat, fstat};
use once_cell::race::OnceBox;
use std::fmt::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The group of the regions that stand for files.
const GROUP: &str = "tcasm";

/// Where things lie, for as long as the process lives.
struct Places {
    /// Where POSIX shared memory lies.
    shared: PathBuf,
    /// The device that it is on.
    device: u64,
    /// The directory of regions.
    regions: PathBuf,
}

static PLACES: OnceBox<Option<Places>> = OnceBox::new();

fn places() -> Option<&'static Places> {
    let find = || {
        let shared = std::fs::canonicalize("/dev/shm").ok()?;
        let device = fstat(std::fs::File::open(&shared).ok()?.as_raw_fd())?.key.0;
        Some(Places { shared, device, regions: root().clone() })
    };
    PLACES.get_or_init(|| Box::new(find())).as_ref()
}

/// The directory of regions: the same for as long as the process lives.
pub fn root() -> &'static PathBuf {
    static ROOT: OnceBox<PathBuf> = OnceBox::new();
    ROOT.get_or_init(|| Box::new(stillframe::inspect::root()))
}

/// Finds out where things lie, so that a signal handler need not.
pub fn find() {
    places();
}

/// Whether it is known where things lie: what follows neither allocates nor waits from then on, but for what says that it
/// does.
pub fn is_known() -> bool {
    PLACES.get().is_some()
}

/// Whether a file may lie below `/dev/shm`. The answer `false` is cheap.
pub fn may_be_shared(stat: &Stat) -> bool {
    stat.is_regular && places().is_some_and(|places| places.device == stat.key.0)
}

/// The path of an open file, if it lies below `/dev/shm` and is no region's own. Allocates.
pub fn path_of(descriptor: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/self/fd/{descriptor}")).ok()?;
    is_ours(&path).then_some(path)
}

/// Whether a path lies below `/dev/shm`, and is no region's own file.
pub fn is_ours(path: &Path) -> bool {
    let Some(places) = places() else { return false };
    let Ok(below) = path.strip_prefix(&places.shared) else { return false };
    // A file that was removed while it was open is told by this end of its path.
    let text = below.as_os_str().as_bytes();
    let is_region = text.starts_with(b"stillframe-") || path.starts_with(&places.regions);
    !text.is_empty() && !text.ends_with(b" (deleted)") && !is_region
}

/// The name of the region for a file below `/dev/shm`. Allocates.
pub fn region_name(path: &Path) -> Option<String> {
    let mut name = String::new();
    write_region_name(path, &mut name)?;
    Some(name)
}

/// The same, written to `out`: the file's path, with all characters that a name cannot have escaped. `None` if there is none,
/// or no room for it.
pub fn write_region_name(path: &Path, out: &mut impl Write) -> Option<()> {
    let below = path.strip_prefix(&places()?.shared).ok()?;
    out.write_str(GROUP).ok()?;
    for part in below {
        out.write_char('/').and_then(|()| escape(part.as_bytes(), out)).ok()?;
    }
    Some(())
}

/// Names that a region calls its own files begin so.
const TAKEN: [&[u8]; 5] = [b"head", b"tables", b"lease", b"plane.", b"schema."];

fn escape(part: &[u8], out: &mut impl Write) -> std::fmt::Result {
    let is_taken = TAKEN.iter().any(|name| if name.ends_with(b".") { part.starts_with(name) } else { part == *name });
    for (index, byte) in part.iter().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let begins_escape = *byte == b'_' && part.get(index + 1) == Some(&b'x');
        if !is_plain || begins_escape || index == 0 && (*byte == b'.' || is_taken) {
            write!(out, "_x{byte:02x}_")?;
        } else {
            out.write_char(char::from(*byte))?;
        }
    }
    Ok(())
}
