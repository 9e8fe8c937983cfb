//! One pool.

use crate::error::{Error, Result};
use crate::mounts::{Mount, mounts};
use crate::page::Page;
use crate::supply::System;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Where pools are mounted, by their names.
pub const PLACE: &str = "/run/stillframe/pages";

/// The longest name of a pool.
const NAME_BYTES_MAX: usize = 64;

/// A pool that there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pool {
    /// Its name; of a hugetlbfs that somebody else mounted, its path.
    pub name: String,
    /// Where it is.
    pub mount: Mount,
}

/// Bytes of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Size {
    /// All of them; `None` where it has what the machine has.
    pub bytes: Option<u64>,
    /// Those that nobody has.
    pub free_bytes: u64,
}

impl Pool {
    /// All pools, by their names: those of [`PLACE`], and every other hugetlbfs that is mounted.
    ///
    /// # Errors
    /// Those of `/proc`.
    pub fn all(system: &System) -> Result<Vec<Pool>> {
        let mut pools: Vec<Pool> =
            mounts(system)?.into_iter().map(|mount| Pool { name: name(&mount.path), mount }).collect();
        pools.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(pools)
    }

    /// The pool of a name, or of a path.
    ///
    /// # Errors
    /// [`Error::NoPool`]; those of `/proc`.
    pub fn find(system: &System, name: &str) -> Result<Pool> {
        let pools = Pool::all(system)?;
        let is_it = |pool: &&Pool| pool.name == name || pool.mount.path == Path::new(name);
        let found = pools.iter().find(is_it).cloned();
        found.ok_or_else(|| Error::NoPool {
            name: name.into(),
            found: pools.into_iter().map(|pool| pool.name).collect(),
        })
    }

    /// Its pages.
    pub fn page(&self) -> Page {
        self.mount.page
    }

    /// How large it is.
    ///
    /// # Errors
    /// Those of statfs(2).
    pub fn size(&self, system: &System) -> Result<Size> {
        let path = &self.mount.path;
        let told = rustix::fs::statfs(path).map_err(|error| Error::io("statfs", path)(error.into()))?;
        let page_bytes = self.page().bytes();
        // One without a bound says nothing of itself.
        match told.f_blocks {
            0 | u64::MAX => {
                let free_bytes = system.supply(self.page(), None)?.spare() * page_bytes;
                Ok(Size { bytes: None, free_bytes })
            }
            blocks => Ok(Size { bytes: Some(blocks * page_bytes), free_bytes: told.f_bfree * page_bytes }),
        }
    }

    /// A file of its own in it, without a name: what it has is free again when it is closed, and its mappings are gone.
    ///
    /// # Errors
    /// Those of openat(2).
    pub fn file(&self) -> Result<File> {
        use rustix::fs::{Mode, OFlags};
        let path = &self.mount.path;
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
        opened.map(File::from).map_err(|error| Error::io("open", path)(error.into()))
    }
}

/// What a pool at this place is called.
fn name(path: &Path) -> String {
    path.strip_prefix(PLACE).unwrap_or(path).display().to_string()
}

/// The place of a pool of this name.
///
/// # Errors
/// [`Error::Name`].
pub fn place(name: &str) -> Result<PathBuf> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.bytes().all(is_plain) {
        true => Ok(Path::new(PLACE).join(name)),
        false => Err(Error::Name { name: name.chars().take(NAME_BYTES_MAX).collect() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_plain() {
        assert_eq!(place("heat-17_b").unwrap(), Path::new("/run/stillframe/pages/heat-17_b"));
        for wrong in ["", "..", "a/b", "a b", &"x".repeat(65)] {
            assert!(matches!(place(wrong), Err(Error::Name { .. })), "{wrong}");
        }
        assert_eq!(name(Path::new("/run/stillframe/pages/a")), "a");
        assert_eq!(name(Path::new("/dev/hugepages")), "/dev/hugepages");
    }
}
