//! `still verify`: whether a region's or a checkpoint's files are what they should be.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure, PROBLEM};
use crate::progress::Progress;
use crate::store::{self, Target};
use crate::table::sanitize;
use crate::units::{self, parse_version};
use serde_json::json;
use std::path::{Path, PathBuf};
use stillframe::inspect;
use stillframe_checkpoint::{Damage, Entry};

/// Check the files of a region, or of the checkpoints in a directory
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still verify heat                   a region in memory
  still verify ./ckpt                 all checkpoints of a directory
  still verify ./ckpt --version 120
  still verify ./copy.zarr            one checkpoint, or a copy of one

What begins with '.' or '/' is a directory, and so is what no region is called.

Of a region it reads what describes it and checks that every part of that fits every other. It may
run beside a producer that publishes. A finding is one line: file, offset in bytes, what was
expected and what was found.

Of checkpoints it reads every file and compares it with its checksum. It may run beside the one
that writes them. A finding is one line: the file, the chunk with its variable and rank, and
whether it is missing, cut off, too long, changed, or none of the checkpoint's. Without
Stillframe, `xxhsum -c checksums.xxh128` does as much.

With --json, of a region: {\"region\", \"findings\": [{\"file\", \"offset\", \"expected\", \"found\"}]}; of
checkpoints: {\"store\", \"checkpoints\": [{\"version\", \"path\", \"error\", \"findings\": [{\"path\",
\"variable\", \"rank\", \"chunk\", \"fault\"}]}]}, where \"error\" says what is wrong with the manifest.

Exit codes: 0 when all is healthy, 1 when something was found or there are no checkpoints.")]
pub struct Args {
    /// The region or group, or the directory of checkpoints, or one of them
    #[arg(value_name = "REGION|DIR")]
    target: String,
    /// Of checkpoints: only the one of this version
    #[arg(long, value_name = "V", value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Of checkpoints: threads that read
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks a region or checkpoints.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    match store::find(context, &args.target) {
        Target::Path(path) => verify_checkpoints(context, args, &path),
        Target::Region(_) if args.version.is_some() => {
            Err(Failure::Misuse(format!("'{}' is no directory of checkpoints, which have versions", args.target)))
        }
        Target::Region(region) => match verify_region(context, args, &region) {
            Err(Failure::Engine(stillframe::Error::NoRegion { region, dir })) => Err(Failure::Problem(format!(
                "there is no region or group '{region}' in {}, and no directory of checkpoints of that name: see `still ls`",
                dir.display()
            ))),
            other => other,
        },
    }
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

fn verify_region(context: &mut Context, args: &Args, region: &str) -> Verdict {
    let findings = match inspect::verify(&context.dir, region) {
        Err(stillframe::Error::IsGroup { .. }) => verify_ranks(context, region)?,
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
        context.write_json(&json!({ "region": region, "findings": findings }))?;
        return Ok(verdict);
    }
    let name = sanitize(region);
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

/// What was found of one checkpoint.
struct Finding {
    version: u64,
    path: PathBuf,
    damages: Result<Vec<Damage>, stillframe_checkpoint::Error>,
}

impl Finding {
    fn is_healthy(&self) -> bool {
        self.damages.as_ref().is_ok_and(Vec::is_empty)
    }
}

fn verify_checkpoints(context: &mut Context, args: &Args, store: &Path) -> Verdict {
    let mut findings = Vec::new();
    let (mut known, mut is_any_gone) = (Vec::new(), false);
    for Entry { version, path, checkpoint } in store::entries(store)? {
        known.push(version);
        if args.version.is_some_and(|wanted| wanted != version) {
            continue;
        }
        let progress = Progress::new("checking");
        let damages = checkpoint.and_then(|checkpoint| {
            let show = |reading: stillframe_checkpoint::Reading| {
                progress.show(format_args!("version {}", reading.version), reading.bytes_done, reading.bytes);
            };
            checkpoint.verify(args.threads.into(), &show)
        });
        drop(progress);
        let finding = Finding { version, path, damages };
        // What is deleted meanwhile, because newer ones are there, is not damaged.
        if !finding.is_healthy() && std::fs::symlink_metadata(&finding.path).is_err() {
            is_any_gone = true;
            continue;
        }
        if !args.json {
            tell(context, &finding)?;
            context.out.flush()?;
        }
        findings.push(finding);
    }
    if findings.is_empty() && is_any_gone {
        return verify_checkpoints(context, args, store);
    }
    if let Some(version) = args.version.filter(|version| !known.contains(version)) {
        return Err(stillframe_checkpoint::Error::NoSuchVersion { dir: store.into(), version, known }.into());
    }
    let verdict = if findings.is_empty() || !findings.iter().all(Finding::is_healthy) { PROBLEM } else { FINE };
    if args.json {
        let checkpoints: Vec<_> = findings.iter().map(describe).collect();
        context.write_json(&json!({ "store": store, "checkpoints": checkpoints }))?;
    } else if findings.is_empty() {
        writeln!(context.out, "no checkpoints in {}", store.display())?;
    }
    Ok(verdict)
}

fn tell(context: &mut Context, finding: &Finding) -> Result<(), Failure> {
    let Finding { version, path, damages } = finding;
    match damages {
        Ok(damages) if damages.is_empty() => writeln!(context.out, "version {version} is healthy")?,
        Ok(damages) => {
            for damage in damages {
                writeln!(context.out, "{}", sanitize(&format!("{}/{damage}", path.display())))?;
            }
            writeln!(context.out, "{} in version {version}", units::count(damages.len(), "finding"))?;
        }
        Err(error) => writeln!(context.out, "version {version}: {}", sanitize(&error.finding()))?,
    }
    Ok(())
}

fn describe(finding: &Finding) -> serde_json::Value {
    let (damages, error) = (finding.damages.as_deref().unwrap_or_default(), finding.damages.as_ref().err());
    let findings: Vec<_> = damages
        .iter()
        .map(|damage| {
            json!({
                "path": damage.path, "variable": damage.variable, "rank": damage.rank, "chunk": damage.chunk,
                "fault": damage.fault.to_string(),
            })
        })
        .collect();
    json!({
        "version": finding.version, "path": finding.path, "error": error.map(stillframe_checkpoint::Error::finding), "findings": findings,
    })
}
