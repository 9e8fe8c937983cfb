//! One call of the program.

use super::Args;
use super::limits::{Limits, Reason, STOPPING};
use super::state::State;
use crate::failure::Failure;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How a call ended.
#[derive(Debug)]
pub enum Ending {
    /// By itself, or by a signal that is not the driver's.
    Exited(ExitStatus),
    /// The driver ended it because it took longer than this.
    TooLong(Duration),
    /// The driver ended it to stop the run.
    Stopped(Reason),
}

impl Ending {
    /// Whether the program ended as one does that was told to: by a signal that stops a run, with the code that a shell gives for that,
    /// or well.
    pub fn is_as_told(&self) -> bool {
        let Ending::Exited(status) = self else { return false };
        let signal = status.signal().or_else(|| status.code().map(|code| code - 128));
        status.success() || signal.is_some_and(|signal| STOPPING.contains(&signal))
    }

    /// What the program did, unless it ended well.
    pub fn problem(&self) -> Option<String> {
        match self {
            Ending::Exited(status) if status.success() => None,
            Ending::Exited(status) => Some(match (status.code(), status.signal()) {
                (Some(code), _) => format!("ended with code {code}"),
                (None, Some(signal)) => format!("was killed by {}", signal_name(signal)),
                (None, None) => format!("ended: {status}"),
            }),
            Ending::TooLong(limit) => Some(format!("took longer than {} s and was killed", limit.as_secs_f64())),
            Ending::Stopped(reason) => Some(format!("was ended: {reason}")),
        }
    }
}

fn signal_name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or(format!("signal {signal}"), str::to_string)
}

/// The program and what every call of it has in common.
pub struct Call<'a> {
    args: &'a Args,
    dir: PathBuf,
    state: String,
    log: Option<PathBuf>,
}

impl<'a> Call<'a> {
    pub fn new(args: &'a Args, state: &State) -> Result<Call<'a>, Failure> {
        if let Some(program) = args.command.first() {
            // Better told before a checkpoint is restored for it.
            crate::run::find_program(program)?;
        }
        if let Some(dir) = &args.log {
            std::fs::create_dir_all(dir).map_err(|error| Failure::file(dir, error))?;
        }
        // A log of its own for each driver, since several may write to one directory.
        let log = args.log.as_ref().map(|dir| dir.join(format!(".running-{}.log", std::process::id())));
        Ok(Call { args, dir: state.dir().to_path_buf(), state: state.name().into(), log })
    }

    /// The program, as it was given.
    pub fn name(&self) -> String {
        self.args.command.first().map(|name| Path::new(name).display().to_string()).unwrap_or_default()
    }

    fn command(&self, read: Option<u64>) -> (Command, OsString) {
        if let (None, Some(init)) = (read, &self.args.init) {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(init);
            return (command, init.into());
        }
        let program = self.args.command.first().cloned().unwrap_or_default();
        let mut command = Command::new(&program);
        command.args(&self.args.command[1..]);
        (command, program)
    }

    /// Runs the program once.
    pub fn run(&self, read: Option<u64>, write: u64, attempt: u32, limits: &mut Limits) -> Result<Ending, Failure> {
        let (mut command, program) = self.command(read);
        command.env("STILLFRAME_DIR", &self.dir).env("STILLFRAME_STATE", &self.state);
        command.env("STILLFRAME_WRITE", write.to_string()).env("STILLFRAME_ATTEMPT", attempt.to_string());
        match read {
            Some(version) => command.env("STILLFRAME_READ", version.to_string()),
            None => command.env_remove("STILLFRAME_READ"),
        };
        command.stdin(Stdio::null());
        match &self.log {
            Some(path) => {
                let file = File::create(path).map_err(|error| Failure::file(path, error))?;
                let other = file.try_clone().map_err(|error| Failure::file(path, error))?;
                command.stdout(file).stderr(other);
            }
            // The driver's own lines are not to be mixed with the program's.
            None if self.args.json => {
                command.stdout(std::io::stderr());
            }
            None => {}
        }
        // A group of its own, so that all that it starts can be ended together, and so that a signal from the terminal
        // reaches the driver alone, which lets the step end.
        command.process_group(0);
        let child = command.spawn().map_err(|error| {
            let text = format!("{} cannot be run: {error}", Path::new(&program).display());
            match error.kind() {
                std::io::ErrorKind::NotFound => Failure::Misuse(text),
                _ => Failure::Problem(text),
            }
        })?;
        self.wait(child, limits)
    }

    fn wait(&self, mut child: Child, limits: &mut Limits) -> Result<Ending, Failure> {
        let begin = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Ending::Exited(status));
            }
            let elapsed = begin.elapsed();
            if let Some(limit) = self.args.step_timeout.filter(|limit| elapsed >= *limit) {
                end(&mut child)?;
                return Ok(Ending::TooLong(limit));
            }
            if let Some(reason) = limits.must_end() {
                end(&mut child)?;
                return Ok(Ending::Stopped(reason));
            }
            // A twentieth of a step is not noticed, whether it takes milliseconds or hours.
            std::thread::sleep((elapsed / 20).clamp(Duration::from_micros(100), Duration::from_millis(20)));
        }
    }

    /// Keeps what a failed step wrote under a name that says which step.
    pub fn keep_log(&self, write: u64, attempt: u32) -> Option<PathBuf> {
        let (dir, log) = (self.args.log.as_ref()?, self.log.as_ref()?);
        let kept = dir.join(format!("version-{write}-attempt-{attempt}.log"));
        std::fs::rename(log, &kept).is_ok().then_some(kept)
    }

    /// Removes what a step wrote.
    pub fn forget_log(&self) {
        if let Some(log) = &self.log {
            // It is written anew by the next step anyway.
            let _ = std::fs::remove_file(log);
        }
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.forget_log();
    }
}

/// Kills the program and all it started.
fn end(child: &mut Child) -> std::io::Result<()> {
    if let Some(pid) = rustix::process::Pid::from_raw(child.id() as i32) {
        // The group may be gone by itself already.
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
    }
    child.wait().map(drop)
}
