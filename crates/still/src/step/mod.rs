//! `still step`: a program that computes one time step per call, called until the last one.
//!
//! The driver knows the state by its name and version only. Whether a call did its work is whether a newer version is
//! there afterwards.

mod call;
mod checkpoints;
mod journal;
mod limits;
mod state;

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
use crate::units::parse_seconds;
use call::{Call, Ending};
use checkpoints::{Cause, Checkpoints, Restored};
use journal::{Event, Journal, untouched};
use limits::{Limits, Reason};
use state::State;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What remains is to be done by another job. 85 is what HTCondor takes for this too.
pub const REQUEUE: u8 = 85;

/// Run a program once per time step
///
/// The program opens the region as its producer, reads the last version, publishes the next one and ends. The driver calls
/// it until the region has version --until; a call that fails leaves the last version as it was. Between steps it saves
/// checkpoints, and it ends in time when the job's time runs out.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still step --state cluster --until 1000 -- ./nbody
  still step --state cluster --until 1000 --to ck --every-seconds 1800 --retries 2 -- ./nbody
  still step --state cluster --until 1000 --to ck --when 'energy_error > 1e-3' -- ./nbody

The program finds in its environment:
  STILLFRAME_DIR      directory of the regions
  STILLFRAME_STATE    name of the region
  STILLFRAME_READ     version to read; not set when there is none, and version 0 is to be made
  STILLFRAME_WRITE    version to publish: STILLFRAME_READ + 1. A greater one does as well.
  STILLFRAME_ATTEMPT  1, and one more each time the step is tried again

The run begins with what is in memory, or with the newest good checkpoint in --to if that was
published later, or else with nothing, and says which. A version with the attribute `risky` (true,
or a number other than 0) says that the step after it is risky: a checkpoint is saved before it.

The driver stops between steps, after saving a checkpoint if --to is given, when the file
--stop-file is there, at SIGTERM, SIGUSR1, SIGHUP or SIGINT, and when the time left would not do
for another step and a checkpoint, --margin included. The time is that of --time-limit or of
SLURM_JOB_END_TIME, whichever ends first.

With --json: one object per line, {\"event\", \"time_ns\", \"version\", ...}, where the version is the
newest one there is then, or null: `begun` {\"origin\"}, which is fresh, memory or checkpoint, then
with {\"path\", \"memory\"}; `stepped` {\"read\", \"seconds\", \"attempt\"}; `failed` {\"read\",
\"write\" (the version to be made), \"attempt\", \"error\", \"log\"}; `saved` {\"path\", \"bytes\",
\"written_bytes\", \"linked_bytes\", \"why\", \"seconds\"}; `noted` {\"text\"}; `ended` {\"reason\", \"exit\"}.

Exit codes: 0 when the region has version --until, 85 when it was stopped before and the rest is to
be done by another job, 1 when a step failed for the last time, the last version could not be saved
to --to and is in memory only, or something else is wrong, 2 when the command makes no sense.")]
pub struct Args {
    /// The region, or the group of regions, that is the state
    #[arg(long, value_name = "REGION")]
    state: String,
    /// The last version
    #[arg(long, value_name = "V")]
    until: u64,
    /// Directory of the checkpoints
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Save versions whose number is a multiple of N
    #[arg(long, value_name = "N", requires = "to", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Save a version every so many seconds
    #[arg(long, value_name = "SECONDS", requires = "to", value_parser = parse_seconds)]
    every_seconds: Option<Duration>,
    /// Save versions for which this holds, such as 'energy_error > 1e-3'
    #[arg(long, value_name = "EXPR", requires = "to")]
    when: Option<String>,
    /// Keep the newest K checkpoints [default: 3]
    #[arg(long, value_name = "K", requires = "to", default_value = "3", hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..))]
    keep: u64,
    /// Keep those whose version is a multiple of M for ever
    #[arg(long, value_name = "M", requires = "to", value_parser = clap::value_parser!(u64).range(1..))]
    keep_every: Option<u64>,
    /// Try a step that failed so many times more [default: 0]
    #[arg(long, value_name = "N", default_value = "0", hide_default_value = true)]
    retries: u32,
    /// End a step that takes longer, as failed
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    step_timeout: Option<Duration>,
    /// Stop when this file is there
    #[arg(long, value_name = "FILE")]
    stop_file: Option<PathBuf>,
    /// Stop in time before so much has passed
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    time_limit: Option<Duration>,
    /// Time to leave at the end of the job, beside what a step and a checkpoint take [default: 60]
    #[arg(long, value_name = "SECONDS", default_value = "60", hide_default_value = true, value_parser = parse_seconds)]
    margin: Duration,
    /// After a signal, let the step that runs go on so long [default: 20]
    #[arg(long, value_name = "SECONDS", default_value = "20", hide_default_value = true, value_parser = parse_seconds)]
    grace: Duration,
    /// A command for the shell that makes version 0, instead of the program
    #[arg(long, value_name = "COMMAND")]
    init: Option<String>,
    /// Directory for what steps that failed have written on standard output and error
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Print JSON, one object per line
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// What ended the run.
enum End {
    Done,
    Stopped(Reason),
    Failed(String),
}

/// Steps until the end.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let dir = std::path::absolute(&context.dir).map_err(|error| Failure::file(&context.dir, error))?;
    let state = State::new(dir, &args.state)?;
    let limits = Limits::new(args.time_limit, args.margin, args.grace, args.stop_file.clone())?;
    let mut run = Run {
        journal: Journal::new(args.json),
        checkpoints: Checkpoints::open(args)?,
        call: Call::new(args, &state)?,
        args,
        state,
        limits,
        longest_step: Duration::ZERO,
    };
    let end = run.go(context)?;
    let version = run.state.newest()?;
    // Whoever reads 0 or 85 may give the memory back.
    let in_memory = run.checkpoints.as_ref().and_then(Checkpoints::failed);
    let but = in_memory.map_or(String::new(), |why| format!(", but the last version is in memory only: {why}"));
    let (reason, code) = match (end, in_memory) {
        (End::Failed(why), _) if !args.json => return Err(Failure::Problem(format!("{why}{but}"))),
        (End::Failed(why), _) => (why, PROBLEM),
        (End::Done, None) => ("done".into(), FINE),
        (End::Done, Some(_)) => ("done".into(), PROBLEM),
        (End::Stopped(reason), None) => (reason.to_string(), REQUEUE),
        (End::Stopped(reason), Some(_)) => (reason.to_string(), PROBLEM),
    };
    let event = Event::end(version, &format!("{reason}{but}"), code);
    run.journal.add(context, &event);
    Ok(code)
}

struct Run<'a> {
    args: &'a Args,
    state: State,
    limits: Limits,
    checkpoints: Option<Checkpoints>,
    call: Call<'a>,
    journal: Journal,
    longest_step: Duration,
}

impl Run<'_> {
    fn go(&mut self, context: &mut Context) -> Result<End, Failure> {
        let mut version = self.begin(context)?;
        let first = version;
        loop {
            if version.is_some_and(|version| version >= self.args.until) {
                self.save(context, version, Cause::End)?;
                return Ok(End::Done);
            }
            let checkpoint = self.checkpoints.as_ref().map_or(Duration::ZERO, Checkpoints::longest);
            if let Some(reason) = self.limits.reason(self.longest_step + checkpoint) {
                if version == first && matches!(reason, Reason::Time(_)) {
                    let text = format!(
                        "no step was made: a job that never has more time will make none; give it more, or a --margin below {:.0} s",
                        self.args.margin.as_secs_f64()
                    );
                    self.journal.add(context, &Event::note(version, &text));
                }
                self.save(context, version, Cause::End)?;
                return Ok(End::Stopped(reason));
            }
            let begin = Instant::now();
            match self.step(context, version)? {
                Ok(next) => {
                    // What makes the first version is no measure of a step.
                    if version.is_some() {
                        self.longest_step = self.longest_step.max(begin.elapsed());
                    }
                    version = Some(next);
                }
                Err(end) => {
                    // The last version is as it was, and may be all there is when the job ends.
                    self.save(context, version, Cause::End)?;
                    return Ok(end);
                }
            }
            self.save(context, version, Cause::Rule)?;
        }
    }

    /// Finds the state: what is in memory, or a newer checkpoint, or nothing.
    fn begin(&mut self, context: &mut Context) -> Result<Option<u64>, Failure> {
        self.state.lock()?;
        if let Some(pid) = self.state.producer()? {
            let text = format!("process {pid} still produces region {}: waiting for its end", self.args.state);
            self.journal.add(context, &Event::note(None, &text));
        }
        self.state.wait_for_no_producer()?;
        let memory = self.state.newest()?;
        let restored = match &mut self.checkpoints {
            Some(checkpoints) => checkpoints.restore_newer(&self.state, memory)?,
            None => Restored::default(),
        };
        for text in restored.skipped {
            self.journal.add(context, &Event::note(memory, &text));
        }
        let (version, event) = match (restored.version, memory) {
            (Some((version, path)), memory) => (Some(version), Event::restored(version, &path, memory)),
            (None, Some(version)) => (Some(version), Event::begin(Some(version), "memory")),
            (None, None) => (None, Event::begin(None, "fresh")),
        };
        self.journal.add(context, &event);
        if let (Some(checkpoints), Some(version)) = (&mut self.checkpoints, version) {
            checkpoints.begin(version);
        }
        // A state that was put back has a directory of its own.
        self.state.lock()?;
        Ok(version)
    }

    /// Makes the version after `read`, trying again as often as allowed.
    fn step(&mut self, context: &mut Context, read: Option<u64>) -> Result<Result<u64, End>, Failure> {
        let write = read.map_or(0, |version| version + 1);
        let mut attempt = 1;
        loop {
            let begin = Instant::now();
            let ending = self.call.run(read, write, attempt, &mut self.limits)?;
            // At once, for it may have made the state, or made it anew.
            self.state.lock()?;
            self.state.wait_for_no_producer()?;
            let newest = self.state.newest()?;
            let made = newest.filter(|newest| read.is_none_or(|read| *newest > read));
            if let Some(version) = made {
                if let Some(problem) = ending.problem() {
                    // The publish is the last thing that counts; what came after it changed nothing.
                    let text = format!("the program published version {version}, and then {problem}");
                    self.journal.add(context, &Event::note(Some(version), &text));
                }
                self.call.forget_log();
                self.journal.add(context, &Event::step(read, version, begin.elapsed(), attempt, self.args.until));
                return Ok(Ok(version));
            }
            let stopped = match &ending {
                Ending::Stopped(reason) => Some(reason.clone()),
                ending if ending.is_as_told() => self.limits.signalled_with_the_step(),
                _ => None,
            };
            if let Some(reason) = stopped {
                self.call.forget_log();
                let text = format!("the step to version {write} was ended: {reason}");
                self.journal.add(context, &Event::note(read, &text));
                return Ok(Err(End::Stopped(reason)));
            }
            let log = self.call.keep_log(write, attempt);
            let Some(problem) = ending.problem() else {
                let (program, state, dir) = (self.call.name(), &self.args.state, context.dir.display());
                let wanted = read.map_or("a version".into(), |read| format!("a version above {read}"));
                let why = match self.state.is_parted(read)? {
                    true => format!(
                        "{program} ended well, and no version of its ranks is one: all have to publish {wanted} of group {state} in \
                         {dir} while all are there, so let them wait for each other before the first one ends"
                    ),
                    false => format!(
                        "{program} ended well but published nothing: it has to publish {wanted} of region {state} in {dir}"
                    ),
                };
                self.journal.add(context, &Event::failed(read, write, attempt, &why, log.as_deref()));
                return Ok(Err(End::Failed(why)));
            };
            self.journal.add(context, &Event::failed(read, write, attempt, &problem, log.as_deref()));
            // Programs that start others have codes of their own for what was told to end. Another attempt would begin after the signals,
            // and take the time that there is to save.
            let stopped = self.limits.stopped().or_else(|| self.limits.signalled_with_the_step());
            if let Some(reason) = stopped {
                return Ok(Err(End::Stopped(reason)));
            }
            if attempt > self.args.retries {
                let read = untouched(read);
                let tries = if attempt == 1 { String::new() } else { format!(" at all {attempt} attempts") };
                let log = log.map(|log| format!("; what it wrote is in {}", log.display())).unwrap_or_default();
                return Ok(Err(End::Failed(format!(
                    "the step to version {write} failed{tries}: {} {problem}; {read}{log}",
                    self.call.name()
                ))));
            }
            attempt += 1;
        }
    }

    fn save(&mut self, context: &mut Context, version: Option<u64>, cause: Cause) -> Result<(), Failure> {
        let (Some(checkpoints), Some(version)) = (&mut self.checkpoints, version) else { return Ok(()) };
        for event in checkpoints.save(&self.state, version, cause)? {
            self.journal.add(context, &event);
        }
        Ok(())
    }
}
