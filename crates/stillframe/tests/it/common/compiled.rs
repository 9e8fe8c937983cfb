//! Programs in other languages that tests compile: each test is a process, and many tests run the same program.

use std::path::Path;
use std::time::SystemTime;

/// Whether a program is newer than this test, which has the compiler's options, and than all that the program is made of, as `make`
/// decides.
pub fn is_current(program: &Path, made_of: &[&Path]) -> bool {
    let made = |path: &Path| std::fs::metadata(path)?.modified();
    let Ok(own) = made(program) else { return false };
    let newest = made_of.iter().map(|path| made(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())));
    newest
        .chain(std::env::current_exe().and_then(|test| made(&test)))
        .max()
        .is_none_or(|newest: SystemTime| newest < own)
}
