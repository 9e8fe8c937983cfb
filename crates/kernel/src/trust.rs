//! Whose directories and files are believed.
//!
//! A name in a directory that others may write to, `/dev/shm` above all, says nothing of who made what has it. Owner, mode and
//! form of each directory and file are therefore looked at when it is open, and before it is used.

use crate::folder::{About, Access, Folder, Form};
use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::Path;
use std::str::FromStr;

/// Whose directories and files are taken for good, besides those of the process's own user and of root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Trust {
    /// Nobody's.
    #[default]
    Own,
    /// Those of the user with this number.
    User(u32),
    /// Those of the group with this number, whoever of it made them, also if the group may write to them.
    Group(u32),
    /// Everybody's: what lies there is believed as it is. Links are not followed all the same.
    Any,
}

/// A text that says nothing of trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoTrust(pub String);

impl fmt::Display for NoTrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' is none of own, user:NUMBER, group:NUMBER, any", self.0)
    }
}

impl std::error::Error for NoTrust {}

impl FromStr for Trust {
    type Err = NoTrust;

    fn from_str(text: &str) -> Result<Trust, NoTrust> {
        let number = |digits: &str| digits.parse().map_err(|_| NoTrust(text.into()));
        match text.split_once(':') {
            None if text == "own" => Ok(Trust::Own),
            None if text == "any" => Ok(Trust::Any),
            Some(("user", digits)) => number(digits).map(Trust::User),
            Some(("group", digits)) => number(digits).map(Trust::Group),
            _ => Err(NoTrust(text.into())),
        }
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Own => write!(f, "own"),
            Trust::User(number) => write!(f, "user:{number}"),
            Trust::Group(number) => write!(f, "group:{number}"),
            Trust::Any => write!(f, "any"),
        }
    }
}

/// What is to be done with a directory or file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is read, or names are taken away: it matters whose it is.
    Look,
    /// It is written to: nobody else may be able to, but for whom these bits of a mode let in, which the caller gave it.
    Write {
        /// The bits.
        granted: u32,
    },
}

/// Why a directory or file is not believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distrust {
    /// It belongs to somebody else.
    Owner {
        /// Number of its owner.
        found: u32,
        /// Number of the process's user.
        expected: u32,
        /// Its access mode.
        mode: u32,
    },
    /// Others may write to it.
    Mode {
        /// Number of its owner.
        owner: u32,
        /// Number of its group.
        group: u32,
        /// Its access mode.
        mode: u32,
        /// Whether it is a directory.
        is_folder: bool,
    },
    /// Somebody else listens at it.
    Listener {
        /// Number of who listens.
        found: u32,
        /// Number of the process's user.
        expected: u32,
    },
    /// It is no file, or no directory.
    Form {
        /// What it is.
        found: Form,
        /// What it has to be.
        expected: Form,
    },
    /// A file that has other names too, which may be anywhere.
    Links {
        /// How many.
        names: u64,
    },
}

const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Why something was not opened.
#[derive(Debug)]
pub enum Refused {
    /// The system says so.
    System(io::Error),
    /// It is not believed.
    Distrust(Distrust),
}

impl Refused {
    /// Whether nothing has the name.
    pub fn is_missing(&self) -> bool {
        matches!(self, Refused::System(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Refused {
        Refused::System(error)
    }
}

impl From<Distrust> for Refused {
    fn from(distrust: Distrust) -> Refused {
        Refused::Distrust(distrust)
    }
}

/// Whether a directory was not opened because its name is that of something else.
fn is_no_folder(error: &io::Error) -> bool {
    [Some(libc::ELOOP), Some(libc::ENOTDIR)].contains(&error.raw_os_error())
}

/// How directories and files are looked at before they are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Number of the process's user.
    user: u32,
    trust: Trust,
    purpose: Purpose,
}

impl Guard {
    /// Looks for the user that this process has now.
    pub fn new(trust: Trust, purpose: Purpose) -> Guard {
        Guard { user: crate::user_id(), trust, purpose }
    }

    /// Number of the user that it looks for.
    pub fn user(self) -> u32 {
        self.user
    }

    /// The same, with another trust.
    pub fn trusting(self, trust: Trust) -> Guard {
        Guard { trust, ..self }
    }

    /// The same, for who only looks.
    pub fn looking(self) -> Guard {
        Guard { purpose: Purpose::Look, ..self }
    }

    /// Whether what is looked at may be written to.
    pub fn is_writing(self) -> bool {
        matches!(self.purpose, Purpose::Write { .. })
    }

    /// Opens a directory by a path. A link in its place is followed if it is believed itself: anybody may put one into
    /// `/dev/shm`.
    ///
    /// # Errors
    /// The system's, or what is wrong with it.
    pub fn open_root(self, path: &Path) -> Result<Folder, Refused> {
        let opened = match Folder::open(path, false) {
            Err(error) if is_no_folder(&error) => {
                let about = About::at(path, true)?;
                let form = if about.form == Form::Link { Form::Link } else { Form::Folder };
                self.looking().check(&about, form)?;
                Folder::open(path, true)
            }
            opened => opened,
        };
        self.checked(opened?)
    }

    /// Opens a directory in another one.
    ///
    /// # Errors
    /// As [`open_root`](Guard::open_root).
    pub fn open_folder(self, folder: &Folder, name: impl AsRef<OsStr>) -> Result<Folder, Refused> {
        let opened = folder.folder(&name).or_else(|error| self.explain(folder, name.as_ref(), Form::Folder, error))?;
        self.checked(opened)
    }

    fn checked(self, folder: Folder) -> Result<Folder, Refused> {
        // That it is a directory is known, and nothing else matters to who believes everybody.
        if self.trust != Trust::Any || self.is_writing() {
            self.check(&folder.about()?, Form::Folder)?;
        }
        Ok(folder)
    }

    /// Opens a file in a directory.
    ///
    /// # Errors
    /// As [`open_root`](Guard::open_root).
    pub fn open(self, folder: &Folder, name: impl AsRef<OsStr>, access: Access) -> Result<(File, About), Refused> {
        let opened = folder.file(&name, access);
        let file = opened.or_else(|error| self.explain(folder, name.as_ref(), Form::File, error))?;
        let about = About::of(&file)?;
        self.check(&about, Form::File)?;
        Ok((file, about))
    }

    /// Why something was not opened: a link and a socket are not, and what is another user's may not be.
    fn explain<T>(self, folder: &Folder, name: &OsStr, form: Form, error: io::Error) -> Result<T, Refused> {
        if error.kind() != io::ErrorKind::NotFound
            && let Ok(about) = folder.about_name(name)
        {
            self.check(&about, form)?;
        }
        Err(error.into())
    }

    /// Looks at who listens at a socket: a user of this number, and of this group.
    ///
    /// # Errors
    /// That nobody said that he is trusted.
    pub fn check_listener(self, user: u32, group: u32) -> Result<(), Distrust> {
        let is_trusted = user == self.user
            || user == 0
            || [Trust::Any, Trust::User(user), Trust::Group(group)].contains(&self.trust);
        is_trusted.then_some(()).ok_or(Distrust::Listener { found: user, expected: self.user })
    }

    /// Looks at what is known of a directory or file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(self, about: &About, expected: Form) -> Result<(), Distrust> {
        let Guard { user, trust, purpose } = self;
        if about.form != expected {
            return Err(Distrust::Form { found: about.form, expected });
        }
        // Who may put a file where another one should be may have given it a name that leads to one of the user's own.
        if expected == Form::File && self.is_writing() && about.links > 1 {
            return Err(Distrust::Links { names: about.links });
        }
        let is_of_group = trust == Trust::Group(about.group);
        let is_owned = about.owner == user || about.owner == 0 || trust == Trust::User(about.owner);
        if !(is_owned || is_of_group || trust == Trust::Any) {
            return Err(Distrust::Owner { found: about.owner, expected: user, mode: about.mode });
        }
        let Purpose::Write { granted } = purpose else { return Ok(()) };
        let mut writers = about.mode & (GROUP_WRITES | OTHERS_WRITE) & !granted;
        if is_of_group {
            writers &= !GROUP_WRITES;
        }
        // Nobody takes away or renames what is another's in a sticky directory, and what is new in it is looked at itself.
        let is_folder = expected == Form::Folder;
        if writers != 0 && !(is_folder && about.mode & STICKY != 0) && trust != Trust::Any {
            let (owner, group, mode) = (about.owner, about.group, about.mode);
            return Err(Distrust::Mode { owner, group, mode, is_folder });
        }
        Ok(())
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Form::File => "a regular file",
            Form::Folder => "a directory",
            Form::Link => "a symbolic link",
            Form::Pipe => "a pipe",
            Form::Other => "a socket or device",
        })
    }
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Distrust::Owner { found, expected, mode } => write!(
                f,
                "belongs to user {found}, not to user {expected} (mode {mode:04o}): if you did not expect that, choose \
                 another directory; if you did, say so (option 'trust', or STILLFRAME_TRUST=user:{found})"
            ),
            Distrust::Mode { owner, group, mode, is_folder } => {
                let by_group = mode & GROUP_WRITES != 0;
                let (who, bits, trust) = match (by_group, mode & OTHERS_WRITE != 0) {
                    (true, false) => ("its group", "g-w", format!("group:{group}")),
                    (false, _) => ("everybody", "o-w", "any".into()),
                    (true, true) => ("everybody", "go-w", "any".into()),
                };
                let sticky = if is_folder { ", make it sticky (chmod +t)" } else { "" };
                write!(
                    f,
                    "can be written to by {who} (user {owner}, group {group}, mode {mode:04o}): forbid that (chmod {bits}){sticky}, \
                     or say that it is meant (option 'trust', or STILLFRAME_TRUST={trust})"
                )
            }
            Distrust::Listener { found, expected } => write!(
                f,
                "is listened at by user {found}, not by user {expected}: if you did not expect that, look who made it; if you \
                 did, say so (option 'trust', or STILLFRAME_TRUST=user:{found})"
            ),
            Distrust::Form { found, expected } => {
                write!(f, "is {found} where {expected} has to be: look who put it there, and remove it")
            }
            Distrust::Links { names } => write!(
                f,
                "has {names} names (hard links), and what is written to it would be written to the others: look who made \
                 them, and remove this one"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(form: Form, mode: u32, owner: u32, group: u32) -> About {
        About { identity: (1, 2), form, mode, owner, group, links: 1, bytes: 0, allocated_bytes: 0 }
    }

    #[test]
    fn a_trust_is_a_text_and_back() {
        for trust in [Trust::Own, Trust::User(12), Trust::Group(0), Trust::Any] {
            assert_eq!(trust.to_string().parse(), Ok(trust));
        }
        for text in ["", "all", "user", "user:", "user:-1", "user:root", "group:4294967296", "any:1", "own:"] {
            assert_eq!(text.parse::<Trust>(), Err(NoTrust(text.into())));
        }
    }

    #[test]
    fn owner_mode_and_form_decide_together() {
        let user = crate::user_id();
        let (other, group) = (user + 4000, 4321);
        let write = Purpose::Write { granted: 0 };
        let check = |about: &About, form, trust, purpose| Guard::new(trust, purpose).check(about, form);
        let is_good = |about: &About, trust, purpose| check(about, about.form, trust, purpose).is_ok();
        for form in [Form::File, Form::Folder] {
            for (mode, owner) in [(0o700, user), (0o755, user), (0o700, 0), (0o644, user)] {
                assert!(is_good(&about(form, mode, owner, group), Trust::Own, write));
            }
            let foreign = about(form, 0o755, other, group);
            for purpose in [Purpose::Look, write] {
                let found = check(&foreign, form, Trust::Own, purpose);
                assert_eq!(found, Err(Distrust::Owner { found: other, expected: user, mode: 0o755 }));
                assert!(!is_good(&foreign, Trust::User(other + 1), purpose));
                assert!(!is_good(&foreign, Trust::Group(group + 1), purpose));
                assert!(is_good(&foreign, Trust::User(other), purpose));
                assert!(is_good(&foreign, Trust::Group(group), purpose));
                assert!(is_good(&foreign, Trust::Any, purpose));
            }
            for mode in [0o770, 0o707, 0o777] {
                let open = about(form, mode, user, group);
                assert!(is_good(&open, Trust::Own, Purpose::Look));
                assert!(!is_good(&open, Trust::Own, write));
                assert!(is_good(&open, Trust::Own, Purpose::Write { granted: mode }));
                assert_eq!(is_good(&open, Trust::Group(group), write), mode == 0o770);
                assert!(!is_good(&open, Trust::Group(group + 1), write));
                assert!(is_good(&open, Trust::Any, write));
                let sticky = about(form, mode | STICKY, user, group);
                assert_eq!(is_good(&sticky, Trust::Own, write), form == Form::Folder);
            }
        }
        for (trust, is_trusted) in [
            (Trust::Own, false),
            (Trust::User(other + 1), false),
            (Trust::Group(group + 1), false),
            (Trust::User(other), true),
            (Trust::Group(group), true),
            (Trust::Any, true),
        ] {
            let guard = Guard::new(trust, Purpose::Look);
            assert_eq!(guard.check_listener(other, group).is_ok(), is_trusted, "{trust}");
            assert!(guard.check_listener(user, group).is_ok() && guard.check_listener(0, 0).is_ok());
        }
        let link = about(Form::Link, 0o777, user, group);
        let found = check(&link, Form::File, Trust::Any, Purpose::Look);
        assert_eq!(found, Err(Distrust::Form { found: Form::Link, expected: Form::File }));
        let named = About { links: 2, ..about(Form::File, 0o600, user, group) };
        assert_eq!(check(&named, Form::File, Trust::Any, write), Err(Distrust::Links { names: 2 }));
        assert!(is_good(&named, Trust::Own, Purpose::Look));
    }
}
