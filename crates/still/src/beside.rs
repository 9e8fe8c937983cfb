//! Programs that commands become, which lie beside this one: each needs libraries that nothing else does.

use crate::failure::Failure;
use std::convert::Infallible;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where a program lies.
///
/// # Errors
/// It is not there; `how` says how it is made.
pub fn find(name: &str, how: &str) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Problem(format!("/proc/self/exe: {error}")))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let program = folder.join(name);
    if program.exists() {
        return Ok(program);
    }
    Err(Failure::Problem(format!("{name} is not in {}: {how}", folder.display())))
}

/// Becomes that program.
///
/// # Errors
/// Why it cannot be run.
pub fn become_it(mut command: Command) -> Result<Infallible, Failure> {
    let error = command.exec();
    Err(Failure::Problem(format!("{} cannot be run: {error}", command.get_program().to_string_lossy())))
}
