//! The micro-benchmarks of the TCASM paper on this machine: Table 3, Figure 7a, Figure 7b and Figure 8.
//!
//! Each is measured in two ways: `native`, an array of the program published through the Rust interface, and `msync`, a
//! private mapping published by the paper's calls through the preloaded library. What is compared takes turns in one run,
//! and the numbers are medians.
#![deny(unsafe_code)]

mod compose;
mod memory;
mod micro;
mod publisher;
mod report;

use clap::Parser;
use report::Report;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Anything that ends a benchmark.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The micro-benchmarks of the TCASM paper, with the paper's numbers beside
///
/// The paper's machine for Table 3 and Figure 7 was an AMD Opteron 6272 with a changed Linux 3.7, for Figure 8 an Intel
/// Haswell. Compare ratios rather than times.
#[derive(Debug, Parser)]
#[command(after_help = "\
Examples:
  tcasm-bench                          everything, as in the paper; takes some minutes and 8 GiB of memory
  tcasm-bench --quick                  see that everything runs
  tcasm-bench figure7b --threads 4     copying with four threads, where memcpy has one
  tcasm-bench --json > results.jsonl")]
struct Cli {
    /// What to measure: table3, figure7a, figure7b, figure8 [default: all]
    #[arg(value_parser = ["table3", "figure7a", "figure7b", "figure8"])]
    benches: Vec<String>,
    /// Bytes of the largest buffer in MiB; the paper has 1024
    #[arg(long, default_value_t = 1024, value_name = "MIB", value_parser = clap::value_parser!(u64).range(4..=1 << 20))]
    size: u64,
    /// Threads that copy at a publish in Table 3 and Figure 7; the paper's kernel has one
    #[arg(long, default_value_t = 1, value_name = "COUNT")]
    threads: usize,
    /// Little of everything, to see that it runs
    #[arg(long)]
    quick: bool,
    /// One JSON object per line
    #[arg(long)]
    json: bool,
    /// Directory for the file of Figure 8
    #[arg(long, value_name = "DIR", default_value_os_t = std::env::temp_dir())]
    files: PathBuf,
    /// The part of the observer's process in Figure 8
    #[arg(long, hide = true, num_args = 4)]
    observe: Vec<String>,
}

/// What all benchmarks need to know.
pub struct Setting {
    /// Bytes of the largest buffer.
    pub bytes: usize,
    /// Whether to measure little.
    pub quick: bool,
    /// Directory for files that are not memory.
    pub files: PathBuf,
}

impl Setting {
    /// How often to measure what is measured `count` times in full.
    pub fn repetitions(&self, count: usize) -> usize {
        if self.quick { count.min(3) } else { count }
    }

    /// A name for shared memory of this run.
    pub fn name(&self, what: &str) -> String {
        format!("/tcasm-bench-{}-{what}", std::process::id())
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("tcasm-bench: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Says that this process runs with the library.
const PRELOADED: &str = "STILLFRAME_TCASM_BENCH";

fn run(cli: Cli) -> Result<(), Failure> {
    if !cli.observe.is_empty() {
        return compose::observe(cli.files, &cli.observe);
    }
    if std::env::var_os(PRELOADED).is_none() {
        return preload();
    }
    let size = if cli.quick { cli.size.min(16) } else { cli.size };
    let setting = Setting { bytes: (size as usize) << 20, quick: cli.quick, files: cli.files };
    let report = Report { json: cli.json };
    let wanted = |bench: &str| cli.benches.is_empty() || cli.benches.iter().any(|wanted| wanted == bench);
    let result = measure(&setting, &report, &wanted, cli.threads);
    // The directory was made for this run.
    let _ = std::fs::remove_dir_all(stillframe::inspect::root());
    result
}

fn measure(setting: &Setting, report: &Report, wanted: &dyn Fn(&str) -> bool, threads: usize) -> Result<(), Failure> {
    if wanted("figure8") {
        compose::figure8(setting, report)?;
    }
    memory::use_processors(threads.max(1));
    if wanted("table3") {
        micro::table3(setting, report)?;
    }
    if wanted("figure7a") {
        micro::figure7a(setting, report)?;
    }
    if wanted("figure7b") {
        micro::figure7b(setting, report)?;
    }
    Ok(())
}

/// Starts this program anew with the library, by the `still` that lies beside it.
fn preload() -> Result<(), Failure> {
    let own = std::env::current_exe()?;
    let still = own.parent().unwrap_or(Path::new("/")).join("still");
    if !still.exists() {
        return Err(
            format!("{} is missing: cargo build --release -p still -p stillframe-tcasm", still.display()).into()
        );
    }
    let dir = format!("/dev/shm/stillframe-tcasm-bench-{}", std::process::id());
    let mut command = Command::new(still);
    command.args(["--dir", &dir, "run", "--tcasm", "--"]).arg(own).args(std::env::args_os().skip(1));
    Err(command.env(PRELOADED, "1").exec().into())
}
