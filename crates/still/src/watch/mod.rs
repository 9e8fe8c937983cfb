//! `still watch`: what regions and objects do from moment to moment.

mod frame;
mod history;
mod sample;
mod screen;
mod terminal;
mod traffic;

pub use frame::write_holders;

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::object;
use crate::polite::PoliteArgs;
use sample::Sampler;
use std::io::IsTerminal;
use std::time::Duration;

/// Watch publishes, memory and holders live, or the versions of an object
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still watch                        all regions; up and down choose one, q quits
  still watch heat --interval 0.2
  still watch --once                 one frame as text, after one interval
  still watch heat --json | jq .regions[0].publish_rate_hz
  still watch mesh                   an object: a line for each version that becomes complete

RATE counts publishes of the interval, DIRTY is the share of pages the last publish found modified,
PUBLISH is what a publish took on average, COPIED is what publishing copied per second. Where a
runtime (`still node`) runs, the nodes of its job follow, with what goes between this one and each
of them per second. A holder
that is stopped (a debugger, Ctrl-Z) keeps its versions and is marked. A producer that has no room
is waiting or skipping, as in `still ls`.

Of an object there is a line for each version that becomes complete; one that is complete already is
the first. With --interval there is at most one line in that time. When nothing comes for 2 s, a
line says whom the next version waits for. The command ends when all writers have left or those that
it needs died.

With --json: one object per interval and line: {\"time_ns\", \"interval_ms\", \"regions\": [{\"name\",
\"state\", \"newest\", \"versions\", \"producer_pid\", \"tracker\", \"publish_rate_hz\", \"publish_ms\",
\"skipped\", \"dirty_share\", \"copied_bytes_per_s\", \"memory_bytes\", \"plane_bytes\", \"working_bytes\",
\"bound_bytes\", \"planes\": [{\"index\", \"allocated_bytes\"}], \"holders\": [{\"pid\", \"command\",
\"state\", \"stopped\", \"version\", \"versions\", \"age_ms\"}], \"waiting_ns\", \"skipping_ns\", \"skipping\",
\"blockers\"}], \"nodes\": [{\"number\", \"name\", \"address\", \"is_own\", \"is_connected\",
\"sent_bytes_per_s\", \"received_bytes_per_s\"}]}; the last four of a region are as in `still ls`,
holders as in `still show`, what is not known is null, and a region that was removed is not in the
list. Of an object: {\"time_ns\", \"version\", \"published_ns\", \"interval_ms\", \"writers_alive\",
\"writers_died\", \"memory_bytes\"} or {\"time_ns\", \"next\": as in `still ls`}.

Exit codes: 0 well, 1 when the region or object does not exist or nothing more can come because
writers died, 2 when the output is no terminal and neither
--once nor --json was given.")]
pub struct Args {
    /// Only this region, the ranks of this group, or this object
    #[arg(value_name = "NAME")]
    region: Option<String>,
    /// Seconds between two looks [default: 1]; of an object, at least so many between two lines
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_interval)]
    interval: Option<Duration>,
    /// Print one frame and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    polite: PoliteArgs,
    /// Print JSON, one object per interval
    #[arg(long)]
    json: bool,
}

/// Between two looks at regions.
const INTERVAL: Duration = Duration::from_secs(1);

fn parse_interval(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds such as 0.5".to_string())?;
    if !(0.02..=86_400.0).contains(&seconds) {
        return Err("give between 0.02 and 86400 seconds".into());
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// Watches until told to stop.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    args.polite.begin()?;
    if let Some(name) = &args.region
        && let Some(object) = object::find(context, name)?
    {
        return object::watch::run(
            context,
            &object,
            args.interval.unwrap_or_default(),
            args.once,
            args.json,
            &args.polite,
        );
    }
    let interval = args.interval.unwrap_or(INTERVAL);
    let mut sampler = Sampler::new(context.dir.clone(), args.region.clone());
    if !args.once && !args.json {
        if !std::io::stdout().is_terminal() {
            return Err(Failure::Misuse("standard output is no terminal: use --once or --json".into()));
        }
        sampler.sample()?;
        return terminal::run(sampler, interval, &args.polite);
    }
    // The first look has nothing to compare with; it only starts the counting.
    sampler.sample()?;
    loop {
        std::thread::sleep(interval);
        let sample = sampler.sample()?;
        match args.json {
            true => context.write_json_line(&sample)?,
            false => frame::write(&sample, &context.dir, context.out)?,
        }
        if args.once {
            return Ok(FINE);
        }
        args.polite.step_back()?;
    }
}
