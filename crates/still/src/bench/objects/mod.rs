//! Objects: what their calls cost, what a publish costs beside that of a plain variable, and what it costs to read them in
//! another layout beside moving the same bytes in plain memory.

pub mod calls;
mod layouts;
mod publish;
pub mod read;

use super::report::Report;
use super::{CHILD_COMMAND, Setting};
use crate::trial::{Error, Result};
use std::path::Path;
use stillframe_object::Objects;

/// A part of the benchmark.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Creates, attaches and publishes per second, of many processes and objects
    Calls,
    /// Publishes of an attached fragment, beside a plain variable in an arena
    Publish,
    /// A fragment of a reader out of those of eight writers, beside the same plan on plain memory
    Read,
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let parts = &setting.args.part;
    if parts.contains(&Part::Calls) {
        calls::run(setting, report)?;
    }
    if parts.contains(&Part::Publish) {
        publish::run(setting, report)?;
    }
    if parts.contains(&Part::Read) {
        read::run(setting, report)?;
    }
    Ok(())
}

/// The objects of the benchmark's own directory.
fn objects(root: &Path) -> Result<Objects> {
    Ok(Objects::options().dir(root).open()?)
}

/// Takes away all objects with all that was published. Nobody writes or reads any.
fn clear(root: &Path) -> Result<()> {
    for name in ["objects", ".objects"] {
        std::fs::remove_dir_all(root.join(name)).map_err(Error::system("remove the objects"))?;
    }
    Ok(())
}
