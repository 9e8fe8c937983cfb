//! `still demo`: a simulation, and two programs that look at it while it runs.
//!
//! The simulation publishes every step. One observer computes statistics of every version, the other one draws pictures
//! of as many versions as it can. All three are processes of this executable and have nothing to do with each other but
//! for the region's name.

mod comparison;
mod dashboard;
mod palette;
mod picture;
mod reaction;
mod scene;
mod statistics;
mod summary;
mod viewer;

use crate::trial::{Error, Result};
use std::path::PathBuf;

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
enum Length {
    Seconds(f64),
    Steps(u64),
}

/// What the arguments come to.
struct Plan {
    cells: usize,
    length: Length,
    out: PathBuf,
    view: bool,
    json: bool,
    /// Threads of the simulation. One processor is left to the observers.
    threads: usize,
}

impl Plan {
    fn new(args: Args) -> Result<Plan> {
        let cells = args.cells.unwrap_or(if args.quick { 64 } else { 128 });
        if !(16..=1024).contains(&cells) || !cells.is_multiple_of(reaction::BLOCK_ROWS) {
            return Err(Error::Usage(format!("--cells {cells}: use a multiple of 8 between 16 and 1024")));
        }
        let seconds = args.seconds.unwrap_or(if args.quick { 4.0 } else { 24.0 });
        if !(seconds > 0.0 && seconds < 1e6) || args.steps == Some(0) {
            return Err(Error::Usage("the demonstration has to run for some time".into()));
        }
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get());
        let length = args.steps.map_or(Length::Seconds(seconds), Length::Steps);
        let threads = (processors - 1).clamp(1, cells / reaction::BLOCK_ROWS);
        Ok(Plan { cells, length, out: args.out, view: !args.no_view, json: args.json, threads })
    }
}

/// Runs the demonstration.
pub fn run(args: Args) -> Result<()> {
    scene::run(&Plan::new(args)?)
}

/// The part of the demonstration that a child process plays.
#[derive(clap::Subcommand, Debug, Clone)]
pub enum Role {
    /// Computes statistics of every version
    Statistics(ObserverArgs),
    /// Draws pictures of versions
    Viewer(ObserverArgs),
}

/// What an observer needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct ObserverArgs {
    /// Where to write
    out: PathBuf,
}

/// Name of the hidden subcommand that takes a [`Role`].
pub const CHILD_COMMAND: &str = "demo-child";

/// Plays a child's part until the last version has come.
pub fn play(role: Role) -> Result<()> {
    match role {
        Role::Statistics(args) => statistics::play(&args.out),
        Role::Viewer(args) => viewer::play(&args.out),
    }
}
