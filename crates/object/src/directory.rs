//! The directory in which objects have their names and boards, and the files in it.

use crate::error::{Error, Result};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use stillframe_kernel::folder::{About, Access, Folder};
use stillframe_kernel::trust::{Guard, Purpose, Trust};

/// Below the directory of regions. Names of regions do not begin with a dot.
pub(crate) const OBJECTS: &str = ".objects";
const NAMES: &str = "names";
const BOARDS: &str = "boards";

/// The directory of all objects. Copies are the same.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    /// That of regions.
    pub(crate) dir: PathBuf,
    pub(crate) objects: Part,
    pub(crate) names: Part,
    pub(crate) boards: Part,
}

/// A directory and how its files are looked at.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) path: PathBuf,
    folder: Folder,
    guard: Guard,
    mode: u32,
}

/// The file of an object. Its name has no parts, so that no object stands in the way of another.
pub(crate) fn file_of(name: &str) -> String {
    name.replace('/', ":")
}

/// The object whose file this is.
pub(crate) fn name_of(file: &str) -> String {
    file.replace(':', "/")
}

impl Directory {
    /// Opens the directories, and makes those that are not there.
    pub(crate) fn make(dir: &Path, mode: u32, trust: Trust) -> Result<Directory> {
        let guard = Guard::new(trust, Purpose::Write { granted: mode });
        std::fs::create_dir_all(dir).map_err(|source| Error::io("mkdir", dir, source))?;
        let folder = guard.open_root(dir).map_err(|refused| Error::refused(dir, refused))?;
        let root = Part { path: dir.into(), folder, guard, mode };
        let objects = root.made(OBJECTS)?;
        Ok(Directory { dir: dir.into(), names: objects.made(NAMES)?, boards: objects.made(BOARDS)?, objects })
    }

    /// Opens the directories for who only looks; `None` if there are none.
    pub(crate) fn look(dir: &Path, trust: Trust) -> Result<Option<Directory>> {
        let guard = Guard::new(trust, Purpose::Look);
        let folder = match guard.open_root(dir) {
            Ok(folder) => folder,
            Err(refused) if refused.is_missing() => return Ok(None),
            Err(refused) => return Err(Error::refused(dir, refused)),
        };
        let root = Part { path: dir.into(), folder, guard, mode: 0 };
        let Some(objects) = root.opened(OBJECTS)? else { return Ok(None) };
        let (names, boards) = (objects.opened(NAMES)?, objects.opened(BOARDS)?);
        Ok(names.zip(boards).map(|(names, boards)| Directory { dir: dir.into(), objects, names, boards }))
    }

    /// Whether files may be written.
    pub(crate) fn is_writing(&self) -> bool {
        self.objects.guard.is_writing()
    }
}

impl Part {
    fn opened(&self, name: &str) -> Result<Option<Part>> {
        let path = self.path.join(name);
        match self.guard.open_folder(&self.folder, name) {
            Ok(folder) => Ok(Some(Part { path, folder, guard: self.guard, mode: self.mode })),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Error::refused(path, refused)),
        }
    }

    fn made(&self, name: &str) -> Result<Part> {
        if let Some(there) = self.opened(name)? {
            return Ok(there);
        }
        let path = self.path.join(name);
        match self.folder.make_folder(name, self.mode) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("mkdir", path, error)),
        }
        let made = self.opened(name)?.ok_or_else(|| Error::io("open", &path, ErrorKind::NotFound.into()))?;
        // The process's umask takes bits away that were asked for.
        made.folder.permit(self.mode).map_err(|error| Error::io("chmod", &path, error))?;
        Ok(made)
    }

    /// Opens a file; `None` if it is not there.
    pub(crate) fn open(&self, name: &str, access: Access) -> Result<Option<(File, About)>> {
        let access = match access {
            Access::Create(_) => Access::Create(self.file_mode()),
            Access::New(_) => Access::New(self.file_mode()),
            access => access,
        };
        match self.guard.open(&self.folder, name, access) {
            Ok(opened) => Ok(Some(opened)),
            Err(refused) if refused.is_missing() => Ok(None),
            Err(refused) => Err(Error::refused(self.path.join(name), refused)),
        }
    }

    /// The mode of files: that of the directories, without the right to execute.
    fn file_mode(&self) -> u32 {
        self.mode & 0o666 | 0o600
    }

    /// Gives a file that was made its mode, whatever the umask took.
    pub(crate) fn permit(&self, file: &File, about: &About) -> std::io::Result<()> {
        use std::os::unix::fs::PermissionsExt;
        if about.mode & 0o777 == self.file_mode() {
            return Ok(());
        }
        file.set_permissions(std::fs::Permissions::from_mode(self.file_mode()))
    }

    pub(crate) fn identity(&self, name: &str) -> Option<(u64, u64)> {
        self.folder.about_name(name).ok().map(|about| about.identity)
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let names = self.folder.names().map_err(|error| Error::io("readdir", &self.path, error))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).filter(|name| !name.starts_with('.')).collect())
    }
}
