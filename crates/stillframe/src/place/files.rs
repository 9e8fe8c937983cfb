//! Where who looks has the files of regions from: a directory, or a broker.

use crate::error::{Error, Result};
use crate::place::arena::Arena;
use crate::place::broker::{Broker, HandedOut};
use crate::place::directory::{self, Directory, Unopened};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use stillframe_kernel::folder::{About, Access};
use stillframe_kernel::fork::Unforked;
use stillframe_kernel::trust::Guard;
use stillframe_segment::head;

/// Where regions lie, for who looks.
#[derive(Debug, Clone)]
pub(crate) enum Root {
    Directory(Directory),
    Broker(Broker),
}

/// The files of one region or arena.
#[derive(Debug, Clone)]
pub(crate) enum Files {
    Directory(Directory),
    Broker(Arc<HandedOut>),
}

/// Where a name leads.
#[derive(Debug)]
pub(crate) enum Located {
    /// To files of a region's own, the head among them.
    Region { files: Files, head: (File, About) },
    /// To an arena, of this name, and in it to a region of what is left.
    Arena { files: Files, called: String, leads: String, region: String },
}

impl Root {
    /// What lies in a directory, or is handed out by the broker that is named in its place; `None` if there is no such directory.
    pub(crate) fn open(dir: &Path, guard: Guard) -> Result<Option<Root>> {
        match Broker::named(dir, guard) {
            Some(broker) => Ok(Some(Root::Broker(broker))),
            None => Ok(Directory::root(dir, guard)?.map(Root::Directory)),
        }
    }

    pub(crate) fn directory(&self) -> Option<&Directory> {
        match self {
            Root::Directory(directory) => Some(directory),
            Root::Broker(_) => None,
        }
    }

    /// Looks for the region of a name; `None` if there is none.
    pub(crate) fn locate(&self, name: &str) -> Result<Option<Located>> {
        match self {
            Root::Directory(root) => {
                // No region lies in a directory that is an arena's, so a name leads to one of the two at most.
                if let Some(directory) = root.below(name)?
                    && let Some(head) = directory.file(head::FILE)?
                {
                    return Ok(Some(Located::Region { files: Files::Directory(directory), head }));
                }
                self.locate_arena(name)
            }
            Root::Broker(broker) => {
                let Some((files, leads)) = broker.open(name)? else { return Ok(None) };
                let files = Arc::new(files);
                let Some(leads) = leads else {
                    return match files.file(head::FILE) {
                        Ok(head) => Ok(Some(Located::Region { files: Files::Broker(files), head })),
                        Err(Unopened::Missing) => Ok(None),
                        Err(Unopened::Failed(error)) => Err(error),
                    };
                };
                let region = name[leads.len()..].trim_start_matches('/').to_string();
                let called = if leads.is_empty() { "arena".into() } else { leads.clone() };
                Ok(Some(Located::Arena { files: Files::Broker(files), called, leads, region }))
            }
        }
    }

    /// As [`locate`](Root::locate), for a name that leads to an arena; `None` if it does not.
    pub(crate) fn locate_arena(&self, name: &str) -> Result<Option<Located>> {
        match self {
            Root::Directory(root) => Ok(Arena::locate(root, name)?.map(|(directory, called, [prefix, region])| {
                let leads = prefix.trim_end_matches('/').into();
                Located::Arena { files: Files::Directory(directory), called, leads, region }
            })),
            Root::Broker(_) => {
                let located = self.locate(name)?;
                Ok(located.filter(|located| matches!(located, Located::Arena { .. })))
            }
        }
    }

    /// The ranks of a group that have a region of their own.
    pub(crate) fn ranks_below(&self, name: &str) -> Result<Vec<u32>> {
        match self {
            Root::Directory(root) => directory::ranks_below(root, name),
            Root::Broker(broker) => broker.ranks(name),
        }
    }
}

impl From<Directory> for Files {
    fn from(directory: Directory) -> Files {
        Files::Directory(directory)
    }
}

impl Files {
    /// Where they lie, for messages.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Files::Directory(directory) => directory.path(),
            Files::Broker(handed) => handed.path(),
        }
    }

    /// The directory they lie in, unless they are handed out.
    pub(crate) fn directory(&self) -> Option<&Directory> {
        match self {
            Files::Directory(directory) => Some(directory),
            Files::Broker(_) => None,
        }
    }

    /// Opens a file to read it, which carries no locks; `None` if there is none.
    pub(crate) fn file(&self, name: &str) -> Result<Option<(File, About)>> {
        let opened = match self {
            Files::Directory(directory) => directory.open(name, Access::Read),
            Files::Broker(handed) => handed.file(name),
        };
        match opened {
            Ok(opened) => Ok(Some(opened)),
            Err(Unopened::Missing) => Ok(None),
            Err(Unopened::Failed(error)) => Err(error),
        }
    }

    /// Opens a file for locks of its own, such as readers take.
    pub(crate) fn locks(&self, name: &str) -> Result<Unforked, Unopened> {
        match self {
            Files::Directory(directory) => Unforked::open(|| directory.open(name, Access::Read).map(|(file, _)| file)),
            Files::Broker(handed) => handed.locks(name),
        }
    }

    /// Opens a file for a lock that whoever inherits it has, too; `None` if there is none.
    pub(crate) fn kept(&self, name: &str) -> Result<Option<File>> {
        match self {
            Files::Directory(directory) => Ok(directory.file(name)?.map(|(file, _)| file)),
            Files::Broker(handed) => match handed.locks(name) {
                Ok(file) => Ok(file.into_file()),
                Err(Unopened::Missing) => Ok(None),
                Err(Unopened::Failed(error)) => Err(error),
            },
        }
    }

    /// Whether files that were opened by name until now are those of the region or arena whose first file, of the name `first`, is this
    /// one: of all names that one goes first and comes first.
    pub(crate) fn is(&self, first: &str, identity: (u64, u64)) -> bool {
        match self {
            Files::Directory(directory) => directory.about(first).is_some_and(|about| about.identity == identity),
            Files::Broker(handed) => handed.is(identity),
        }
    }

    /// Whether its name still leads to it.
    pub(crate) fn is_current(&self, first: &str, identity: (u64, u64)) -> bool {
        match self {
            Files::Directory(directory) => {
                About::at(&directory.path().join(first), true).is_ok_and(|about| about.identity == identity)
            }
            Files::Broker(handed) => handed.is(identity) && handed.is_current(),
        }
    }
}

impl Error {
    /// Why nothing is made or removed where a broker hands out what there is.
    pub(crate) fn only_to_look(dir: &Path) -> Error {
        let why = format!("{} is a broker's, which hands out regions to look at: name their directory", dir.display());
        Error::BadOption { option: "dir", why }
    }
}
