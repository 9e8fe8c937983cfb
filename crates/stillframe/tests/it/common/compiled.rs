//! Programs in other languages that tests compile: each test is a process, and many tests run the same program.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Whether a program was made after this test, which has the compiler's options, and after all that the program is made of came to be
/// as it is. That is the time of the inode and not of the content: cargo puts an older library in the place of a newer one by a
/// link.
pub fn is_current(program: &Path, made_of: &[&Path]) -> bool {
    let Ok(own) = std::fs::metadata(program) else { return false };
    let made = (own.mtime(), own.mtime_nsec());
    let test = std::env::current_exe().unwrap();
    made_of.iter().copied().chain([test.as_path()]).all(|path| {
        let about = std::fs::metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (about.ctime(), about.ctime_nsec()) < made
    })
}
