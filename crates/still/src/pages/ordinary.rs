//! Pools of ordinary large pages, which take no root: arenas of this user all of whose memory is there.

use crate::context::Context;
use crate::failure::Failure;
use serde::{Serialize, Serializer};
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use stillframe::inspect;
use stillframe::{Arena, Filling};
use stillframe_kernel::folder;
use stillframe_kernel::map::{LARGE_BYTES, Mapping};

/// A pool that there is.
#[derive(Debug, Serialize)]
pub struct Ordinary {
    pub name: String,
    #[serde(serialize_with = "as_text")]
    pub path: PathBuf,
    pub bytes: u64,
    /// How much of it was in large pages when it was made.
    pub large_bytes: u64,
    pub free_bytes: u64,
    /// Whether whoever made it was killed before it had all its memory.
    pub unfinished: bool,
    pub regions: Vec<Region>,
}

/// The directory of regions may have any bytes in its name, and JSON has only text.
fn as_text<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}

/// What a region has of it.
#[derive(Debug, Serialize)]
pub struct Region {
    pub name: String,
    pub bytes: u64,
}

/// Whether the kernel makes large pages for whoever asks.
pub fn can_be_had() -> bool {
    let tried = || {
        let file = folder::memory_file("still").ok()?;
        file.set_len(LARGE_BYTES as u64).ok()?;
        file.write_all_at(&[1], 0).ok()?;
        let mapping = Mapping::shared(&file, 0, LARGE_BYTES, true).ok()?;
        // As where an arena is filled: the kernel may give one only to who asks again.
        Some((0..2).any(|_| mapping.collapse(0, LARGE_BYTES)))
    };
    tried().unwrap_or(false)
}

/// All of a directory, by their names.
pub fn all(dir: &Path) -> Vec<Ordinary> {
    // What cannot be looked at, or is removed just now, is none.
    let names = inspect::arenas(dir).unwrap_or_default();
    names.iter().filter_map(|name| find(dir, name)).collect()
}

/// The one of a name.
pub fn find(dir: &Path, name: &str) -> Option<Ordinary> {
    let arena = Arena::options().dir(dir).look(name).ok()?;
    let (large_bytes, unfinished) = match arena.filling().ok()? {
        Filling::Done { large_bytes } => (large_bytes, false),
        Filling::Left => (0, true),
        Filling::Never | Filling::Going => return None,
    };
    let usage = arena.usage().ok()?;
    let regions = usage.regions.into_iter().map(|region| Region { name: region.name, bytes: region.bytes }).collect();
    let (bytes, free_bytes) = (usage.bytes, usage.free_bytes);
    Some(Ordinary { name: name.into(), path: arena.path().into(), bytes, large_bytes, free_bytes, unfinished, regions })
}

/// Makes one. `watch` is told how many bytes are there, of how many, and says whether to go on; if it says no nothing is left.
pub fn reserve(
    context: &Context,
    name: &str,
    bytes: u64,
    mut watch: impl FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Ordinary, Failure> {
    // The names are those of all pools.
    stillframe_pages::pool::place(name)?;
    let dir = &context.dir;
    if let Ok(arena) = Arena::options().dir(dir).open(name) {
        // Whoever began to make it was killed.
        let is_left = arena.filling()? == Filling::Left && is_removed(dir, &arena)?;
        if !is_left {
            return Err(is_there(&arena)?);
        }
    }
    let arena = Arena::options().dir(dir).bytes(bytes).create(name)?;
    // Another reservation may have made it since it was looked for.
    if matches!(arena.filling()?, Filling::Done { .. } | Filling::Going) {
        return Err(is_there(&arena)?);
    }
    let bytes = arena.bytes();
    let filled = arena.fill(&mut |done_bytes| watch(done_bytes, bytes));
    let made = filled.map(|filled| filled.and_then(|_| find(dir, name)));
    if !matches!(made, Ok(Some(_))) {
        is_removed(dir, &arena)?;
    }
    made?.ok_or_else(|| stillframe_pages::Error::Interrupted { name: name.into() }.into())
}

/// Removes an arena that is not whole, whatever has its name by now, unless another reservation fills it.
fn is_removed(dir: &Path, arena: &Arena) -> Result<bool, Failure> {
    match inspect::remove_unfilled(dir, arena) {
        Ok(removed) => Ok(removed.is_some()),
        Err(stillframe::Error::NoArena { .. }) => Ok(true),
        Err(stillframe::Error::InUse { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What is said of what has the name already.
fn is_there(arena: &Arena) -> Result<Failure, Failure> {
    let what = match arena.filling()? {
        Filling::Done { .. } => "a pool",
        Filling::Going => "a pool that is made just now",
        Filling::Never | Filling::Left => "an arena",
    };
    let (name, path) = (arena.name(), arena.path().display());
    let text = format!("there is {what} '{name}' already, at {path}: choose another name, or remove it");
    Ok(Failure::Problem(text))
}

/// Removes one; `false` if there is none. Regions in it are lost, which `is_forced` allows if no producer has them.
pub fn give_back(context: &Context, name: &str, is_forced: bool) -> Result<bool, Failure> {
    let Some(pool) = find(&context.dir, name) else { return Ok(false) };
    if !is_forced && let Some(region) = pool.regions.first() {
        let more = match pool.regions.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        let region = format!("{name}/{}", region.name);
        let text = format!(
            "in pool '{name}' lies region {region}{more}: remove them (`still rm {region}`), or let them be lost by --force"
        );
        return Err(Failure::Problem(text));
    }
    Ok(inspect::remove(&context.dir, name, false).map(|_| true)?)
}
