//! Figure 1 of "Checkpointing with cp: the POSIX Shared Memory System" (Garrison, Eisenstein, Maksimova), for whole time
//! steps: each is an executable of its own that maps the state of the last one, writes the next one, and ends.
//!
//! `docs/benchmarks.md` says what is compared with what.
#![deny(unsafe_code)]

mod files;
mod region;
mod sweep;
mod usage;

use clap::{Parser, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How a state gets from one step to the next.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Means {
    /// A file for each state; the old one is unlinked when it is no longer mapped
    Linked,
    /// A file for each state; the old one is unlinked while it is still mapped
    Unlinked,
    /// Two files that take turns, and are never unlinked
    Turns,
    /// A loaned variable, in pages of 4 KiB
    Stillframe,
    /// The same, with one thread
    StillframeOneThread,
    /// A loaned variable, in large pages where the kernel has them
    StillframeLarge,
}

const ALL: [Means; 6] = [
    Means::Linked,
    Means::Unlinked,
    Means::Turns,
    Means::Stillframe,
    Means::StillframeOneThread,
    Means::StillframeLarge,
];

impl Means {
    fn name(self) -> &'static str {
        match self {
            Means::Linked => "mmap, linked",
            Means::Unlinked => "mmap, unlinked",
            Means::Turns => "mmap, two files in turns",
            Means::Stillframe => "stillframe, 4 KiB pages",
            Means::StillframeOneThread => "the same with one thread",
            Means::StillframeLarge => "stillframe, large pages",
        }
    }

    fn is_ours(self) -> bool {
        matches!(self, Means::Stillframe | Means::StillframeOneThread | Means::StillframeLarge)
    }
}

/// What it costs per time step to take over and to leave a state in shared memory, one executable per step
#[derive(Parser, Debug)]
struct Args {
    /// Sizes of the state in MiB [default: 1024,2048,4096,8192, or 64 with --quick]
    #[arg(long, value_delimiter = ',', value_name = "MIB")]
    sizes: Vec<usize>,
    /// Measured steps of each block [default: 5, or 2 with --quick]
    #[arg(long)]
    steps: Option<usize>,
    /// Blocks of each means; those of all means take turns [default: 3, or 1 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Small and short: does everything work?
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
    /// Directory on a tmpfs for the states; it takes twice the size
    #[arg(long, default_value = "/dev/shm")]
    dir: PathBuf,
    #[command(flatten)]
    step: StepArgs,
}

/// What one step is told.
#[derive(clap::Args, Debug)]
struct StepArgs {
    /// Be the executable of one step
    #[arg(long, hide = true, value_enum)]
    means: Option<Means>,
    #[arg(long, hide = true, default_value_t = 0)]
    bytes: usize,
    /// The step; 0 makes the first state.
    #[arg(long, hide = true, default_value_t = 0)]
    number: u64,
}

/// What a step says of itself, in milliseconds.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Told {
    /// The computation on memory that is mapped and was touched.
    compute: f64,
    /// The same in processor time.
    compute_cpu: f64,
    /// What else took time, by name.
    parts: BTreeMap<String, f64>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.step.means {
        Some(means) => step(&args, means),
        None => measure(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("abacus-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn step(args: &Args, means: Means) -> Result<()> {
    let (dir, bytes, number) = (&args.dir, args.step.bytes, args.step.number);
    let told = match means {
        Means::Stillframe => region::step(dir, bytes, number, None, false)?,
        Means::StillframeOneThread => region::step(dir, bytes, number, Some(1), false)?,
        Means::StillframeLarge => region::step(dir, bytes, number, None, true)?,
        Means::Linked | Means::Unlinked | Means::Turns => files::step(dir, bytes, number, means)?,
    };
    // The rest of the step is the process's end, which takes its memory down.
    let mut out = std::io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(&told)?)?;
    Ok(out.flush()?)
}

/// What a step costs beside computing.
#[derive(Debug, Clone)]
struct Cost {
    cost: f64,
    /// The same in processor time.
    cpu: f64,
    told: Told,
}

/// A directory that goes with its states.
struct Scene(PathBuf);

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One block: a state is made, some steps let memory settle, the others are measured.
fn block(dir: &Path, means: Means, bytes: usize, steps: usize) -> Result<Vec<Cost>> {
    // By then both states of the region have their memory, and in large pages where there are any.
    const SETTLING: u64 = 4;
    let scene = Scene(dir.join(format!("abacus-bench-{}", std::process::id())));
    std::fs::create_dir_all(&scene.0)?;
    let mut costs = Vec::new();
    for number in 0..SETTLING + steps as u64 {
        let (begin, used) = (Instant::now(), usage::children_ms());
        let name = means.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default();
        let child = Command::new(std::env::current_exe()?)
            .arg("--dir")
            .arg(&scene.0)
            .args(["--means", &name, "--bytes", &bytes.to_string(), "--number", &number.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.wait_with_output()?;
        let whole = begin.elapsed().as_secs_f64() * 1e3;
        if !output.status.success() {
            return Err(format!("step {number} of {} failed: {}", means.name(), output.status).into());
        }
        let told: Told = serde_json::from_slice(&output.stdout)?;
        // A step computes twice, first on memory that is new to it and then on what is mapped.
        let cost = whole - 2.0 * told.compute;
        let cpu = usage::children_ms() - used - 2.0 * told.compute_cpu;
        if number >= SETTLING {
            costs.push(Cost { cost, cpu, told });
        }
    }
    Ok(costs)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count => (values[count / 2] + values[(count - 1) / 2]) / 2.0,
    }
}

fn measure(args: &Args) -> Result<()> {
    let sizes = match &args.sizes[..] {
        [] if args.quick => vec![64],
        [] => vec![1024, 2048, 4096, 8192],
        sizes => sizes.to_vec(),
    };
    let steps = args.steps.unwrap_or(if args.quick { 2 } else { 5 });
    let rounds = args.rounds.unwrap_or(if args.quick { 1 } else { 3 });
    for (index, mib) in sizes.into_iter().enumerate() {
        let bytes = mib << 20;
        let mut found: BTreeMap<Means, Vec<Vec<Cost>>> = BTreeMap::new();
        for round in 0..rounds {
            let mut order = ALL;
            // Who comes first in a round comes last in the next.
            if round % 2 == 1 {
                order.reverse();
            }
            for means in order {
                found.entry(means).or_default().push(block(&args.dir, means, bytes, steps)?);
            }
        }
        if !args.json && index == 0 {
            println!(
                "{:>6}  {:<26} {:>9} {:>9} {:>12} {:>12}  parts in ms",
                "MiB", "means", "ms", "cpu ms", "/ linked", "/ unlinked"
            );
        }
        for means in ALL {
            report(args.json, mib, means, &found)?;
        }
    }
    Ok(())
}

fn block_medians(blocks: &[Vec<Cost>]) -> Vec<f64> {
    blocks.iter().map(|block| median(block.iter().map(|cost| cost.cost).collect())).collect()
}

fn report(json: bool, mib: usize, means: Means, found: &BTreeMap<Means, Vec<Vec<Cost>>>) -> Result<()> {
    let blocks = &found[&means];
    let own = block_medians(blocks);
    // Of two blocks of a round, which lie side by side in time.
    let ratio = |yardstick: Means| {
        let theirs = block_medians(&found[&yardstick]);
        median(std::iter::zip(&own, &theirs).map(|(own, theirs)| own / theirs).collect())
    };
    let all: Vec<&Cost> = blocks.iter().flatten().collect();
    let value = median(all.iter().map(|cost| cost.cost).collect());
    let cpu = median(all.iter().map(|cost| cost.cpu).collect());
    let compute = median(all.iter().map(|cost| cost.told.compute).collect());
    let names: Vec<&String> = all.first().map(|cost| cost.told.parts.keys().collect()).unwrap_or_default();
    let part = |name: &str| median(all.iter().map(|cost| cost.told.parts.get(name).copied().unwrap_or(0.0)).collect());
    let parts: BTreeMap<&String, f64> = names.iter().map(|name| (*name, part(name))).collect();
    let (linked, unlinked) = (ratio(Means::Linked), ratio(Means::Unlinked));
    let yardstick = median(block_medians(&found[&Means::Unlinked]));
    if json {
        let round = |value: f64| -> f64 { format!("{value:.5e}").parse().unwrap_or(value) };
        let parts: BTreeMap<_, _> = parts.into_iter().map(|(name, ms)| (name, round(ms))).collect();
        let row = json!({
            "bench": "abacus", "case": { "mib": mib, "means": means, "ours": means.is_ours() },
            "value": round(value), "unit": "ms", "baseline": round(yardstick), "ratio": round(unlinked),
            "detail": { "ratio_to_linked": round(linked), "cpu_ms": round(cpu), "compute_ms": round(compute),
                "parts_ms": parts,
                "blocks_ms": own.iter().map(|ms| round(*ms)).collect::<Vec<_>>() },
        });
        println!("{row}");
    } else {
        let parts: Vec<String> = parts.iter().map(|(name, ms)| format!("{name} {ms:.1}")).collect();
        let (name, parts) = (means.name(), parts.join(", "));
        println!("{mib:>6}  {name:<26} {value:>9.1} {cpu:>9.1} {linked:>12.3} {unlinked:>12.3}  {parts}");
    }
    Ok(std::io::stdout().flush()?)
}
