//! `still safe`: whether a version is on disk.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, PROBLEM};
use crate::units::{parse_seconds, parse_version};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;
use stillframe_checkpoint as checkpoint;

/// Say whether a version is safe: saved, and brought to disk
///
/// Asks the directory alone, so it may be asked anywhere, whether a checkpointer is at work or not.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still safe ck                      the newest version that is safe
  still safe ck 5000                 is version 5000? the exit code says so, too
  still safe ck 5000 --wait 60       wait until it is, at most a minute
  still safe ck 5000 --or-newer      is all that was done up to version 5000?

A version that the checkpointer left out never becomes safe, and one that was deleted to make room
for newer ones is safe no more. Programs that want to know whether they may go on ask for
--or-newer.

With --json: {\"dir\", \"version\", \"safe\", \"safe_version\", \"newest_safe\"}: the version asked for,
whether it is safe, the version that answers the question, and the newest that is safe.

Exit codes: 0 safe, 1 not, 2 when the command makes no sense.")]
pub struct Args {
    /// The directory that `still checkpoint --to` was given
    #[arg(value_name = "DIR")]
    to: PathBuf,
    /// The version; without it, any
    #[arg(value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Wait so many seconds for it
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, default_value = "0", hide_default_value = true)]
    wait: Duration,
    /// Take a newer version, too
    #[arg(long, requires = "version")]
    or_newer: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Looks, or waits.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let found = match args.version {
        Some(version) if !args.or_newer => checkpoint::wait_safe(&args.to, version, args.wait)?.then_some(version),
        from => checkpoint::wait_safe_from(&args.to, from.unwrap_or(0), args.wait)?,
    };
    let newest = checkpoint::newest_safe(&args.to)?;
    let verdict = if found.is_some() { FINE } else { PROBLEM };
    if args.json {
        context.write_json(&json!({
            "dir": args.to, "version": args.version, "safe": found.is_some(), "safe_version": found, "newest_safe": newest,
        }))?;
        return Ok(verdict);
    }
    let dir = args.to.display();
    match (found, newest) {
        (Some(found), _) => writeln!(context.out, "version {found} is safe in {dir}")?,
        (None, Some(newest)) => {
            let version = args.version.unwrap_or(newest);
            writeln!(context.out, "version {version} is not safe in {dir}; the newest that is, is {newest}")?;
        }
        (None, None) if !args.to.exists() => writeln!(context.out, "no version is safe in {dir}, which is not there")?,
        (None, None) => writeln!(context.out, "no version is safe in {dir}")?,
    }
    Ok(verdict)
}
