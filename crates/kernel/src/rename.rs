//! Renaming that does not take away what is there (renameat2(2)).

use crate::Failure;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

fn rename(from: &Path, to: &Path, flags: u32) -> Result<(), Failure> {
    let detail = || format!("{} to {}", from.display(), to.display());
    let text = |path: &Path| {
        let source = std::io::Error::from_raw_os_error(libc::EINVAL);
        CString::new(path.as_os_str().as_bytes()).map_err(|_| Failure { call: "renameat2", detail: detail(), source })
    };
    let (old, new) = (text(from)?, text(to)?);
    // SAFETY: both pointers refer to live texts that end with a zero byte; the call reads nothing else.
    match unsafe { libc::renameat2(libc::AT_FDCWD, old.as_ptr(), libc::AT_FDCWD, new.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(Failure::last("renameat2", detail())),
    }
}

/// Gives each of two files or directories the other's name, in one step.
pub fn exchange(left: &Path, right: &Path) -> Result<(), Failure> {
    rename(left, right, libc::RENAME_EXCHANGE)
}
