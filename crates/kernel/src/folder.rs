//! Directories by their descriptors (`openat` and its relatives).
//!
//! Who names a file by a path relies on everybody who may write to a directory on the way: a name may be a link to somewhere
//! else, or a pipe that nobody writes into, and may lead elsewhere when it is used again. Here a name is one step from a
//! directory that is open: no link is followed, no pipe is waited for, and a directory stays the one it is, whatever has its
//! name by now.

use crate::disk;
use crate::witness::{self, Call};
use rustix::fs::{self, AtFlags, FileType, Mode, OFlags, RenameFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// A directory. Copies share the descriptor.
#[derive(Debug, Clone)]
pub struct Folder {
    handle: Arc<File>,
}

/// How often a file that is there or not is looked for and made, while others make and remove it.
const ATTEMPTS: u32 = 100;

/// What a file is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// To read what is there.
    Read,
    /// To read and write what is there.
    Write,
    /// To read and write, and made if it is not there, with this mode less the process's umask.
    Create(u32),
    /// To read and write, and made if it is not there, with this mode whatever the process's umask is. It has the mode when it gets its
    /// name, so that nobody of the group meets it before; on file systems without `O_TMPFILE` a moment later.
    CreateExact(u32),
    /// To write what was not there.
    New(u32),
}

/// Removes from a mode the bits of those, the owner, the group or the others, who may not write. A file that anybody may read
/// anybody may lock, and keep from those who write.
pub fn writers_mode(mode: u32) -> u32 {
    let writing = [0o700, 0o070, 0o007].into_iter().filter(|class| mode & class & 0o222 != 0);
    writing.fold(mode & !0o777, |all, class| all | mode & class)
}

/// What a name is that of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A regular file.
    File,
    /// A directory.
    Folder,
    /// A symbolic link.
    Link,
    /// A pipe with a name.
    Pipe,
    /// A socket or a device.
    Other,
}

/// What is known of a file or directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Its device and inode, which tell it from all others while it is there.
    pub identity: (u64, u64),
    /// What it is.
    pub form: Form,
    /// The bits of its access mode.
    pub mode: u32,
    /// Number of the user it belongs to.
    pub owner: u32,
    /// Number of the group it belongs to.
    pub group: u32,
    /// How many names it has.
    pub links: u64,
    /// Its length.
    pub bytes: u64,
    /// Bytes of memory or disk behind it.
    pub allocated_bytes: u64,
}

impl About {
    // The fields have other types on other machines.
    #[allow(clippy::unnecessary_cast)]
    fn new(stat: &Stat) -> About {
        let form = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Form::File,
            FileType::Directory => Form::Folder,
            FileType::Symlink => Form::Link,
            FileType::Fifo => Form::Pipe,
            _ => Form::Other,
        };
        About {
            identity: (stat.st_dev as u64, stat.st_ino as u64),
            form,
            mode: stat.st_mode as u32 & 0o7777,
            owner: stat.st_uid,
            group: stat.st_gid,
            links: stat.st_nlink as u64,
            bytes: stat.st_size as u64,
            allocated_bytes: stat.st_blocks as u64 * 512,
        }
    }

    /// What is known of an open file.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn of(file: &File) -> io::Result<About> {
        Ok(About::new(&fs::fstat(file)?))
    }

    /// What is known of what a path leads to, or, with `link`, of a link that has this name itself.
    ///
    /// # Errors
    /// As fstatat(2).
    pub fn at(path: &Path, link: bool) -> io::Result<About> {
        let flags = if link { AtFlags::SYMLINK_NOFOLLOW } else { AtFlags::empty() };
        Ok(About::new(&fs::statat(fs::CWD, path, flags)?))
    }
}

/// To step into a directory takes no right to list it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// A name is one step: no path, and nothing that leads upwards.
fn step(name: &OsStr) -> io::Result<&OsStr> {
    let is_step = !name.is_empty() && name != "." && name != ".." && !name.as_bytes().contains(&b'/');
    is_step.then_some(name).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

impl From<File> for Folder {
    /// A directory that is open already.
    fn from(handle: File) -> Folder {
        Folder::new(handle)
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

impl Folder {
    /// Opens a directory by a path. If the last name of it is a link, that is followed only with `through_link`.
    ///
    /// # Errors
    /// As open(2).
    pub fn open(path: &Path, through_link: bool) -> io::Result<Folder> {
        let flags = if through_link { FOLDER } else { FOLDER | OFlags::NOFOLLOW };
        Ok(Folder::new(fs::open(path, flags, Mode::empty())?))
    }

    fn new(handle: impl Into<File>) -> Folder {
        Folder { handle: Arc::new(handle.into()) }
    }

    /// The directory as a file that can be locked and synced.
    ///
    /// # Errors
    /// As openat(2).
    pub fn reopen(&self) -> io::Result<File> {
        Ok(fs::openat(&*self.handle, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?.into())
    }

    /// Brings the names in the directory to disk, where the file system knows that of directories.
    ///
    /// # Errors
    /// As openat(2) and fsync(2).
    pub fn sync(&self) -> io::Result<()> {
        match disk::sync(&self.reopen()?) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => Ok(()),
            other => other,
        }
    }

    /// What is known of the directory.
    ///
    /// # Errors
    /// As fstat(2).
    pub fn about(&self) -> io::Result<About> {
        About::of(&self.handle)
    }

    /// What tells the directory from all that ever were on its file system, copies of it among them: its inode, and when that was
    /// made in nanoseconds since 1970 (`STATX_BTIME`, statx(2)). `None` where the file system does not know.
    pub fn birth(&self) -> Option<(u64, u64)> {
        if witness::file_system().is_some() {
            // What a test plays again after a stop of the machine is no copy.
            return Some((1, 1));
        }
        let wanted = StatxFlags::INO | StatxFlags::BTIME;
        let told = fs::statx(&*self.handle, "", AtFlags::EMPTY_PATH, wanted).ok()?;
        let is_told = StatxFlags::from_bits_retain(told.stx_mask).contains(wanted);
        let seconds = u64::try_from(told.stx_btime.tv_sec).ok().filter(|seconds| is_told && *seconds > 0)?;
        Some((told.stx_ino, seconds.checked_mul(1_000_000_000)?.checked_add(told.stx_btime.tv_nsec.into())?))
    }

    /// What is known of what has a name here: of a link the link itself.
    ///
    /// # Errors
    /// As fstatat(2).
    pub fn about_name(&self, name: impl AsRef<OsStr>) -> io::Result<About> {
        let stat = fs::statat(&*self.handle, step(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(About::new(&stat))
    }

    /// Whether a name is here, of whatever.
    pub fn has(&self, name: impl AsRef<OsStr>) -> bool {
        self.about_name(name).is_ok()
    }

    /// Opens a directory in this one.
    ///
    /// # Errors
    /// As openat(2), for a link too.
    pub fn folder(&self, name: impl AsRef<OsStr>) -> io::Result<Folder> {
        let opened = fs::openat(&*self.handle, step(name.as_ref())?, FOLDER | OFlags::NOFOLLOW, Mode::empty())?;
        Ok(Folder::new(opened))
    }

    /// Opens what is no directory in this one: a pipe too, whose form the caller has to look at.
    ///
    /// # Errors
    /// As openat(2), for a link too.
    pub fn file(&self, name: impl AsRef<OsStr>, access: Access) -> io::Result<File> {
        let (flags, mode) = match access {
            Access::CreateExact(mode) => return self.open_or_make(name.as_ref(), mode),
            Access::Read => (OFlags::RDONLY, 0),
            Access::Write => (OFlags::RDWR, 0),
            Access::Create(mode) => (OFlags::RDWR | OFlags::CREATE, mode),
            Access::New(mode) => (OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode),
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let name = step(name.as_ref())?;
        let open = || Ok(fs::openat(&*self.handle, name, flags, Mode::from_raw_mode(mode as _))?.into());
        match access {
            Access::Read | Access::Write => open(),
            _ => witness::call(Call::Create(self, name), open),
        }
    }

    /// Opens a file to read and write. One that is not there is made.
    fn open_or_make(&self, name: &OsStr, mode: u32) -> io::Result<File> {
        for _ in 0..ATTEMPTS {
            match self.file(name, Access::Write) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened,
            }
            // It is opened by its name then: a mapping of what had none when it was opened has none in /proc/self/maps.
            match witness::call(Call::Create(self, step(name)?), || self.make_file(name, mode)) {
                // Somebody was faster.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        // A file system over a network may go on saying that a name is free and that it is taken. This asks it once for both.
        self.file(name, Access::Create(mode))
    }

    /// Makes a file that is not there.
    fn make_file(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        let (name, mode) = (step(name)?, Mode::from_raw_mode(mode as _));
        let unnamed = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        if let Ok(file) = fs::openat(&*self.handle, ".", unnamed, Mode::RUSR | Mode::WUSR)
            && fs::fchmod(&file, mode).is_ok()
        {
            // The flag AT_EMPTY_PATH would do without /proc, but older kernels want a capability for it: open(2). The process's
            // first thread, whose descriptors /proc/self shows, may have ended.
            let path = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
            match fs::linkat(fs::CWD, path, &*self.handle, name, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(()),
                Err(Errno::EXIST) => return Err(Errno::EXIST.into()),
                // As without O_TMPFILE.
                Err(_) => {}
            }
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOCTTY;
        let file: File = fs::openat(&*self.handle, name, flags, mode)?.into();
        if About::of(&file)?.mode & 0o777 != mode.as_raw_mode() & 0o777 {
            fs::fchmod(&file, mode)?;
        }
        Ok(())
    }

    /// Makes a directory in this one, with this mode less the process's umask.
    ///
    /// # Errors
    /// As mkdirat(2).
    pub fn make_folder(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<()> {
        let name = step(name.as_ref())?;
        let make = || Ok(fs::mkdirat(&*self.handle, name, Mode::from_raw_mode(mode as _))?);
        witness::call(Call::MakeFolder(self, name), make)
    }

    /// Gives the directory all bits of a mode: the process's umask takes bits away that were asked for when it was made. A
    /// group's bit that it inherited stays.
    ///
    /// # Errors
    /// As fchmod(2).
    pub fn permit(&self, mode: u32) -> io::Result<()> {
        let inherited = self.about()?.mode & 0o7000;
        Ok(fs::fchmod(self.reopen()?, Mode::from_raw_mode((mode | inherited) as _))?)
    }

    /// Gives the directory to a user and a group.
    ///
    /// # Errors
    /// As fchown(2).
    pub fn chown(&self, owner: u32, group: u32) -> io::Result<()> {
        std::os::unix::fs::fchown(self.reopen()?, Some(owner), Some(group))
    }

    /// Gives what has a name here, and is no link, all bits of a mode.
    ///
    /// # Errors
    /// As fchmodat(2).
    pub fn permit_name(&self, name: impl AsRef<OsStr>, mode: u32) -> io::Result<()> {
        Ok(fs::chmodat(&*self.handle, step(name.as_ref())?, Mode::from_raw_mode(mode as _), AtFlags::empty())?)
    }

    /// The names in the directory.
    ///
    /// # Errors
    /// As readdir(3).
    pub fn names(&self) -> io::Result<Vec<OsString>> {
        let mut names = Vec::new();
        self.list(|name| names.push(name.into()))?;
        Ok(names)
    }

    /// Shows each name in the directory.
    ///
    /// # Errors
    /// As readdir(3).
    pub fn list(&self, mut show: impl FnMut(&OsStr)) -> io::Result<()> {
        for entry in fs::Dir::new(self.reopen()?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                show(OsStr::from_bytes(name));
            }
        }
        Ok(())
    }

    /// Bytes of memory or disk behind all that is in the directory and below it.
    pub fn allocated_bytes(&self) -> u64 {
        let names = self.names().unwrap_or_default();
        let bytes = names.iter().filter_map(|name| {
            let about = self.about_name(name).ok()?;
            Some(match about.form {
                Form::Folder => self.folder(name).map_or(0, |below| below.allocated_bytes()),
                _ => about.allocated_bytes,
            })
        });
        bytes.sum()
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As symlinkat(2).
    pub fn link_to(&self, target: &Path, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = step(name.as_ref())?;
        witness::call(Call::LinkTo(self, name), || Ok(fs::symlinkat(target, &*self.handle, name)?))
    }

    /// Takes a name away that is no directory's: of a link the link.
    ///
    /// # Errors
    /// As unlinkat(2).
    pub fn remove_file(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = step(name.as_ref())?;
        witness::call(Call::RemoveFile(self, name), || Ok(fs::unlinkat(&*self.handle, name, AtFlags::empty())?))
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// As unlinkat(2).
    pub fn remove_folder(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = step(name.as_ref())?;
        witness::call(Call::RemoveFolder(self, name), || Ok(fs::unlinkat(&*self.handle, name, AtFlags::REMOVEDIR)?))
    }

    /// Removes what has a name, with all that is in it if it is a directory, and follows no link. What goes away meanwhile
    /// is not missed, the name itself is.
    ///
    /// # Errors
    /// As unlinkat(2), openat(2) and readdir(3).
    pub fn remove_all(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = name.as_ref();
        let below = match self.folder(name) {
            // A link, or whatever else is no directory.
            Err(error) if [Some(libc::ELOOP), Some(libc::ENOTDIR)].contains(&error.raw_os_error()) => {
                return self.remove_file(name);
            }
            opened => opened?,
        };
        for name in below.names()? {
            // Most are files, and what a directory says to that differs.
            let removed = match below.remove_file(&name) {
                Err(error) if is_folder(&error) => below.remove_all(&name),
                other => other,
            };
            match removed {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.remove_folder(name)
    }

    /// Renames, in the place of a file that may be there.
    ///
    /// # Errors
    /// As renameat(2).
    pub fn rename(&self, name: impl AsRef<OsStr>, to: &Folder, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (step(name.as_ref())?, step(new.as_ref())?);
        let rename = || Ok(fs::renameat(&*self.handle, name, &*to.handle, new)?);
        witness::call(Call::Rename((self, name), (to, new)), rename)
    }

    /// Renames, or fails with `EEXIST` if the new name is taken.
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn rename_new(&self, name: impl AsRef<OsStr>, to: &Folder, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (step(name.as_ref())?, step(new.as_ref())?);
        let rename = || Ok(fs::renameat_with(&*self.handle, name, &*to.handle, new, RenameFlags::NOREPLACE)?);
        witness::call(Call::Rename((self, name), (to, new)), rename)
    }

    /// Gives each of two files or directories the other's name, in one step.
    ///
    /// # Errors
    /// As renameat2(2).
    pub fn exchange(&self, name: impl AsRef<OsStr>, other: &Folder, others: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, others) = (step(name.as_ref())?, step(others.as_ref())?);
        let exchange = || Ok(fs::renameat_with(&*self.handle, name, &*other.handle, others, RenameFlags::EXCHANGE)?);
        witness::call(Call::Exchange((self, name), (other, others)), exchange)
    }

    /// Gives a file of this directory one more name.
    ///
    /// # Errors
    /// As linkat(2).
    pub fn hard_link(&self, name: impl AsRef<OsStr>, to: &Folder, new: impl AsRef<OsStr>) -> io::Result<()> {
        let (name, new) = (step(name.as_ref())?, step(new.as_ref())?);
        let link = || Ok(fs::linkat(&*self.handle, name, &*to.handle, new, AtFlags::empty())?);
        witness::call(Call::HardLink((self, name), (to, new)), link)
    }
}

/// A file in memory that has no name anywhere; `called` is what /proc shows. Its memory goes with its last descriptor.
///
/// # Errors
/// As memfd_create(2).
pub fn memory_file(called: &str) -> io::Result<File> {
    Ok(fs::memfd_create(called, fs::MemfdFlags::CLOEXEC)?.into())
}

/// Whether an open file may be written.
///
/// # Errors
/// As fcntl(2).
pub fn is_writable(file: &File) -> io::Result<bool> {
    Ok(fs::fcntl_getfl(file)? & OFlags::ACCMODE == OFlags::RDWR)
}

/// Opens a file once more that was handed in as a descriptor. Record locks belong to an opening: who shares one with others,
/// as heirs of a descriptor do, has their locks and not its own.
///
/// # Errors
/// As open(2); where `/proc` is missing, too.
pub fn reopen(file: &File, is_writing: bool) -> io::Result<File> {
    let access = if is_writing { OFlags::RDWR } else { OFlags::RDONLY };
    // The name is the kernel's own for this very file, wherever that lies, or nowhere.
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(fs::open(path, access | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK, Mode::empty())?.into())
}

/// Whether unlinkat(2) refused because the name is a directory's.
fn is_folder(error: &io::Error) -> bool {
    let errno = error.raw_os_error();
    errno == Some(Errno::ISDIR.raw_os_error()) || errno == Some(Errno::PERM.raw_os_error())
}

#[cfg(test)]
mod tests;
