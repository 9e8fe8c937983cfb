//! Pools that are there again after a restart: a unit of systemd that makes one early (systemd.service(5)).

use crate::error::{Error, Result};
use crate::pool::place;
use std::fs::{self, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where units lie that an administrator adds.
const FOLDER: &str = "/etc/systemd/system";

/// What is there while systemd runs the machine (sd_booted(3)).
const RUNNING: &str = "/run/systemd/system";

/// The target that wants them. It does not wait for them, as they have no default dependencies.
const WANTS: &str = "sysinit.target.wants";

/// Where units lie.
#[derive(Debug, Clone)]
pub struct Units {
    folder: PathBuf,
    is_own: bool,
}

impl Units {
    /// Those of this machine, or of the folder that somebody named instead, as that of an image of a system.
    pub fn new(folder: Option<PathBuf>) -> Units {
        let is_own = folder.is_none();
        Units { folder: folder.unwrap_or_else(|| FOLDER.into()), is_own }
    }

    /// Whether a unit that lies there would be started some time.
    ///
    /// # Errors
    /// [`Error::NoSystemd`] with what can be done instead.
    pub fn check(&self, command: &[String]) -> Result<()> {
        match self.is_own && !Path::new(RUNNING).is_dir() {
            true => Err(Error::NoSystemd { command: command.join(" ") }),
            false => line(command).map(drop),
        }
    }

    /// The unit of a pool.
    ///
    /// # Errors
    /// [`Error::Name`].
    pub fn path(&self, name: &str) -> Result<PathBuf> {
        Ok(self.folder.join(file_name(name)?))
    }

    /// Whether there is one.
    pub fn has(&self, name: &str) -> bool {
        self.path(name).is_ok_and(|path| path.exists())
    }

    /// Writes a unit that runs a command at the start of the machine, and enables it.
    ///
    /// # Errors
    /// [`Error::Name`], [`Error::Program`]; those of the files. Then everything is as it was, also a unit that was there before.
    pub fn write(&self, name: &str, command: &[String]) -> Result<PathBuf> {
        let path = self.path(name)?;
        let text = text(name, &line(command)?);
        make_folders(&self.folder)?;
        let (new, link) = (path.with_extension("new"), self.link(name)?);
        let is_linked = self.enable(name, &link)?;
        // Last, in one step: there is never half of a unit.
        let written = put(&new, &text).and_then(|()| fs::rename(&new, &path).map_err(Error::io("rename", &path)));
        if written.is_err() {
            let _ = fs::remove_file(&new);
            if is_linked {
                let _ = fs::remove_file(&link);
            }
        }
        written?;
        self.reload();
        Ok(path)
    }

    /// What has the target want the unit.
    fn link(&self, name: &str) -> Result<PathBuf> {
        Ok(self.folder.join(WANTS).join(file_name(name)?))
    }

    /// What `systemctl enable` does for a unit that one target wants. Returns whether it was not so before.
    fn enable(&self, name: &str, link: &Path) -> Result<bool> {
        make_folders(&self.folder.join(WANTS))?;
        match symlink(Path::new("..").join(file_name(name)?), link) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(Error::io("symlink", link)(error)),
        }
    }

    /// Removes the unit of a pool, if there is one, which it says.
    ///
    /// # Errors
    /// [`Error::Name`]; those of the files.
    pub fn remove(&self, name: &str) -> Result<bool> {
        let path = self.path(name)?;
        let link = self.link(name)?;
        let mut is_removed = false;
        for path in [&link, &path, &path.with_extension("new")] {
            match fs::remove_file(path) {
                Ok(()) => is_removed = true,
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => return Err(Error::io("unlink", path)(error)),
            }
        }
        if is_removed {
            self.reload();
        }
        Ok(is_removed)
    }

    /// Has a systemd that runs read its units. Otherwise it does so at the next start, which is when it counts.
    fn reload(&self) {
        if self.is_own && Path::new(RUNNING).is_dir() {
            let mut command = Command::new("systemctl");
            let _ =
                command.arg("daemon-reload").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
        }
    }
}

/// Makes a folder and those above it, as far as they are not there. Root writes there and nobody else, whatever the umask says.
fn make_folders(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Ok(()) => fs::set_permissions(path, Permissions::from_mode(0o755)).map_err(Error::io("chmod", path)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => match path.parent() {
            Some(above) if !above.as_os_str().is_empty() => make_folders(above).and_then(|()| make_folders(path)),
            _ => Err(Error::io("mkdir", path)(error)),
        },
        Err(error) => Err(Error::io("mkdir", path)(error)),
    }
}

/// Writes a file that everybody may read, and nobody else may write at any time.
fn put(path: &Path, text: &str) -> Result<()> {
    let file = File::options().create(true).truncate(true).write(true).mode(0o644).open(path);
    let mut file = file.map_err(Error::io("open", path))?;
    file.set_permissions(Permissions::from_mode(0o644)).map_err(Error::io("chmod", path))?;
    file.write_all(text.as_bytes()).map_err(Error::io("write", path))
}

/// A plain name of a pool is one of a unit.
fn file_name(name: &str) -> Result<String> {
    place(name)?;
    Ok(format!("stillframe-pages-{name}.service"))
}

/// A command as it stands in a unit. systemd would find variables, specifiers and quotes in other characters.
fn line(command: &[String]) -> Result<String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+=".contains(&byte);
    match command.iter().find(|word| word.is_empty() || !word.bytes().all(is_plain)) {
        Some(word) => Err(Error::Program { word: word.clone() }),
        None => Ok(command.join(" ")),
    }
}

fn text(name: &str, line: &str) -> String {
    format!(
        "\
# Made by `still pages reserve --persist`, removed by `still pages give-back {name}`.
[Unit]
Description=Pool of large pages '{name}'
# As early as its program can be read: later, memory lies scattered.
DefaultDependencies=no
After=local-fs.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart={line}

[Install]
WantedBy=sysinit.target
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn a_unit_is_written_wanted_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::new(Some(dir.path().join("units")));
        let command = words("/usr/bin/still|pages|reserve|7M");
        units.check(&command).unwrap();
        assert!(!units.has("a") && !units.remove("a").unwrap());
        for _ in 0..2 {
            let path = units.write("a", &command).unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains("\nExecStart=/usr/bin/still pages reserve 7M\n"), "{text}");
            let wanted = dir.path().join("units").join(WANTS).join("stillframe-pages-a.service");
            assert_eq!(fs::canonicalize(wanted).unwrap(), fs::canonicalize(path).unwrap());
        }
        assert!(units.has("a") && units.remove("a").unwrap() && !units.has("a"));
        let mut left = fs::read_dir(dir.path().join("units").join(WANTS)).unwrap();
        assert!(left.next().is_none());
    }

    #[test]
    fn what_systemd_would_read_in_another_way_is_refused() {
        let units = Units::new(Some("/nowhere".into()));
        for wrong in ["/a b/still|x", "/x|$HOME", "/x|%n", "/x|\"a\"", "/x|", "/x|a;b"] {
            assert!(matches!(units.check(&words(wrong)), Err(Error::Program { .. })), "{wrong}");
        }
        assert!(matches!(units.write("../x", &words("/x")), Err(Error::Name { .. })));
    }

    #[test]
    fn a_unit_that_cannot_be_written_leaves_everything_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let units = Units::new(Some(dir.path().join("units")));
        let wants = dir.path().join("units").join(WANTS);
        fs::create_dir(dir.path().join("units")).unwrap();
        fs::write(&wants, "a file where the folder should be").unwrap();
        assert!(matches!(units.write("a", &words("/x")), Err(Error::Io { .. })));
        assert!(!units.has("a"));
        fs::remove_file(&wants).unwrap();
        let path = units.write("a", &words("/x")).unwrap();
        // A folder is where the new one should be written.
        fs::create_dir(path.with_extension("new")).unwrap();
        assert!(matches!(units.write("a", &words("/y")), Err(Error::Io { .. })));
        assert!(fs::read_to_string(&path).unwrap().contains("\nExecStart=/x\n"), "the one that was there before");
        assert!(wants.join(path.file_name().unwrap()).symlink_metadata().is_ok());
        fs::create_dir(dir.path().join("units/stillframe-pages-b.new")).unwrap();
        assert!(matches!(units.write("b", &words("/y")), Err(Error::Io { .. })));
        assert!(!units.has("b") && wants.join("stillframe-pages-b.service").symlink_metadata().is_err());
    }
}
