//! `still demo`: a simulation, and two programs that look at it while it runs.
//!
//! The simulation publishes every step. One observer computes statistics of every version, the other one draws pictures
//! of as many versions as it can. All three are processes of this executable and have nothing to do with each other but
//! for the region's name.

mod comparison;
mod dashboard;
mod palette;
mod picture;
mod plan;
mod progress;
mod reaction;
mod scene;
mod simulation;
mod statistics;
mod summary;
mod viewer;

pub use plan::Args;

use crate::trial::Result;
use plan::Plan;
use std::path::PathBuf;

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

/// Plays a child's part until the last version has come.
pub fn play(role: Role) -> Result<()> {
    match role {
        Role::Statistics(args) => statistics::play(&args.out),
        Role::Viewer(args) => viewer::play(&args.out),
    }
}
