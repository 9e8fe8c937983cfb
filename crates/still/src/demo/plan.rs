//! What is asked of the demonstration.

use super::reaction::BLOCK_ROWS;
use crate::trial::{Error, Result};
use std::path::PathBuf;

/// Name of the hidden subcommand that takes a [`Role`](super::Role).
pub const CHILD_COMMAND: &str = "demo-child";

/// Run a simulation that publishes, and two observers that look at it
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Cells along each edge of the simulated cube, a multiple of 8 [default: 128, or 64 with --quick]
    #[arg(long)]
    cells: Option<usize>,
    /// How long to run [default: 24, or 4 with --quick]
    #[arg(long, conflicts_with = "steps")]
    seconds: Option<f64>,
    /// How many steps to run, instead of a time
    #[arg(long)]
    steps: Option<u64>,
    /// Where pictures and statistics go
    #[arg(long, value_name = "DIR", default_value = "still-demo")]
    out: PathBuf,
    /// Start no viewer: no pictures and no dashboard
    #[arg(long)]
    no_view: bool,
    /// Simulate a small cube for a short time
    #[arg(long)]
    quick: bool,
    /// Print nothing but a summary in JSON
    #[arg(long)]
    json: bool,
}

/// How long the simulation runs.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    Seconds(f64),
    Steps(u64),
}

/// What the arguments come to.
pub struct Plan {
    pub cells: usize,
    pub length: Length,
    pub out: PathBuf,
    pub view: bool,
    pub json: bool,
    /// Threads of the simulation. One processor is left to the observers.
    pub threads: usize,
}

impl Plan {
    /// Checks the arguments, and chooses what they leave open.
    pub fn new(args: Args) -> Result<Plan> {
        let cells = args.cells.unwrap_or(if args.quick { 64 } else { 128 });
        if !(16..=1024).contains(&cells) || !cells.is_multiple_of(BLOCK_ROWS) {
            return Err(Error::Usage(format!("--cells {cells}: use a multiple of 8 between 16 and 1024")));
        }
        let seconds = args.seconds.unwrap_or(if args.quick { 4.0 } else { 24.0 });
        if !(seconds > 0.0 && seconds < 1e6) || args.steps == Some(0) {
            return Err(Error::Usage("the demonstration has to run for some time".into()));
        }
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let length = args.steps.map_or(Length::Seconds(seconds), Length::Steps);
        let threads = (processors - 1).clamp(1, cells / BLOCK_ROWS);
        Ok(Plan { cells, length, out: args.out, view: !args.no_view, json: args.json, threads })
    }
}
