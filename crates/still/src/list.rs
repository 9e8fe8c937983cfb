//! `still ls`: the regions and objects of a directory.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::group::{self, GroupSummary};
use crate::object::list::Listing;
use crate::region::{EnclaveSummary, Summary};
use crate::store;
use crate::table::{Align, Table, sanitize};
use crate::units;
use std::io::Write;
use stillframe::inspect;

/// List regions and objects: who is alive, what is newest, how much memory it takes; or checkpoints
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still ls
  still ls --json | jq -r '.regions[] | select(.state == \"dead\") | .name'
  still ls --store ckpt

States:
  live        the producer runs
  waiting     the producer runs, and its publish waits for room until observers let go: who
              does not, and since when, follows
  skipping    the producer runs, and leaves versions out for want of room: how many, since when,
              and who holds old ones follows
  dead        the producer is gone; its last version can still be read, and the next
              producer of that name goes on from it. `still rm` or `still gc` removes it
  incomplete  its creation was never finished
  unreadable  the files are not a region of this build; the reason follows

NAME~1 is what a run of NAME that did not end by itself left, set aside when the next one began
with nothing. It goes when a run of NAME ends by itself, when that lacks room, or by `still gc`.

Regions in the arena of an enclave, a virtual machine or its host (docs/machines.md), are listed in
each of these under the same name; if there are any, ENCLAVE says which one produces them, and
whether that is this one (own). PRODUCER is a process there.

MEMORY is what stands behind the region's files. RATE is measured over the versions that are
kept, so it needs a producer that keeps more than one, and sinks while the next one is overdue.
AGE is the time since the last publish.

A group, the ranks of a parallel program, is one line: NEWEST is the newest version that all ranks
have, RATE that of the slowest, MEMORY that of all. Ranks that are dead, slow or missing are named
below; --ranks lists them all. BEHIND counts the versions above a rank's newest that the furthest
rank still has: those in between that are gone do not count.

Objects follow in a table of their own: NEWEST is the newest complete version, which all writers
published, or the initial one, which is zeros; VERSIONS counts the complete ones that can be had. An
object is live when all who write it live, partial when some died, dead when none lives, unwritten
when nobody attached a fragment. Whom the next version waits for is told below. The fragments of
objects, regions called objects/NAME/NUMBER, are listed with --all.

Where a runtime (`still node`) runs, groups with ranks on other nodes follow: the newest version
that all ranks have, and which ranks each node has. Then the nodes of its job: whether it has a
connection to each, and how much went to it and came from it since the runtime was started.

With --json: {\"dir\", \"regions\": [{\"name\", \"path\", \"state\", \"reason\", \"newest\", \"versions\",
\"published_ns\", \"created_ns\", \"rate_hz\", \"memory_bytes\", \"plane_bytes\", \"working_bytes\",
\"bound_bytes\", \"producer_pid\", \"tracker\", \"keep\", \"published\", \"skipped\", \"rank\",
\"ranks\", \"waiting_ns\", \"skipping_ns\", \"skipping\", \"blockers\": as \"holders\" of `still show`,
and if an enclave produces it \"enclave\": {\"name\", \"is_own\"}}],
\"groups\": [{\"name\", \"state\", \"newest\", \"versions\", \"published_ns\", \"rate_hz\",
\"memory_bytes\", \"ranks\": [{\"rank\", \"state\", \"producer_pid\", \"newest\", \"behind\"}]}],
\"objects\": [{\"name\", \"state\", \"variables\": [{\"name\", \"type\", \"extents\", \"bytes\"}], \"bytes\",
\"initial\", \"newest\", \"versions\": [], \"published_ns\", \"memory_bytes\", \"writers_alive\",
\"writers_died\", \"writers_left\", \"next\": {\"version\", \"waiting\": [{\"number\", \"died\",
\"elements\"}]}}], \"faults\": [{\"name\", \"error\"}], \"nodes\": [{\"number\", \"name\", \"address\",
\"is_own\", \"is_connected\", \"sent_bytes\", \"received_bytes\"}], \"groups_over_nodes\": [{\"name\",
\"ranks\", \"living\", \"newest\", \"nodes\": {NODE: [RANK]}}]}; faults are of objects that cannot be
read, and what is not known is null. A producer that waits or skips is \"live\"; since when it waits,
when it left out the first version since the newest, how many by now, and who holds older ones is
told beside that. The ranks of groups are among the regions too; the state of a group is \"partial\"
when some ranks live and some do not.

With --store, the checkpoints of a directory, or the one that a directory is: SHARED is what a
checkpoint has in common with the one before it and takes no room of its own, AGE the time since the
version was published. A damaged one is named with what is wrong; `still verify` reads all of it.
With --json then: {\"store\", \"checkpoints\": [{\"version\", \"path\", \"error\", \"region\", \"ranks\",
\"published_ns\", \"saved_ns\", \"attributes\", \"bytes\", \"linked_bytes\", \"files\", \"previous\"}]}.

Exit codes: 0 also when there is nothing to list, 1 when the directory cannot be read or a
checkpoint is damaged.")]
pub struct Args {
    /// List the ranks of groups
    #[arg(long)]
    ranks: bool,
    /// List the fragments of objects, too
    #[arg(long)]
    all: bool,
    /// List the checkpoints of this directory instead
    #[arg(long, value_name = "DIR", conflicts_with_all = ["ranks", "all"])]
    store: Option<std::path::PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the regions.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    if let Some(path) = &args.store {
        return store::list(context, path, args.json);
    }
    let now_ns = units::now_ns();
    let mut regions = Vec::new();
    let mut groups: Vec<GroupSummary> = Vec::new();
    let infos = inspect::regions(&context.dir)?;
    let listing = Listing::new(context, &infos);
    for info in infos.into_iter().filter(|info| args.all || !listing.owns(&info.name)) {
        let group = info.name.rsplit_once('/').map(|(group, _)| group).filter(|_| info.rank.is_some());
        if let Some(name) = group
            && groups.iter().all(|known| known.name != name)
            // A group with a rank that cannot be read is listed as its regions, which say why.
            && let Ok(Some(group)) = group::find(context, name, now_ns)
        {
            groups.push(group);
        }
        regions.push(Summary::new(info, &context.dir, now_ns));
    }
    if args.json {
        let faults = listing.faults.iter().map(|(name, error)| serde_json::json!({ "name": name, "error": error }));
        context.write_json(&serde_json::json!({
            "dir": context.dir, "regions": regions, "groups": groups, "objects": listing.objects,
            "faults": faults.collect::<Vec<_>>(), "nodes": listing.nodes,
            "groups_over_nodes": listing.groups,
        }))?;
        return Ok(FINE);
    }
    if regions.is_empty() && listing.is_empty() {
        let dir = context.dir.display().to_string();
        let hint = "another directory is named by --dir or STILLFRAME_DIR";
        return context.finish(&format!("no regions in {dir}, and no objects; {hint}"));
    }
    if !regions.is_empty() {
        write_regions(context.out, &regions, &groups, args.ranks, now_ns)?;
    }
    if !listing.is_empty() {
        if !regions.is_empty() {
            writeln!(context.out)?;
        }
        listing.write(now_ns, context.out)?;
    }
    Ok(FINE)
}

/// Writes regions and groups as a table, and notes below it.
fn write_regions(
    out: &mut dyn Write,
    regions: &[Summary],
    groups: &[GroupSummary],
    with_ranks: bool,
    now_ns: u64,
) -> Result<(), Failure> {
    let mut columns = vec![
        ("REGION", Align::Left),
        ("STATE", Align::Left),
        ("NEWEST", Align::Right),
        ("VERSIONS", Align::Right),
        ("MEMORY", Align::Right),
        ("RATE", Align::Right),
        ("PRODUCER", Align::Right),
        ("AGE", Align::Right),
    ];
    // Where nothing is an enclave's nobody needs to know what that is.
    if regions.iter().any(|region| region.enclave.is_some()) {
        columns.push(("ENCLAVE", Align::Left));
    }
    let mut table = Table::new(&columns);
    let is_of_group =
        |region: &&Summary| groups.iter().any(|group| group.regions.iter().any(|rank| rank.name == region.name));
    let single = regions.iter().filter(|region| !is_of_group(region)).map(|region| row(region, now_ns));
    let mut rows: Vec<Vec<String>> = groups.iter().map(|group| group.row(now_ns)).chain(single).collect();
    rows.sort();
    rows.into_iter().for_each(|row| table.push(row));
    table.write(out)?;
    for group in groups {
        let name = sanitize(&group.name);
        if with_ranks {
            writeln!(out, "\n{name}")?;
            group.write_ranks(now_ns, out)?;
        }
        for note in group.notes().into_iter().chain(aside_note(&group.name)) {
            writeln!(out, "{name}: {note}")?;
        }
    }
    for region in regions.iter().filter(|region| !is_of_group(region)) {
        if let Some(note) = aside_note(&region.name) {
            writeln!(out, "{}: {note}", sanitize(&region.name))?;
        }
    }
    for region in regions {
        if let Some(note) = region.want.note(now_ns) {
            writeln!(out, "{}: {note}", sanitize(&region.name))?;
        }
        if let Some(reason) = &region.reason {
            writeln!(out, "{}: {}", sanitize(&region.name), sanitize(reason))?;
        }
    }
    Ok(())
}

/// What is said of what was set aside.
fn aside_note(name: &str) -> Option<String> {
    let former = sanitize(&inspect::aside_of(name)?);
    Some(format!("left by a run of {former} that did not end by itself, and set aside until one does"))
}

fn row(region: &Summary, now_ns: u64) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    vec![
        sanitize(&region.name),
        region.state_of_producer().into(),
        or_dash(region.newest.map(|version| version.to_string())),
        region.versions.to_string(),
        units::format_bytes(region.memory_bytes),
        or_dash(region.rate_hz.map(units::format_rate)),
        or_dash(region.producer_pid.map(|pid| pid.to_string())),
        or_dash(region.age_ms(now_ns).map(|age_ms| units::format_ms(age_ms as f64))),
        region.enclave.as_ref().map_or_else(String::new, EnclaveSummary::describe),
    ]
}
