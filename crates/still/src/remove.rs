//! `still rm` and `still gc`: regions that nobody needs any more.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
use crate::table::sanitize;
use crate::units;
use serde_json::json;
use stillframe_checkpoint::removal;

/// Remove a region whose producer is gone, all ranks of a group, or an arena with all its regions
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still rm heat
  still rm heat --force
  still rm pool/block7
  still rm pool

Observers that hold a version keep it; the memory returns when the last of them leaves. While the
producer lives the region stays, unless --force says otherwise: then the producer goes on into
files that nobody can open any more.

With --json: {\"region\", \"freed_bytes\"}.

Exit codes: 0 well, 1 when the region does not exist, its producer lives or it could not be
removed.")]
pub struct RemoveArgs {
    /// The region, group or arena
    region: String,
    /// Also while its producer lives
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove every region whose producer is gone and that nobody holds
///
/// Ranks of a group stay until that is so of all of them.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still gc --dry-run
  still gc

What was set aside (NAME~1, see `still ls --help`) goes too, also while a producer of NAME lives.

With --json: {\"dry_run\", \"regions\": [{\"region\", \"freed_bytes\", \"error\"}]}.

Exit codes: 0 also when there was nothing to do, 1 when a region could not be removed.")]
pub struct CollectArgs {
    /// Only say what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Removes one region.
pub fn run(context: &mut Context, args: &RemoveArgs) -> Verdict {
    let removed = removal::remove(&context.dir, &args.region, args.force)?;
    if args.json {
        context.write_json(&json!({ "region": args.region, "freed_bytes": removed.bytes }))?;
        return Ok(FINE);
    }
    context.finish(&format!("removed {}, {}", sanitize(&args.region), units::format_bytes(removed.bytes)))
}

/// What became of one region.
struct Outcome {
    name: String,
    freed: Result<u64, String>,
}

/// Removes every region that nobody needs.
pub fn collect(context: &mut Context, args: &CollectArgs) -> Verdict {
    let outcomes = if args.dry_run { foresee(context)? } else { sweep(context)? };
    let failed = outcomes.iter().any(|outcome| outcome.freed.is_err());
    if args.json {
        let regions: Vec<_> = outcomes
            .iter()
            .map(|outcome| {
                let (bytes, error) = (outcome.freed.as_ref().ok(), outcome.freed.as_ref().err());
                json!({ "region": outcome.name, "freed_bytes": bytes, "error": error })
            })
            .collect();
        context.write_json(&json!({ "dry_run": args.dry_run, "regions": regions }))?;
    } else {
        let done = if args.dry_run { "would remove" } else { "removed" };
        for Outcome { name, freed } in &outcomes {
            let name = sanitize(name);
            match freed {
                Ok(bytes) => writeln!(context.out, "{done} {name}, {}", units::format_bytes(*bytes))?,
                Err(error) => writeln!(context.out, "left {name}: {}", sanitize(error))?,
            }
        }
        if outcomes.is_empty() {
            writeln!(context.out, "nothing to remove in {}", context.dir.display())?;
        }
    }
    Ok(if failed { PROBLEM } else { FINE })
}

fn sweep(context: &Context) -> Result<Vec<Outcome>, Failure> {
    let collected = removal::collect(&context.dir)?.into_iter();
    Ok(collected
        .map(|(name, removed)| Outcome {
            name,
            freed: removed.map(|removed| removed.bytes).map_err(|error| error.to_string()),
        })
        .collect())
}

fn foresee(context: &Context) -> Result<Vec<Outcome>, Failure> {
    let collectable = removal::collectable(&context.dir)?.into_iter();
    Ok(collectable.map(|info| Outcome { name: info.name, freed: Ok(info.allocated_bytes) }).collect())
}
