//! The directory of regions, and what this library has in it beside them: files whose names begin with `.xpmem-`.
//!
//! Their names, and what becomes of those of the dead, stand in `stillframe::inspect::xpmem`.

use crate::problem::Problem;
use once_cell::race::OnceBox;
use std::fs::{DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use stillframe::inspect;
use stillframe::inspect::xpmem::PREFIX;
pub use stillframe::inspect::xpmem::{
    is_pages_file, is_pages_file_of, new_file, pages_file, process_file, record_file, region_name, segid_of,
};
use stillframe_kernel::folder::{About, Access, Folder};
use stillframe_kernel::trust::{Guard, Purpose};

/// Where regions lie: the same for as long as the process lives.
pub fn path() -> &'static Path {
    static PATH: OnceBox<PathBuf> = OnceBox::new();
    PATH.get_or_init(|| Box::new(inspect::root()))
}

/// The directory of regions.
#[derive(Debug, Clone)]
pub struct Directory {
    pub folder: Folder,
}

impl Directory {
    /// Opens it for who looks; `None` if there is none.
    pub fn look() -> Result<Option<Directory>, Problem> {
        match looking()?.open_root(path()) {
            Ok(folder) => Ok(Some(Directory { folder })),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Problem::refused(path(), refused)),
        }
    }

    /// Opens it for who makes something in it. It is made, with those above it, as far as it is not there.
    pub fn make() -> Result<Directory, Problem> {
        let guard = writing(0)?;
        let failed = |refused| Problem::refused(path(), refused);
        match guard.open_root(path()) {
            Err(refused) if refused.is_missing() => {}
            opened => return opened.map(|folder| Directory { folder }).map_err(failed),
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(path());
        made.map_err(|error| Problem::file("mkdir", path(), error))?;
        guard.open_root(path()).map(|folder| Directory { folder }).map_err(failed)
    }

    /// Opens a file that is there.
    pub fn open(&self, name: &str, access: Access) -> Result<(File, About), Problem> {
        let guard = match access {
            Access::Read => looking()?,
            // Whether modes let others write a segment is up to its maker.
            _ => writing(0o666)?,
        };
        guard.open(&self.folder, name, access).map_err(|refused| Problem::refused(path().join(name), refused))
    }

    /// Makes a file that was not there, to be read and written by this user alone.
    pub fn create(&self, name: &str) -> Result<File, Problem> {
        let (file, about) = self.open(name, Access::Create(0o600))?;
        match about.bytes {
            0 => Ok(file),
            bytes => Err(Problem::Damaged {
                path: path().join(name),
                why: format!("it has {bytes} bytes, and should be new"),
            }),
        }
    }

    /// Gives a file all bits of a mode.
    pub fn permit(&self, name: &str, mode: u32) -> Result<(), Problem> {
        self.folder.permit_name(name, mode).map_err(|error| Problem::file("chmod", path().join(name), error))
    }

    /// Takes a name away, if it is there.
    pub fn remove(&self, name: &str) -> Result<(), Problem> {
        match self.folder.remove_file(name) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(|error| Problem::file("unlink", path().join(name), error)),
        }
    }

    /// The names of this library's files.
    pub fn names(&self) -> Result<Vec<String>, Problem> {
        let mut names = Vec::new();
        let list = self.folder.list(|name| {
            names.extend(name.to_str().filter(|name| name.starts_with(PREFIX)).map(String::from));
        });
        list.map_err(|error| Problem::file("readdir", path(), error))?;
        Ok(names)
    }

    /// The mode of files for all who may enter the directory, and write to it.
    pub fn common_mode(&self) -> Result<u32, Problem> {
        let about = self.folder.about().map_err(|error| Problem::file("stat", path(), error))?;
        // Whoever may step into a directory may read, and whoever may make files in it may write.
        let enters = about.mode & 0o011;
        Ok(0o600 | enters << 2 | about.mode & 0o022)
    }
}

fn looking() -> Result<Guard, Problem> {
    Ok(Guard::new(inspect::trust_to_look(path(), None)?, Purpose::Look))
}

fn writing(granted: u32) -> Result<Guard, Problem> {
    Ok(Guard::new(inspect::trust_to_write(None)?, Purpose::Write { granted }))
}
