//! Names in a directory of this machine: one file for each object, put in its place whole.

use super::Names;
use crate::bell::Bell;
use crate::description::{Description, TEXT_BYTES_MAX};
use crate::directory::{Directory, aside_name, file_of, name_of};
use crate::error::{Error, Result};
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use stillframe_kernel::folder::Access;

/// The longest file that is read: a text, each of whose bytes JSON may write as six, and what stands around it.
const FILE_BYTES_MAX: u64 = 6 * TEXT_BYTES_MAX as u64 + (1 << 16);

/// Longest sleep before a name is looked for again: whoever puts it rings the bell, but may die before.
const LOOK: Duration = Duration::from_millis(20);

/// Names in a directory.
#[derive(Debug)]
pub struct DirectoryNames {
    directory: Directory,
    bell: Bell,
}

impl DirectoryNames {
    pub(crate) fn new(directory: Directory, bell: Bell) -> DirectoryNames {
        DirectoryNames { directory, bell }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.directory.names.path.join(file_of(name))
    }
}

impl Names for DirectoryNames {
    fn put(&self, name: &str, description: &Description) -> Result<Description> {
        if let Some(there) = self.get(name)? {
            return Ok(there);
        }
        let names = &self.directory.names;
        let path = self.path(name);
        let corrupt = |why: String| Error::Corrupt { path: path.clone(), offset: 0, why };
        let bytes = serde_json::to_vec(description).map_err(|error| corrupt(error.to_string()))?;
        if bytes.len() as u64 > FILE_BYTES_MAX {
            let mistakes = format!("it takes {} bytes, and at most {FILE_BYTES_MAX} are read", bytes.len());
            return Err(Error::Text { name: name.into(), what: "the description", mistakes });
        }
        let aside = aside_name();
        let opened = names.open(&aside, Access::New(0))?;
        let (file, about) = opened.ok_or_else(|| Error::io("open", &path, ErrorKind::NotFound.into()))?;
        let written = names.permit(&file, &about).and_then(|()| file.write_all_at(&bytes, 0));
        let put = written.and_then(|()| names.folder().rename_new(&aside, names.folder(), file_of(name)));
        match put {
            Ok(()) => {
                self.bell.of(name).ring();
                Ok(description.clone())
            }
            Err(error) => {
                let _ = names.folder().remove_file(&aside);
                if error.kind() == ErrorKind::AlreadyExists
                    && let Some(there) = self.get(name)?
                {
                    return Ok(there);
                }
                Err(Error::io("write", &path, error).needing(bytes.len()))
            }
        }
    }

    fn get(&self, name: &str) -> Result<Option<Description>> {
        let Some((file, about)) = self.directory.names.open(&file_of(name), Access::Read)? else { return Ok(None) };
        let path = self.path(name);
        if about.bytes > FILE_BYTES_MAX {
            let why = format!("it has {} bytes, and at most {FILE_BYTES_MAX} are read", about.bytes);
            return Err(Error::Corrupt { path, offset: FILE_BYTES_MAX, why });
        }
        let mut bytes = vec![0; about.bytes as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| Error::io("read", &path, error))?;
        let described = serde_json::from_slice(&bytes);
        let described = described.map_err(|error| {
            let why = format!("it is no description of an object: {error}");
            Error::Corrupt { path, offset: error.column() as u64, why }
        })?;
        Ok(Some(described))
    }

    fn wait(&self, name: &str, timeout: Duration) -> Result<Option<Description>> {
        let (begin, bell) = (Instant::now(), self.bell.of(name));
        loop {
            let seen = bell.seen();
            let found = self.get(name)?;
            let left = timeout.saturating_sub(begin.elapsed());
            if found.is_some() || left.is_zero() {
                return Ok(found);
            }
            bell.sleep(seen, left.min(LOOK));
        }
    }

    fn remove(&self, name: &str, id: NonZeroU64) -> Result<bool> {
        if self.get(name)?.is_none_or(|there| there.id != id) {
            return Ok(false);
        }
        self.discard(name)
    }

    fn discard(&self, name: &str) -> Result<bool> {
        match self.directory.names.folder().remove_file(file_of(name)) {
            Ok(()) => {
                self.bell.of(name).ring();
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(Error::io("unlink", self.path(name), error)),
        }
    }

    fn list(&self) -> Result<Vec<String>> {
        let mut names: Vec<String> = self.directory.names.names()?.iter().map(|file| name_of(file)).collect();
        names.sort();
        Ok(names)
    }
}
