//! `still verify`: whether a region's files are what they should be.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, PROBLEM};
use crate::table::sanitize;
use crate::units;
use serde_json::json;
use stillframe::inspect;

/// Check a region's files; findings are named by file and offset
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Example:
  still verify heat

Reads what describes the region and checks that every part of it fits every other. It may run
beside a producer that publishes. A finding is one line: file, offset in bytes, what was
expected and what was found.

With --json: {\"region\", \"findings\": [{\"file\", \"offset\", \"expected\", \"found\"}]}.

Exit codes: 0 when the region is healthy, 1 when something was found.")]
pub struct Args {
    /// The region
    region: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks the region.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let findings = inspect::verify(&context.dir, &args.region)?;
    let verdict = if findings.is_empty() { FINE } else { PROBLEM };
    if args.json {
        let findings: Vec<_> = findings
            .iter()
            .map(|finding| {
                json!({ "file": finding.file, "offset": finding.offset, "expected": finding.expected, "found": finding.found })
            })
            .collect();
        context.write_json(&json!({ "region": args.region, "findings": findings }))?;
        return Ok(verdict);
    }
    let name = sanitize(&args.region);
    for finding in &findings {
        writeln!(
            context.out,
            "{name}/{}, offset {}: expected {}, found {}",
            sanitize(&finding.file),
            finding.offset,
            sanitize(&finding.expected),
            sanitize(&finding.found)
        )?;
    }
    match findings.len() {
        0 => writeln!(context.out, "{name} is healthy")?,
        number => writeln!(context.out, "{} in {name}", units::count(number, "finding"))?,
    }
    Ok(verdict)
}
