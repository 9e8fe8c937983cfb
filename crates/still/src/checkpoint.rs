//! `still checkpoint`: an observer that saves versions as they come.

mod teller;

pub use teller::gave_way;

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::object::checkpoint::{Due, End, Follower};
use crate::polite::parse_share;
use crate::units;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use stillframe::Polite;
use stillframe_checkpoint::{
    Checkpointer, CheckpointerOptions, Codec, Event, Keep, Obstacle, SaveOptions, State, Status, When,
};
use teller::Teller;

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

Of an object, complete versions are saved, each variable as one array, whoever had which part. One
that cannot be read is told, and tried again, or a newer one; when all writers have left, twice.

Conditions know the attributes of the version (of a group, those of rank 0), `version`, and `age`,
the seconds since it was published. They have + - * / %, comparisons, && || ! and parentheses.

It ends when the program is gone, or --follow seconds later if no next run begins; what a run left
unsaved is a failure until a version of the next one is safe. Ctrl-C or SIGTERM lets it finish what
it holds; the second one drops that. Neither leaves anything behind, and nor does kill -9 but for
what the next one cleans up. A save that fails, for lack of space or whatever, is told, and tried
again with the newest version, after 1 s at first. If the region begins anew with numbers that are
taken, what the earlier run left goes into DIR/earlier-N. DIR/status.json always says how things
are.

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
    #[arg(long, value_name = "H", requires = "all", value_parser = clap::value_parser!(u16).range(1..=32))]
    held: Option<u16>,
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
const TICK: Duration = Duration::from_millis(50);
/// How often it is looked whether what follows an object has ended that is to.
const NAP: Duration = Duration::from_millis(2);

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
    fn follow(
        &self,
        context: &Context,
        obstacle: &Obstacle,
        events: &Sender<Event>,
    ) -> Result<Option<Follower>, Failure> {
        let due = Due {
            every: self.every,
            every_time: self.every_seconds,
            when: self.when.as_deref().map(When::parse).transpose()?,
            all: self.all,
            held: self.held.map_or(CheckpointerOptions::HELD, usize::from),
            held_bytes: self.held_bytes,
            once: self.once,
            at_end: self.at_end,
            follow: self.follow,
            nice: self.nice,
        };
        Follower::begin(context, &self.name, due, obstacle, events)
    }

    /// Begins to save what has the name: of an object the region that is made of it.
    fn start(
        &self,
        context: &Context,
        follower: Option<&Follower>,
        obstacle: &Obstacle,
        wait: Duration,
        events: &Sender<Event>,
    ) -> Result<Checkpointer, Failure> {
        let events = events.clone();
        let options = self.options(context, follower.is_some(), wait)?.listen(move |event| {
            // Whoever read them has ended.
            let _ = events.send(event.clone());
        });
        let options = options.obstacle(obstacle);
        let started = match follower {
            Some(follower) => options.arena(follower.arena()).start(follower.name(), &self.to),
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
            options = options.held(usize::from(held));
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
    let (mut saved, mut missed, mut wait, mut former) = (0, 0, args.wait, None);
    loop {
        let Run { mut status, is_object, end } = save(context, args, former.as_ref(), wait, &mut signals, &mut teller)?;
        (saved, missed) = (saved + status.saved, missed + status.missed);
        if end == End::NextRun {
            teller.tell(context.out, &Event::NewRun { newest: None });
            // What is not safe stays so until a version of the next run is.
            former = Some(status).filter(|status| status.state == State::Failed);
            wait = args.wait.max(args.follow);
            continue;
        }
        (status.saved, status.missed) = (saved, missed);
        teller.end(context.out, &status);
        return match status.state {
            State::Failed => {
                let error = status.error.unwrap_or_else(|| "the last version is not safe".into());
                let advice = match is_object {
                    true => "run this again with --once when that is mended",
                    false => "the region keeps its last version: run this again with --once",
                };
                Err(Failure::Problem(format!("{error}; {advice}")))
            }
            State::Ended | State::Running => Ok(FINE),
        };
    }
}

/// How the saving of one region, group or object ended.
struct Run {
    status: Status,
    is_object: bool,
    /// Whether another object has the name then.
    end: End,
}

/// How somebody asks it to end, by signals.
#[derive(Default)]
struct Interrupts {
    count: usize,
    /// Whether the checkpointer knows.
    is_passed_on: bool,
}

impl Interrupts {
    /// Hears signals: the first ends what follows the object and then the checkpointer, which finishes what it holds; the second drops that.
    fn hear(&mut self, signals: &mut Signals, follower: Option<&Follower>, checkpointer: &Checkpointer) {
        self.count += signals.pending().count();
        if self.count > 0
            && let Some(follower) = follower
        {
            follower.stop();
        }
        // Its last status has what the follower left.
        if self.count > 1 && follower.is_none_or(Follower::has_ended) {
            checkpointer.cancel();
        }
    }

    /// Ends the checkpointer once nothing gets into its obstacle any more, so that its last status has all of it. Returns whether that is new.
    fn pass_on(&mut self, follower: Option<&Follower>, checkpointer: &Checkpointer) -> bool {
        if self.count == 0 || self.is_passed_on || !follower.is_none_or(Follower::has_ended) {
            return false;
        }
        checkpointer.finish();
        self.is_passed_on = true;
        true
    }

    /// How long an event is waited for.
    fn patience(&self) -> Duration {
        if self.count > 0 && !self.is_passed_on { NAP } else { TICK }
    }
}

/// What is in the way at the begin: what an earlier run left unsaved.
fn inherited(former: Option<&Status>) -> Obstacle {
    let obstacle = Obstacle::default();
    former.iter().for_each(|former| obstacle.inherit(former));
    obstacle
}

/// Saves versions of one region, group or object until that is over. `former` is what an earlier run left unsaved, and `wait` is for the
/// program to begin.
fn save(
    context: &mut Context,
    args: &Args,
    former: Option<&Status>,
    wait: Duration,
    signals: &mut Signals,
    teller: &mut Teller<'_>,
) -> Result<Run, Failure> {
    let (sender, events) = channel();
    let mut obstacle = inherited(former);
    let mut follower = args.follow(context, &obstacle, &sender)?;
    let mut checkpointer = args.start(context, follower.as_ref(), &obstacle, wait, &sender)?;
    // What is waited for may turn out to be an object; then it is begun with once more.
    let mut again = Some(sender).filter(|_| follower.is_none() && !wait.is_zero());
    if !wait.is_zero() {
        teller.progress(context.out, &checkpointer.status());
    }
    let mut interrupts = Interrupts::default();
    loop {
        let event = events.recv_timeout(interrupts.patience());
        interrupts.hear(signals, follower.as_ref(), &checkpointer);
        if interrupts.pass_on(follower.as_ref(), &checkpointer)
            && interrupts.count == 1
            && let Some(saving) = checkpointer.status().saving.first()
        {
            teller.say(context.out, &format!("finishing version {}; once more drops it", saving.version));
        }
        if interrupts.count > 0 || matches!(&event, Ok(Event::Attached { .. })) {
            again = None;
        }
        if event.is_err() && again.is_some() {
            // Another one's than that of the checkpointer which ends then.
            obstacle = inherited(former);
        }
        if event.is_err()
            && let Some(sender) = &again
            && let Some(found) = args.follow(context, &obstacle, sender)?
        {
            checkpointer.cancel();
            // It waited for a region that does not come.
            let _ = checkpointer.join();
            checkpointer = args.start(context, Some(&found), &obstacle, wait, sender)?;
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
    let is_object = follower.is_some();
    let followed = follower.map(Follower::join).transpose();
    let ended = checkpointer.join();
    events.try_iter().for_each(|event| teller.tell(context.out, &event));
    teller.clear(context.out);
    let status = ended?;
    let followed = followed.inspect_err(|_| teller.end(context.out, &status))?;
    let end = followed.filter(|_| interrupts.count == 0).unwrap_or(End::Over);
    Ok(Run { status, is_object, end })
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
