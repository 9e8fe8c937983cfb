//! The executor of drepl beside loops written by hand, in turns.
//!
//! `docs/benchmarks.md` says what is compared with what.
#![deny(unsafe_code)]

mod kinds;
mod loops;
mod repartition;
mod system;

use std::{io::Write, process::ExitCode};

use clap::{Parser, ValueEnum, builder::RangedU64ValueParser};
use drepl::executor::Executor;
use serde_json::{Value, json};

use kinds::Kind;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What moving data from one layout to another costs, beside loops written by hand and memcpy
#[derive(Parser, Debug)]
struct Args {
    /// Sizes of the larger side in KiB [default: 64,1024,16384,262144, or 64,1024 with --quick]
    #[arg(long, value_delimiter = ',', value_name = "KIB", value_parser = RangedU64ValueParser::<usize>::new().range(1..=1 << 24))]
    sizes: Vec<usize>,
    /// Kinds to measure [default: all]
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<Kind>,
    /// Turns; in each, every contender runs once or for a millisecond [default: 25, or 3 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Threads of the executor
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// Edge in cells of the array that is repartitioned, 0 for none [default: 512, or 96 with --quick]
    #[arg(long, value_name = "CELLS")]
    repartition: Option<usize>,
    /// Small and short: does everything work?
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match measure(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("drepl-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<()> {
    let pick = |quick: &[usize], full: &[usize]| if args.quick { quick.to_vec() } else { full.to_vec() };
    let sizes = if args.sizes.is_empty() { pick(&[64, 1024], &[64, 1024, 16384, 262_144]) } else { args.sizes.clone() };
    let kinds = if args.kinds.is_empty() { Kind::value_variants().to_vec() } else { args.kinds.clone() };
    let rounds = args.rounds.unwrap_or(pick(&[3], &[25])[0]);
    let executor = Executor::new(args.threads);
    if !args.json {
        println!("{:20} {:>9} {:>10} {:>10} {:>10}   ratio (of 80 % of the turns)", "", "KiB", "ours", "C", "Rust");
    }
    for kind in kinds {
        for kib in &sizes {
            let times = beside_loops(&executor, kind, kib << 10, rounds)?;
            report(args, &row(kind, *kib, &times))?;
        }
    }
    let edge = args.repartition.unwrap_or(pick(&[96], &[512])[0]);
    if edge > 0 {
        report(args, &repartition::measure(&executor, edge, rounds.min(11))?)?;
    }
    Ok(())
}

/// Arrays of a kind. Every page of them is there before it is measured.
struct Arrays {
    from: Vec<f64>,
    to: Vec<f64>,
}

impl Arrays {
    fn new(kind: Kind, n: usize) -> Arrays {
        let (from_bytes, to_bytes) = kind.bytes(n);
        let from = system::array(from_bytes.div_ceil(8), |at| at as f64);
        Arrays { from, to: system::array(to_bytes.div_ceil(8), |_| -1.0) }
    }
}

/// Seconds of one execution, each as often as turns were made: ours, C, Rust.
fn beside_loops(executor: &Executor, kind: Kind, bytes: usize, rounds: usize) -> Result<[Vec<f64>; 3]> {
    let n = kind.extent(bytes);
    let transfer = kind.transfer(n);
    let mut arrays = Arrays::new(kind, n);
    let Arrays { from, to } = &mut arrays;
    // A way that does something else is not measured.
    loops::in_c(kind, n, from, to);
    let expected = to.clone();
    for way in 0..2 {
        to.fill(-1.0);
        match way {
            0 => loops::in_rust(kind, n, from, to),
            _ => executor.run(&transfer, loops::bytes(from), loops::bytes_mut(to))?,
        }
        if loops::bytes(to) != loops::bytes(&expected) {
            return Err(format!("{} of {bytes} bytes: not what the loop in C made", kind.name()).into());
        }
    }
    let mut times: [Vec<f64>; 3] = Default::default();
    for round in 0..rounds {
        // Each begins as often as the others, so that none always finds what the same one left.
        for turn in 0..3 {
            let way = (turn + round) % 3;
            let seconds = match way {
                0 => batch(|| executor.run(&transfer, loops::bytes(from), loops::bytes_mut(to)).is_ok()),
                1 => batch(|| {
                    loops::in_c(kind, n, from, to);
                    true
                }),
                _ => batch(|| {
                    loops::in_rust(kind, n, from, to);
                    true
                }),
            };
            times[way].push(seconds.ok_or("the executor failed")?);
        }
    }
    Ok(times)
}

/// Seconds of one execution: of one after a first, or the mean of as many as take a millisecond.
fn batch(mut execute: impl FnMut() -> bool) -> Option<f64> {
    if !execute() {
        return None;
    }
    let begin = system::seconds();
    let mut count = 0;
    loop {
        if !execute() {
            return None;
        }
        count += 1;
        let seconds = system::seconds() - begin;
        if seconds > 1e-3 {
            return Some(seconds / f64::from(count));
        }
    }
}

/// Ours over the faster of two, turn by turn.
fn row(kind: Kind, kib: usize, [ours, c, rust]: &[Vec<f64>; 3]) -> Value {
    // The hand-written loop is the one that is faster in most turns.
    let baseline = if median(c) <= median(rust) { c } else { rust };
    let ratios: Vec<f64> = ours.iter().zip(baseline).map(|(ours, loops)| ours / loops).collect();
    let transfer_bytes = kind.transfer(kind.extent(kib << 10)).moved_bytes();
    json!({
        "bench": "executor",
        "case": { "kind": kind.name(), "kib": kib },
        "value": median(ours) * 1e6,
        "unit": "us",
        "baseline": median(baseline) * 1e6,
        "ratio": median(&ratios),
        "detail": {
            "ratio_low": quantile(&ratios, 0.1),
            "ratio_high": quantile(&ratios, 0.9),
            "c_us": median(c) * 1e6,
            "rust_us": median(rust) * 1e6,
            "bytes": transfer_bytes,
            "rounds": ours.len(),
        },
    })
}

fn report(args: &Args, row: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{row}")?);
    }
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let detail = &row["detail"];
    let name = row["case"]["kind"].as_str().unwrap_or_default();
    writeln!(
        out,
        "{:20} {:>9} {:>10.1} {:>10.1} {:>10.1}   {:.2} ({:.2} to {:.2})",
        name,
        row["case"]["kib"],
        number(&row["value"]),
        number(detail.get("c_us").unwrap_or(&row["baseline"])),
        number(detail.get("rust_us").unwrap_or(&row["baseline"])),
        number(&row["ratio"]),
        number(&detail["ratio_low"]),
        number(&detail["ratio_high"]),
    )?;
    Ok(())
}

fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}
