//! Where included texts come from: `dataset "mesh.drepl"`.

use std::{
    fs,
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    diagnostic::{Code, Diagnostics, Problem},
    source::{Sources, Span, TEXT_BYTES_MAX},
};

/// A text that was included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded {
    /// One name for one text, however it was asked for: a text that is already there is not read again, and one that
    /// includes itself is refused.
    pub name: String,
    /// What it says.
    pub text: String,
}

/// Finds texts to include. A program that reads a text from elsewhere decides with it which files that can open.
pub trait Loader {
    /// The text of this name; `from` is the name of the text that includes it. An error says why there is none.
    fn load(&mut self, name: &str, from: &str) -> Result<Loaded, String>;
}

/// Includes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Loader for Nothing {
    fn load(&mut self, _: &str, _: &str) -> Result<Loaded, String> {
        Err("a text that comes from no file can include none: put it into a file, and read that".into())
    }
}

/// Includes files of one folder and of the folders therein; names are relative to the file that includes.
#[derive(Debug, Clone)]
pub struct Folder {
    root: PathBuf,
    /// The same as the caller names it: texts are called by names that the caller knows.
    shown: PathBuf,
}

impl Folder {
    /// The folder a file is in, and the file's own name and text.
    pub(crate) fn open(path: &Path) -> Result<(Self, String, String), Diagnostics> {
        let read = || {
            let file = path.canonicalize().map_err(|error| error.to_string())?;
            let text = read(&file)?;
            let root = file.parent().unwrap_or(Path::new("/")).to_path_buf();
            let named = path.parent().unwrap_or(Path::new("/"));
            // A link leads elsewhere.
            let is_there = Path::new(".").join(named).canonicalize().is_ok_and(|named| named == root);
            let shown = if is_there { named.to_path_buf() } else { root.clone() };
            let folder = Self { root, shown };
            let name = folder.name(&file);
            Ok((folder, name, text))
        };
        read().map_err(|error: String| {
            let mut sources = Sources::default();
            sources.add(&path.to_string_lossy(), "");
            let message = format!("cannot read {}: {error}", path.display());
            Diagnostics::new(&sources, vec![Problem::new(Code::Include, Span::default(), message)])
        })
    }
}

impl Folder {
    /// What a file in the folder is called.
    fn name(&self, file: &Path) -> String {
        let inner = file.strip_prefix(&self.root).unwrap_or(file);
        self.shown.join(inner).to_string_lossy().into_owned()
    }
}

impl Loader for Folder {
    fn load(&mut self, name: &str, from: &str) -> Result<Loaded, String> {
        let folder = Path::new(from).parent().unwrap_or(&self.root);
        let path = folder.join(name).canonicalize().map_err(|error| error.to_string())?;
        if !path.starts_with(&self.root) {
            return Err(format!("it lies outside of {}, the folder of the first file", self.root.display()));
        }
        let text = read(&path)?;
        Ok(Loaded { name: self.name(&path), text })
    }
}

fn read(path: &Path) -> Result<String, String> {
    let about = fs::metadata(path).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no regular file".into());
    }
    let mut text = String::new();
    let file = fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(TEXT_BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() > TEXT_BYTES_MAX { Err(format!("it is longer than {TEXT_BYTES_MAX} bytes")) } else { Ok(text) }
}
