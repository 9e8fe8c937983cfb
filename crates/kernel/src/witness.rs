//! What a thread does to file systems, before the eyes of a test.
//!
//! With the feature `points`, a thread can be given a `Witness`: it is asked before each call that changes a file system or
//! brings it to disk; may let it fail or let the thread die; and is told when the call was made. So a test knows what would be
//! left if the machine stopped. Without the feature, [`call`] makes the call and nothing else.

use crate::disk::FileSystem;
use crate::folder::Folder;
use std::ffi::OsStr;
use std::fs::File;
use std::io;

/// A call that changes a file system, or brings it to disk.
#[derive(Debug, Clone, Copy)]
pub enum Call<'a> {
    /// A directory is made.
    MakeFolder(&'a Folder, &'a OsStr),
    /// A file is opened, and made if it is not there.
    Create(&'a Folder, &'a OsStr),
    /// A symbolic link is made.
    LinkTo(&'a Folder, &'a OsStr),
    /// Something is written to a file.
    Write(&'a File),
    /// A file gets one more name.
    HardLink((&'a Folder, &'a OsStr), (&'a Folder, &'a OsStr)),
    /// Something gets another name.
    Rename((&'a Folder, &'a OsStr), (&'a Folder, &'a OsStr)),
    /// Two names are exchanged.
    Exchange((&'a Folder, &'a OsStr), (&'a Folder, &'a OsStr)),
    /// A name is taken away that is no directory's.
    RemoveFile(&'a Folder, &'a OsStr),
    /// An empty directory is removed.
    RemoveFolder(&'a Folder, &'a OsStr),
    /// A file or directory is brought to disk.
    Sync(&'a File),
    /// A file system is brought to disk.
    SyncFileSystem(&'a File),
    /// A file is read from disk from then on, as far as it was written there.
    DropCached(&'a File),
}

/// Makes a call.
///
/// # Errors
/// As the call.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub fn call<T>(_call: Call, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    make()
}

/// What kind of file system this thread takes all for, if a test says so.
#[cfg(not(feature = "points"))]
#[inline(always)]
pub(crate) fn file_system() -> Option<FileSystem> {
    None
}

#[cfg(feature = "points")]
pub use told::{Witness, call, set_witness};

#[cfg(feature = "points")]
pub(crate) use told::file_system;

#[cfg(feature = "points")]
mod told {
    use super::*;
    use std::cell::RefCell;

    /// Who sees what a thread does to file systems. What it does itself is not told.
    pub trait Witness {
        /// A call is about to be made, unless this is an error, with which it fails.
        ///
        /// # Errors
        /// Any.
        fn before(&mut self, call: &Call) -> io::Result<()>;

        /// The call was made, and did what it is for.
        fn after(&mut self, call: &Call);

        /// What kind of file system all are taken for.
        fn file_system(&self) -> Option<FileSystem>;
    }

    thread_local! {
        static WITNESS: RefCell<Option<Box<dyn Witness>>> = const { RefCell::new(None) };
    }

    /// Gives this thread a witness, or none. Returns the one that it had.
    pub fn set_witness(witness: Option<Box<dyn Witness>>) -> Option<Box<dyn Witness>> {
        WITNESS.replace(witness)
    }

    /// A witness that is told something, and goes back to its place, also if the thread dies of it.
    struct Told(Option<Box<dyn Witness>>);

    impl Drop for Told {
        fn drop(&mut self) {
            let witness = self.0.take();
            let _ = WITNESS.try_with(|place| place.replace(witness));
        }
    }

    fn tell<T>(tell: impl FnOnce(&mut (dyn Witness + 'static)) -> T) -> Option<T> {
        // A thread that ends has none any more.
        let mut told = Told(WITNESS.try_with(RefCell::take).ok().flatten());
        told.0.as_mut().map(|witness| tell(witness.as_mut()))
    }

    /// Makes a call.
    ///
    /// # Errors
    /// As the call, or the witness's.
    pub fn call<T>(call: Call, make: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        tell(|witness| witness.before(&call)).unwrap_or(Ok(()))?;
        let made = make()?;
        tell(|witness| witness.after(&call));
        Ok(made)
    }

    /// What kind of file system this thread takes all for, if a test says so.
    pub(crate) fn file_system() -> Option<FileSystem> {
        tell(|witness| witness.file_system()).flatten()
    }
}
