//! `still rm` and `still gc`: regions and objects that nobody needs any more.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
use crate::object::remove as objects;
use crate::table::sanitize;
use crate::units;
use objects::{Fate, Kind, Outcome, Owned};
use serde_json::json;
use stillframe::inspect;
use stillframe_checkpoint::removal;

/// Remove a region whose producer is gone, all ranks of a group, an arena with all its regions, or an object
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still rm heat
  still rm heat --force
  still rm pool/block7
  still rm pool
  still rm mesh                   an object, if no region has that name
  still rm objects/mesh           an object, whatever else has its name

Observers that hold a version keep it; the memory returns when the last of them leaves. While the
producer lives, or a `still step` that calls it, the region stays, unless --force says otherwise:
then the producer goes on into files that nobody can open any more.

An object goes with the fragments of all its writers, and stays while one of them lives. Fragments,
regions called objects/NAME/NUMBER, are not removed one by one: versions would lose a part.

With --json: {\"region\", \"freed_bytes\"}, of an object {\"object\", \"freed_bytes\"}.

Exit codes: 0 well, 1 when there is nothing of that name, its producer or a writer lives, or it
could not be removed.")]
pub struct RemoveArgs {
    /// The region, group, arena or object
    #[arg(value_name = "NAME")]
    region: String,
    /// Also while its producer or a writer lives
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Remove every region whose producer is gone and that nobody holds, and objects likewise
///
/// Ranks of a group stay until that is so of all of them, and so do the fragments of an object. What a run left beside the
/// ranks of a group goes with them, and is listed under the name of the group.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still gc --dry-run
  still gc

What was set aside (NAME~1, see `still ls --help`) goes too, also while a producer of NAME lives.

What programs of XPMEM left that were killed goes too, the files .xpmem-NUMBER… of each, listed as
.xpmem-NUMBER among the regions; what a living one has stays.

Regions of another machine (docs/machines.md) stay: that one removes them. What `still step` makes
stays as long as it runs, but in an arena.

An object goes when no writer of it lives and nobody holds a fragment. While one lives, only what
dead writers left goes, and of that only what no complete version needs; it is listed as
objects/NAME/NUMBER. An object that nobody has written yet stays. On a node of several, whose
runtime runs, an object stays that programs of other nodes may read: `still rm` removes it.

With --json: {\"dry_run\", \"regions\": [{\"region\", \"freed_bytes\", \"error\"}], \"objects\": [{\"object\",
\"freed_bytes\", \"error\"}]}; of an object that stays for others also \"kept\", which says why.

Exit codes: 0 also when there was nothing to do, 1 when something could not be removed.")]
pub struct CollectArgs {
    /// Only say what would be removed
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Removes one region or object.
pub fn run(context: &mut Context, args: &RemoveArgs) -> Verdict {
    if let Some((name, bytes)) = objects::run(context, &args.region, args.force)? {
        if args.json {
            context.write_json(&json!({ "object": name, "freed_bytes": bytes }))?;
            return Ok(FINE);
        }
        return context.finish(&format!("removed object {}, {}", sanitize(&name), units::format_bytes(bytes)));
    }
    if !args.force {
        check_owned(context, &args.region)?;
        if inspect::is_stepped(&context.dir, &args.region)? {
            let name = sanitize(&args.region);
            let why = format!(
                "somebody has {name} locked, as `still step` has what it makes, and needs between two steps: end that first"
            );
            return Err(Failure::Problem(format!("{why}, or use --force")));
        }
    }
    let removed = removal::remove(&context.dir, &args.region, args.force)?;
    if args.json {
        context.write_json(&json!({ "region": args.region, "freed_bytes": removed.bytes }))?;
        return Ok(FINE);
    }
    context.finish(&format!("removed {}, {}", sanitize(&args.region), units::format_bytes(removed.bytes)))
}

/// Refuses what objects need, as long as they are there.
fn check_owned(context: &Context, region: &str) -> Result<(), Failure> {
    let owned = Owned::new(context)?;
    let why = if let Some(owner) = owned.owner(region) {
        format!("{region} is a fragment of object '{owner}', whose versions would lose a part: `still rm {owner}`")
    } else if let Some(object) = owned.first_of(region)? {
        format!("{region} has the fragments of objects, of '{object}' for one: remove these with `still rm NAME`")
    } else {
        return Ok(());
    };
    Err(Failure::Problem(format!("{why}, or use --force")))
}

/// Removes every region that nobody needs.
pub fn collect(context: &mut Context, args: &CollectArgs) -> Verdict {
    let of_objects = objects::collect(context, args.dry_run)?;
    let of_regions = if args.dry_run { foresee(context)? } else { sweep(context)? };
    let outcomes = || of_objects.iter().chain(&of_regions);
    let failed = outcomes().any(|outcome| matches!(outcome.fate, Fate::Failed(_)));
    if args.json {
        let report = |kind: Kind| -> Vec<_> {
            let described = outcomes().filter(|outcome| outcome.kind == kind).map(|outcome| {
                let mut described = json!({ kind.name(): outcome.name, "freed_bytes": null, "error": null });
                match &outcome.fate {
                    Fate::Removed(bytes) => described["freed_bytes"] = json!(bytes),
                    Fate::Kept(why) => described["kept"] = json!(why),
                    Fate::Failed(error) => described["error"] = json!(error),
                }
                described
            });
            described.collect()
        };
        let (regions, objects) = (report(Kind::Region), report(Kind::Object));
        context.write_json(&json!({ "dry_run": args.dry_run, "regions": regions, "objects": objects }))?;
    } else {
        let done = if args.dry_run { "would remove" } else { "removed" };
        for Outcome { kind, name, fate } in outcomes() {
            let prefix = if *kind == Kind::Object { "object " } else { "" };
            let name = format!("{prefix}{}", sanitize(name));
            match fate {
                Fate::Removed(bytes) => writeln!(context.out, "{done} {name}, {}", units::format_bytes(*bytes))?,
                Fate::Kept(why) | Fate::Failed(why) => writeln!(context.out, "left {name}: {}", sanitize(why))?,
            }
        }
        if outcomes().next().is_none() {
            writeln!(context.out, "nothing to remove in {}", context.dir.display())?;
        }
    }
    Ok(if failed { PROBLEM } else { FINE })
}

fn sweep(context: &Context) -> Result<Vec<Outcome>, Failure> {
    let owned = Owned::new(context)?;
    let collected = removal::collect_if(&context.dir, |name| owned.owner(name).is_none())?.into_iter();
    Ok(collected
        .map(|(name, removed)| Outcome {
            kind: Kind::Region,
            name,
            fate: Fate::of(removed.map(|removed| removed.bytes)),
        })
        .collect())
}

fn foresee(context: &Context) -> Result<Vec<Outcome>, Failure> {
    let owned = Owned::new(context)?;
    let collectable = removal::collectable(&context.dir)?.into_iter();
    let going = collectable.filter(|info| owned.owner(&info.name).is_none());
    Ok(going
        .map(|info| Outcome { kind: Kind::Region, name: info.name, fate: Fate::Removed(info.allocated_bytes) })
        .collect())
}
