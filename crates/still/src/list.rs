//! `still ls`: the regions of a directory.

use crate::context::{Context, Verdict};
use crate::failure::FINE;
use crate::region::Summary;
use crate::table::{Align, Table, sanitize};
use crate::units;
use stillframe::inspect;

/// List the regions: who is alive, what is newest, how much memory it takes
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still ls
  still ls --json | jq -r '.regions[] | select(.state == \"dead\") | .name'

States:
  live        the producer runs
  dead        the producer is gone; its last version can still be read, and the next
              producer of that name goes on from it. `still rm` or `still gc` removes it
  incomplete  its creation was never finished
  unreadable  the files are not a region of this build; the reason follows

MEMORY is what stands behind the region's files. RATE is measured over the versions that are
there, so it needs a producer that keeps more than one. AGE is the time since the last publish.

With --json: {\"dir\", \"regions\": [{\"name\", \"path\", \"state\", \"reason\", \"newest\", \"versions\",
\"published_ns\", \"created_ns\", \"rate_hz\", \"memory_bytes\", \"plane_bytes\", \"working_bytes\",
\"bound_bytes\", \"producer_pid\", \"tracker\", \"keep\", \"published\", \"skipped\"}]}; what is not known is null.

Exit codes: 0 also when there are no regions, 1 when the directory cannot be read.")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Lists the regions.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let now_ns = units::now_ns();
    let mut regions = Vec::new();
    for info in inspect::regions(&context.dir)? {
        regions.push(Summary::new(info, now_ns));
    }
    if args.json {
        context.write_json(&serde_json::json!({ "dir": context.dir, "regions": regions }))?;
        return Ok(FINE);
    }
    if regions.is_empty() {
        let dir = context.dir.display().to_string();
        return context.finish(&format!("no regions in {dir}; another directory is named by --dir or STILLFRAME_DIR"));
    }
    let mut table = Table::new(&[
        ("REGION", Align::Left),
        ("STATE", Align::Left),
        ("NEWEST", Align::Right),
        ("VERSIONS", Align::Right),
        ("MEMORY", Align::Right),
        ("RATE", Align::Right),
        ("PRODUCER", Align::Right),
        ("AGE", Align::Right),
    ]);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    for region in &regions {
        table.push(vec![
            sanitize(&region.name),
            region.state.into(),
            or_dash(region.newest.map(|version| version.to_string())),
            region.versions.to_string(),
            units::format_bytes(region.memory_bytes),
            or_dash(region.rate_hz.map(units::format_rate)),
            or_dash(region.producer_pid.map(|pid| pid.to_string())),
            or_dash(region.age_ms(now_ns).map(|age_ms| units::format_ms(age_ms as f64))),
        ]);
    }
    table.write(context.out)?;
    for region in &regions {
        if let Some(reason) = &region.reason {
            writeln!(context.out, "{}: {}", sanitize(&region.name), sanitize(reason))?;
        }
    }
    Ok(FINE)
}
