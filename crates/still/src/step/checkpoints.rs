//! Checkpoints between steps.

use super::Args;
use super::journal::Event;
use super::state::State;
use crate::checkpoint::gave_way;
use crate::failure::Failure;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe::{AnySnapshot, Attributes, Region, Scalar};
use stillframe_checkpoint::{Keep, RestoreOptions, SaveOptions, Saver, SetAside, Skipped, Store, When};

/// The attribute with which a version says that the step after it is risky.
const RISKY: &str = "risky";

/// Why a checkpoint may be saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// One of the rules may ask for it.
    Rule,
    /// The run ends here.
    End,
}

/// What was found when the run began.
#[derive(Default)]
pub struct Restored {
    /// The version put back into memory, and the checkpoint it is from.
    pub version: Option<(u64, PathBuf)>,
    /// What is wrong with newer checkpoints.
    pub skipped: Vec<String>,
}

/// The directory of checkpoints, and the rules.
pub struct Checkpoints {
    saver: Saver,
    every: Option<u64>,
    every_time: Option<Duration>,
    when: Option<When>,
    /// Whether the condition was decided for a version.
    is_decided: bool,
    /// The version that the rules count from, and when it was there.
    last: (u64, Instant),
    /// The newest version of this run that is safe.
    safe: Option<u64>,
    longest: Duration,
    failed: Option<String>,
}

impl Checkpoints {
    /// Takes the directory for this run, if there is to be one.
    pub fn open(args: &Args) -> Result<Option<Checkpoints>, Failure> {
        let Some(dir) = &args.to else { return Ok(None) };
        let when = args.when.as_deref().map(When::parse).transpose()?;
        let keep = Keep { newest: args.keep as usize, every: args.keep_every };
        let saver = Saver::open(dir, SaveOptions::new().keep(keep))?;
        let last = (0, Instant::now());
        let (every, every_time) = (args.every, args.every_seconds);
        Ok(Some(Checkpoints {
            saver,
            every,
            every_time,
            when,
            is_decided: false,
            last,
            safe: None,
            longest: Duration::ZERO,
            failed: None,
        }))
    }

    /// How long the longest save took.
    pub fn longest(&self) -> Duration {
        self.longest
    }

    /// Counts from here on.
    pub fn begin(&mut self, version: u64) {
        self.last = (version, Instant::now());
    }

    /// Puts the newest good checkpoint into memory, if it is newer than what is there.
    ///
    /// # Errors
    /// If there are checkpoints, but neither a good one nor a version in memory: to begin anew is the user's decision.
    pub fn restore_newer(&mut self, state: &State, memory: Option<u64>) -> Result<Restored, Failure> {
        let store = Store::open(self.saver.dir())?;
        let region = Region::options().dir(state.dir());
        let options = RestoreOptions::new().replace(memory.is_some());
        let published_ns = memory.map(|_| state.hold().map(|held| held.published_ns())).transpose()?;
        let mut skipped = Vec::new();
        // By time and not by number, for a run that began again at 0 is newer than what it left behind.
        let restored = store.newest_after(published_ns, &mut skipped, |checkpoint| {
            let version = options.restore(&checkpoint, &region, state.name(), &|_| {})?;
            Ok((version, checkpoint.path().to_path_buf()))
        })?;
        let skipped: Vec<String> = skipped.iter().map(Skipped::to_string).collect();
        if let Some((version, path)) = restored {
            self.safe = Some(version);
            return Ok(Restored { version: Some((version, path)), skipped });
        }
        if memory.is_none() && !skipped.is_empty() {
            return Err(Failure::Problem(format!(
                "there are checkpoints in {}, and none of them is good: {}; to begin anew, move them away",
                self.saver.dir().display(),
                skipped.join("; ")
            )));
        }
        Ok(Restored { version: None, skipped })
    }

    /// Saves the newest version if a rule asks for it, and tells what came of it. A checkpoint that fails is told, and the
    /// run goes on: there is an older one, and the state is in memory.
    pub fn save(&mut self, state: &State, version: u64, cause: Cause) -> Result<Vec<Event>, Failure> {
        if self.safe == Some(version) {
            return Ok(Vec::new());
        }
        let held = state.hold()?;
        let why = match self.reason(&held, cause) {
            Ok(None) => return Ok(Vec::new()),
            Ok(Some(why)) => why,
            Err(error) if !self.is_decided => return Err(error.into()),
            Err(error) => {
                let text = format!("version {version} is not saved: {error}");
                return Ok(vec![Event::note(Some(version), &text)]);
            }
        };
        let begin = Instant::now();
        let saved = match self.renew().and_then(|()| self.saver.save(&held, &|_| {})) {
            Ok(saved) => saved,
            Err(error) => {
                self.failed = Some(error.to_string());
                // Not again after every step.
                self.last = (version, Instant::now());
                return Ok(vec![Event::note(Some(version), &format!("version {version} is not saved: {error}"))]);
            }
        };
        self.longest = self.longest.max(begin.elapsed());
        self.last = (saved.version, Instant::now());
        self.safe = Some(saved.version);
        self.failed = None;
        let mut events = Vec::new();
        if !saved.already {
            events.push(Event::saved(&saved, &why));
        }
        if let Some(SetAside { versions, to }) = &saved.set_aside {
            events.push(Event::note(Some(version), &gave_way(versions, to)));
        }
        if let Some(trouble) = &saved.trouble {
            events.push(Event::note(Some(version), trouble));
        }
        Ok(events)
    }

    /// Takes the directory that has the name now: a run that goes on needs its checkpoints more than an empty place.
    fn renew(&mut self) -> stillframe_checkpoint::Result<()> {
        if let Some(saver) = self.saver.renew()? {
            self.saver = saver;
        }
        Ok(())
    }

    /// Why the last attempt to save failed, if it did.
    pub fn failed(&self) -> Option<&str> {
        self.failed.as_deref()
    }

    fn reason(&mut self, held: &AnySnapshot, cause: Cause) -> stillframe_checkpoint::Result<Option<String>> {
        if cause == Cause::End {
            return Ok(Some("the run ends".into()));
        }
        let holds = match &self.when {
            Some(when) => when.holds(held.version(), held.published_ns(), held.attributes()),
            None => Ok(false),
        };
        // What no version has had is most likely misspelt, and would keep the run from being saved.
        let holds = if self.is_decided { holds } else { Ok(holds?) };
        self.is_decided = true;
        if is_risky(held.attributes()) {
            return Ok(Some("the next step is risky".into()));
        }
        // Programs may leave numbers out, so a multiple that was passed counts as well.
        if let Some(every) = self.every.filter(|every| held.version() / every > self.last.0 / every) {
            return Ok(Some(format!("every {every} versions")));
        }
        if self.every_time.is_some_and(|time| self.last.1.elapsed() >= time) {
            return Ok(Some(format!("{:.0} s since the last one", self.last.1.elapsed().as_secs_f64())));
        }
        Ok(holds?.then(|| "--when holds".into()))
    }
}

fn is_risky(attributes: &Attributes) -> bool {
    match attributes.get(RISKY) {
        Some(Scalar::Bool(risky)) => *risky,
        Some(Scalar::Int(risky)) => *risky != 0,
        Some(Scalar::Float(risky)) => *risky != 0.0,
        Some(Scalar::Text(_)) | None => false,
    }
}
