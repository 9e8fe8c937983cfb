//! `still checkpoint`: an observer that saves versions as they come.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::object::checkpoint::{Due, End, Follower};
use crate::output::EventLines;
use crate::polite::parse_share;
use crate::table::sanitize;
use crate::units;
use ratatui::crossterm::terminal;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use stillframe::Polite;
use stillframe_checkpoint::{
    Checkpointer, CheckpointerOptions, Codec, Event, Keep, SaveOptions, Saving, State, Status, When,
};

/// Save versions of a running program to disk, without stopping it
///
/// Attaches to a region, a group or an object, saves versions into a directory, and leaves the program alone. Each
/// checkpoint is a directory of its own, DIR/v000000000120.zarr, that zarr, xarray and `cp` can read; what did not change
/// since the one before is a hard link to it. It is there whole or not at all, and once it is there it is on disk.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still checkpoint heat --to ck                              the newest, as often as is hardly felt
  still checkpoint heat --to ck --every 1000 --at-end        versions 1000, 2000, ... and the last
  still checkpoint heat --to ck --every-seconds 600 --keep 2 --keep-every 10000
  still checkpoint heat --to ck --when 'step % 100 == 0 && residual < 1e-3'
  still checkpoint heat --to ck --once                       the newest version, then end
  still checkpoint heat --to ck --all --held 8               none left out, up to 8 held at once
  still checkpoint heat --to ck --wait 60 &                  start it first, then the program
  still safe ck 5000 --wait 30                               is version 5000 on disk?
  still restore ck                                           back into memory

Which versions: each rule that holds is enough. Without any, all are due; then it keeps to a share
of the processors where the simulation leaves none idle (--share, --impolite). --every means
multiples of N, or the next version if that one was not published or went. Versions that come while
one is being saved are left out but for the newest, and counted; --all holds them until they are
saved, as long as --held and --held-bytes allow, and then leaves them with the program.

Of an object, complete versions are saved, each variable as one array, whoever had which part.

Conditions know the attributes of the version (of a group, those of rank 0), `version`, and `age`,
the seconds since it was published. They have + - * / %, comparisons, && || ! and parentheses.

It ends when the program is gone, or --follow seconds later if no next run begins. Ctrl-C or SIGTERM
lets it finish what it holds; the second one drops that. Neither leaves anything behind, and nor
does kill -9 but for what the next one cleans up. A save that fails, for lack of space or whatever,
is told, and tried again with the newest version, after 1 s at first. If the region begins anew with
numbers that are taken, what the earlier run left goes into DIR/earlier-N. DIR/status.json always
says how things are.

With --json: one object per line, {\"event\", \"time_ns\", ...}: `attached` {\"region\", \"to\", \"ranks\",
\"newest\"}, `begun` {\"version\", \"bytes\"}, `saved` {\"version\", \"path\", \"already\", \"bytes\",
\"written_bytes\", \"linked_bytes\", \"read_back_bytes\", \"files\", \"removed\", \"trouble\",
\"seconds\"}, `missed` {\"count\", \"after\", \"before\"}, `failed` {\"version\", \"error\", \"code\",
\"retry_seconds\"},
`undecided` and `rank-gone` {\"error\"}, `gone` {\"follow_seconds\"}, `new-run` {\"newest\"},
`set-aside` {\"versions\", \"to\"}, `remade`, and at last `ended` {\"status\"}, which is what
status.json says.

Exit codes: 0 when the last version it had to save is safe, 1 when it is not or there is no such
region, 2 when the command makes no sense.")]
pub struct Args {
    /// The region, group or object
    #[arg(value_name = "REGION")]
    name: String,
    /// The directory for the checkpoints, made if it is not there
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Save versions whose number is a multiple of N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    every: Option<u64>,
    /// Save a version every so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_interval)]
    every_seconds: Option<Duration>,
    /// Save versions for which this holds, such as 'step % 100 == 0 && residual < 1e-3'
    #[arg(long, value_name = "EXPR")]
    when: Option<String>,
    /// Save the last version when the program is gone
    #[arg(long)]
    at_end: bool,
    /// Save one version, and end
    #[arg(long)]
    once: bool,
    /// Keep the newest K checkpoints [default: 3]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
    /// Keep those whose version is a multiple of M for ever
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u64).range(1..))]
    keep_every: Option<u64>,
    /// Hold versions that come too fast, and save all of them
    #[arg(long)]
    all: bool,
    /// With --all, hold at most H versions, 1 to 32 [default: 8]
    #[arg(long, value_name = "H", requires = "all")]
    held: Option<usize>,
    /// With --all, hold at most so much memory, such as 2G [default: a quarter of what is available]
    #[arg(long, value_name = "BYTES", requires = "all", value_parser = units::parse_bytes)]
    held_bytes: Option<u64>,
    /// Compress the chunks
    #[arg(long, value_name = "CODEC", value_enum)]
    compress: Option<Compress>,
    /// Bytes of a chunk, about, such as 4M [default: 1/2048 of the checkpoint or less, 512K to 32M]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    chunk_bytes: Option<u64>,
    /// Threads that write a version [default: the processors, at most 4]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// How far saving steps back behind the simulation: its nice value, 0 to 19
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(0..=19))]
    nice: u32,
    /// How much of one processor to take where nothing is left over; versions are left out until that is so [default: 2% if
    /// nothing says which versions to save, else what it needs]
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, conflicts_with_all = ["all", "once"])]
    share: Option<f64>,
    /// Take what saving needs, and not only its share
    #[arg(long, conflicts_with = "share")]
    impolite: bool,
    /// Wait so many seconds for the program to begin
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "0", hide_default_value = true)]
    wait: Duration,
    /// Wait so many seconds for the next run when the program is gone
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "0", hide_default_value = true)]
    follow: Duration,
    /// Print JSON, one object per event
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Compress {
    /// smaller
    Zstd,
    /// faster
    Lz4,
}

/// The compression level of zstd that its authors take for usual.
const ZSTD_LEVEL: i32 = 3;
/// How often the line on a terminal is drawn anew, and signals are asked for.
const TICK: Duration = Duration::from_millis(100);

fn parse_interval(text: &str) -> Result<Duration, String> {
    match units::parse_seconds(text) {
        Ok(Duration::ZERO) => Err("give more than 0 seconds".into()),
        other => other,
    }
}

impl Args {
    /// Who says which versions to save wants these; else it saves as often as its share allows.
    fn share(&self) -> Option<f64> {
        let is_asked =
            self.every.is_some() || self.every_seconds.is_some() || self.when.is_some() || self.all || self.once;
        self.share.or((!is_asked && !self.impolite).then_some(Polite::SHARE))
    }

    /// Begins to follow the object, if the name is that of one.
    fn follow(&self, context: &Context, events: &Sender<Event>) -> Result<Option<Follower>, Failure> {
        let due = Due {
            every: self.every,
            every_time: self.every_seconds,
            when: self.when.as_deref().map(When::parse).transpose()?,
            all: self.all,
            once: self.once,
            at_end: self.at_end,
            follow: self.follow,
            nice: self.nice,
        };
        Follower::begin(context, &self.name, due, events)
    }

    /// Begins to save what has the name: of an object the region that is made of it.
    fn start(
        &self,
        context: &Context,
        follower: Option<&Follower>,
        wait: Duration,
        events: &Sender<Event>,
    ) -> Result<Checkpointer, Failure> {
        let (events, finish) = (events.clone(), follower.map(Follower::finisher));
        let options = self.options(context, follower.is_some(), wait)?.listen(move |event| {
            if let (Some(finish), Some(version)) = (&finish, ended_with(event)) {
                finish(version);
            }
            // Whoever read them has ended.
            let _ = events.send(event.clone());
        });
        let started = match follower {
            Some(follower) => {
                options.arena(follower.arena()).obstacle(follower.obstacle()).start(follower.name(), &self.to)
            }
            None => options.start(&self.name, &self.to),
        };
        started.map_err(|error| match error {
            stillframe_checkpoint::Error::Engine(error @ stillframe::Error::NoRegion { .. }) => {
                Failure::Problem(format!("{error}; --wait SECONDS waits"))
            }
            error => error.into(),
        })
    }

    /// What the checkpointer is told. Of an object it gets only versions that are due, and saves each.
    fn options(&self, context: &Context, is_object: bool, wait: Duration) -> Result<CheckpointerOptions, Failure> {
        let newest = self.keep.map_or(Keep::default().newest, |keep| keep as usize);
        let mut save = SaveOptions::new().keep(Keep { newest, every: self.keep_every });
        save = match self.compress {
            None => save,
            Some(Compress::Zstd) => save.codec(Codec::Zstd { level: ZSTD_LEVEL }),
            Some(Compress::Lz4) => save.codec(Codec::Lz4),
        };
        if let Some(bytes) = self.chunk_bytes {
            save = save.chunk_bytes(bytes as usize);
        }
        if let Some(threads) = self.threads {
            save = save.threads(threads);
        }
        let mut options = Checkpointer::options().dir(&context.dir).save(save);
        options = options.once(self.once).all(self.all).nice(self.nice).own_session(true);
        if let Some(share) = self.share() {
            options = options.share(share);
        }
        if let Some(held) = self.held {
            options = options.held(held);
        }
        if let Some(bytes) = self.held_bytes {
            options = options.held_bytes(bytes);
        }
        if is_object {
            return Ok(options);
        }
        if let Some(when) = &self.when {
            options = options.when(when)?;
        }
        options = options.at_end(self.at_end).wait(wait).follow(self.follow);
        if let Some(every) = self.every {
            options = options.every(every);
        }
        if let Some(every) = self.every_seconds {
            options = options.every_time(every);
        }
        Ok(options)
    }
}

/// Saves versions until the program is gone or somebody ends it.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let mut teller = Teller::new(args, std::io::stdout().is_terminal() && !args.json);
    let (mut saved, mut missed, mut wait) = (0, 0, args.wait);
    loop {
        let (mut status, end) = save(context, args, wait, &mut signals, &mut teller)?;
        (saved, missed) = (saved + status.saved, missed + status.missed);
        if status.state != State::Failed && end == End::NextRun {
            teller.tell(context.out, &Event::NewRun { newest: None });
            wait = args.wait.max(args.follow);
            continue;
        }
        (status.saved, status.missed) = (saved, missed);
        teller.end(context.out, &status);
        return match status.state {
            State::Failed => {
                let error = status.error.unwrap_or_else(|| "the last version is not safe".into());
                Err(Failure::Problem(format!("{error}; the region keeps its last version: run this again with --once")))
            }
            State::Ended | State::Running => Ok(FINE),
        };
    }
}

/// Saves versions of one region, group or object until that is over; how it ended, and whether another object has the name then. `wait` is
/// for the program to begin.
fn save(
    context: &mut Context,
    args: &Args,
    wait: Duration,
    signals: &mut Signals,
    teller: &mut Teller<'_>,
) -> Result<(Status, End), Failure> {
    let (sender, events) = channel();
    let mut follower = args.follow(context, &sender)?;
    let mut checkpointer = args.start(context, follower.as_ref(), wait, &sender)?;
    // What is waited for may turn out to be an object; then it is begun with once more.
    let mut again = Some(sender).filter(|_| follower.is_none() && !wait.is_zero());
    if !wait.is_zero() {
        teller.progress(context.out, &checkpointer.status());
    }
    let mut interrupts = 0;
    loop {
        let event = events.recv_timeout(TICK);
        for _ in signals.pending() {
            interrupts += 1;
            match interrupts {
                1 => {
                    follower.iter().for_each(Follower::stop);
                    checkpointer.finish();
                    let status = checkpointer.status();
                    if let Some(saving) = status.saving.first() {
                        let text = format!("finishing version {}; once more drops it", saving.version);
                        teller.say(context.out, &text);
                    }
                }
                _ => checkpointer.cancel(),
            }
        }
        if interrupts > 0 || matches!(&event, Ok(Event::Attached { .. })) {
            again = None;
        }
        if event.is_err()
            && let Some(sender) = &again
            && let Some(found) = args.follow(context, sender)?
        {
            checkpointer.cancel();
            // It waited for a region that does not come.
            let _ = checkpointer.join();
            checkpointer = args.start(context, Some(&found), wait, sender)?;
            (follower, again) = (Some(found), None);
            continue;
        }
        match event {
            Ok(event) => teller.tell(context.out, &event),
            Err(RecvTimeoutError::Timeout) if checkpointer.has_ended() => break,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        teller.progress(context.out, &checkpointer.status());
    }
    let followed = follower.map_or(Ok(End::Over), Follower::join);
    let ended = checkpointer.join();
    events.try_iter().for_each(|event| teller.tell(context.out, &event));
    teller.clear(context.out);
    let status = ended?;
    let end = followed.inspect_err(|_| teller.end(context.out, &status))?;
    Ok((status, if interrupts > 0 { End::Over } else { end }))
}

/// The version that is dealt with, saved or not.
fn ended_with(event: &Event) -> Option<u64> {
    match event {
        Event::Saved(saved) => Some(saved.version),
        Event::Failed { version, .. } => Some(*version),
        _ => None,
    }
}

/// Says what happens, in lines of text or JSON, and on a terminal how far things are in the line below.
struct Teller<'a> {
    name: &'a str,
    to: &'a Path,
    json: bool,
    is_terminal: bool,
    lines: EventLines,
    /// The line as it is on the terminal.
    drawn: String,
    begun: HashMap<u64, Instant>,
}

impl<'a> Teller<'a> {
    fn new(args: &'a Args, is_terminal: bool) -> Teller<'a> {
        let (name, to, json) = (args.name.as_str(), args.to.as_path(), args.json);
        Teller {
            name,
            to,
            json,
            is_terminal,
            lines: EventLines::default(),
            drawn: String::new(),
            begun: HashMap::new(),
        }
    }

    fn print(&mut self, out: &mut dyn Write, text: &str) {
        self.clear(out);
        self.lines.write(out, text);
    }

    fn print_json(&mut self, out: &mut dyn Write, event: &str, mut value: Value) {
        value["event"] = event.into();
        value["time_ns"] = units::now_ns().into();
        self.print(out, &value.to_string());
    }

    /// Says something that is not an event.
    fn say(&mut self, out: &mut dyn Write, text: &str) {
        if !self.json {
            self.print(out, text);
        }
    }

    /// Says what is wrong, where errors are looked for.
    fn complain(&mut self, out: &mut dyn Write, text: &str) {
        self.clear(out);
        let _ = writeln!(std::io::stderr(), "still: {}", sanitize(text));
    }

    fn tell(&mut self, out: &mut dyn Write, event: &Event) {
        if let Event::Begun { version, .. } = event {
            self.begun.insert(*version, Instant::now());
        }
        if self.json {
            let (name, value) = self.describe(event);
            return self.print_json(out, name, value);
        }
        let count = |number: usize, what| units::count(number, what);
        match event {
            Event::Attached { ranks, newest } => {
                let what = ranks.map_or("region".into(), |ranks| format!("group of {}", count(ranks, "rank")));
                let newest = newest.map_or("no version yet".into(), |newest| format!("newest version {newest}"));
                let text = format!("{}: {what}, {newest}; saving to {}", sanitize(self.name), self.to.display());
                self.print(out, &text);
            }
            Event::Saved(saved) if saved.already => {
                self.print(out, &format!("version {} was safe before", saved.version));
            }
            Event::Saved(saved) => {
                let (bytes, written) = (units::format_bytes(saved.bytes), units::format_bytes(saved.written_bytes));
                let time = units::format_ms(saved.duration.as_secs_f64() * 1e3);
                let removed = match saved.removed.as_slice() {
                    [] => String::new(),
                    removed => format!("; removed {}", list(removed)),
                };
                let version = saved.version;
                let text = format!("version {version} is safe: {bytes} in {time}, {written} of it written{removed}");
                self.print(out, &text);
                if let Some(trouble) = &saved.trouble {
                    self.complain(out, &format!("version {version} is safe, but {trouble}"));
                }
            }
            Event::Missed { count, after, before } => {
                let text = match after {
                    Some(after) if after + count + 1 == *before && *count == 1 => {
                        format!("missed version {}", after + 1)
                    }
                    Some(after) if after + count + 1 == *before => {
                        format!("missed versions {} to {}: {count} came too fast", after + 1, before - 1)
                    }
                    Some(after) => format!("missed {count} between versions {after} and {before}: they came too fast"),
                    None => format!("missed {count} before version {before}: they came too fast"),
                };
                self.print(out, &text);
            }
            Event::Failed { version, error, retry, .. } => {
                let retry = match retry {
                    Some(retry) => format!("; trying again in {}", units::format_ms(retry.as_secs_f64() * 1e3)),
                    None => String::new(),
                };
                self.complain(out, &format!("version {version} is not saved: {error}{retry}"));
            }
            Event::Undecided { error } => self.complain(out, error),
            Event::RankGone { error } => self.complain(out, &format!("{error}; waiting")),
            Event::Gone { follow } => {
                let follow = match follow.is_zero() {
                    true => String::new(),
                    false => format!("; waiting {} for the next run", units::format_ms(follow.as_secs_f64() * 1e3)),
                };
                self.print(out, &format!("the program that published {} is gone{follow}", sanitize(self.name)));
            }
            Event::NewRun { newest } => {
                let newest = newest.map_or("no version yet".into(), |newest| format!("newest version {newest}"));
                self.print(out, &format!("a new run of {} has begun: {newest}", sanitize(self.name)));
            }
            Event::SetAside { versions, to } => {
                self.print(out, &gave_way(versions, to));
            }
            Event::Remade => {
                self.complain(
                    out,
                    &format!("{} was removed, and is made again: what was in it is gone", self.to.display()),
                );
            }
            _ => {}
        }
    }

    fn describe(&self, event: &Event) -> (&'static str, Value) {
        match event {
            Event::Attached { ranks, newest } => {
                ("attached", json!({ "region": self.name, "to": self.to, "ranks": ranks, "newest": newest }))
            }
            Event::Begun { version, bytes } => ("begun", json!({ "version": version, "bytes": bytes })),
            Event::Saved(saved) => {
                let value = json!({
                    "version": saved.version, "path": saved.path, "already": saved.already, "bytes": saved.bytes,
                    "written_bytes": saved.written_bytes, "linked_bytes": saved.linked_bytes,
                    "read_back_bytes": saved.read_back_bytes, "files": saved.files,
                    "removed": saved.removed, "trouble": saved.trouble, "seconds": saved.duration.as_secs_f64(),
                });
                ("saved", value)
            }
            Event::Missed { count, after, before } => {
                ("missed", json!({ "count": count, "after": after, "before": before }))
            }
            Event::Failed { version, error, code, retry } => {
                let retry = retry.map(|retry| retry.as_secs_f64());
                ("failed", json!({ "version": version, "error": error, "code": code, "retry_seconds": retry }))
            }
            Event::Undecided { error } => ("undecided", json!({ "error": error })),
            Event::RankGone { error } => ("rank-gone", json!({ "error": error })),
            Event::Gone { follow } => ("gone", json!({ "follow_seconds": follow.as_secs_f64() })),
            Event::NewRun { newest } => ("new-run", json!({ "newest": newest })),
            Event::SetAside { versions, to } => ("set-aside", json!({ "versions": versions, "to": to })),
            Event::Remade => ("remade", json!({})),
            _ => ("other", json!({})),
        }
    }

    /// Draws the line that says how far things are.
    fn progress(&mut self, out: &mut dyn Write, status: &Status) {
        if !self.is_terminal || self.lines.is_mute() {
            return;
        }
        let mut parts: Vec<String> = status.saving.iter().map(|saving| self.describe_saving(saving)).collect();
        if parts.is_empty() {
            parts.push("waiting".into());
        }
        parts.push(status.newest_safe.map_or("none safe yet".into(), |newest| format!("newest safe {newest}")));
        if status.missed > 0 {
            parts.push(format!("{} missed", status.missed));
        }
        // Some terminals do not know how wide they are.
        let width = terminal::size().ok().map(|(width, _)| width as usize).filter(|width| *width > 0).unwrap_or(80);
        let line: String = parts.join("  ").chars().take(width - 1).collect();
        if line == self.drawn {
            return;
        }
        // The line is drawn over itself, and what it had more is erased.
        let _ = write!(out, "\r{line}\x1b[K").and_then(|()| out.flush());
        self.drawn = line;
    }

    fn describe_saving(&self, saving: &Saving) -> String {
        let seconds = self.begun.get(&saving.version).map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let share = saving.bytes_done as f64 / saving.bytes.max(1) as f64;
        let rate = units::format_bytes((saving.bytes_done as f64 / seconds.max(1e-3)) as u64);
        let (done, bytes) = (units::format_bytes(saving.bytes_done), units::format_bytes(saving.bytes));
        format!("saving {}: {}, {done} of {bytes}, {rate}/s", saving.version, units::format_share(share))
    }

    fn clear(&mut self, out: &mut dyn Write) {
        if !std::mem::take(&mut self.drawn).is_empty() {
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }

    fn end(&mut self, out: &mut dyn Write, status: &Status) {
        if self.json {
            return self.print_json(out, "ended", json!({ "status": status }));
        }
        let newest = match status.newest_safe {
            Some(newest) => format!("newest safe version {newest}"),
            None => "no version is safe".into(),
        };
        let text = format!("ended: {} saved, {} missed, {newest}", status.saved, status.missed);
        self.print(out, &text);
    }
}

/// Says where checkpoints of an earlier run went.
pub fn gave_way(versions: &[u64], to: &Path) -> String {
    format!("the earlier run's {} gave way to this one's, and went to {}", list(versions), to.display())
}

fn list(versions: &[u64]) -> String {
    versions.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn who_does_not_say_which_versions_gets_as_many_as_a_share_allows() {
        let share = |options: &str| {
            let words = ["checkpoint", "heat", "--to", "ck"].into_iter().chain(options.split_whitespace());
            Command::parse_from(words).args.share()
        };
        assert_eq!(share(""), Some(Polite::SHARE));
        assert_eq!(share("--at-end --keep 5"), Some(Polite::SHARE));
        assert_eq!(share("--share 10%"), Some(0.1));
        assert_eq!(share("--every 10 --share 10%"), Some(0.1));
        for asked in ["--every 10", "--every-seconds 60", "--when step>3", "--all", "--once", "--impolite"] {
            assert_eq!(share(asked), None, "{asked}");
        }
    }
}
