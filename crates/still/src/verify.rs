//! `still verify`: whether a region's files are what they should be.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
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
    /// The region or group
    region: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks all ranks of a group; findings name files by their rank.
fn verify_ranks(context: &Context, group: &str) -> Result<Vec<stillframe::Corrupt>, Failure> {
    let mut findings = Vec::new();
    for rank in inspect::group(&context.dir, group)?.map(|group| group.regions).unwrap_or_default() {
        let number = rank.rank.map_or(0, |(rank, _)| rank);
        let found = inspect::verify(&context.dir, &rank.name)?.into_iter();
        findings.extend(found.map(|corrupt| {
            let file = format!("{number}/{}", corrupt.file);
            stillframe::Corrupt { file, ..corrupt }
        }));
    }
    Ok(findings)
}

/// Checks the region.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let findings = match inspect::verify(&context.dir, &args.region) {
        Err(stillframe::Error::IsGroup { .. }) => verify_ranks(context, &args.region)?,
        other => other?,
    };
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
