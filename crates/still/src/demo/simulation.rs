//! The simulation that is looked at: its arrays are a region's, and each step is a version.

use super::plan::Plan;
use super::reaction::{Reaction, Recipe, checksum_parallel};
use crate::trial::{Place, Result};
use std::time::Instant;
use stillframe::{Array, Region};

/// Name of the region.
pub const REGION: &str = "gray-scott";
/// Attribute of the version after which nothing follows.
pub const FINAL: &str = "final";
/// Attribute with the checksum of both arrays.
pub const CHECKSUM: &str = "checksum";
/// Attribute with the number of iterations the simulation has done.
pub const ITERATION: &str = "iteration";
/// Versions that are kept although nobody reads them, so that an observer that is late still finds each.
const VERSIONS_KEPT: usize = 4;
/// Iterations of the simulation between two publishes.
const STEP_ITERATIONS: usize = 16;
/// Worms that grow, divide and never come to rest.
const RECIPE: Recipe = Recipe { feed: 0.0367, kill: 0.0649 };

/// A simulation whose arrays belong to a region.
pub struct Simulation {
    region: Region,
    u: Array<f32>,
    v: Array<f32>,
    reaction: Reaction,
    threads: usize,
    /// The newest version.
    pub version: u64,
    iteration: i64,
    checksum: u64,
    /// Pages that changed with the last publish, and all pages.
    pub pages: [u64; 2],
    /// Seconds that publishing has taken.
    pub publish_seconds: f64,
}

impl Simulation {
    /// Makes the region, with the first version in it.
    pub fn create(plan: &Plan, place: &Place) -> Result<Simulation> {
        let mut region = Region::options().dir(place.path()).keep(VERSIONS_KEPT).create(REGION)?;
        let shape = [plan.cells; 3];
        let (u, v) = (region.array::<f32>("u", &shape)?, region.array::<f32>("v", &shape)?);
        let mut reaction = Reaction::new(plan.cells, RECIPE, plan.threads);
        let [first, second] = region.slices_mut([&u, &v]);
        reaction.seed(first, second);
        let mut simulation = Simulation {
            region,
            u,
            v,
            reaction,
            threads: plan.threads,
            version: 0,
            iteration: 0,
            checksum: 0,
            pages: [0; 2],
            publish_seconds: 0.0,
        };
        simulation.checksum = simulation.current_checksum();
        simulation.publish(false)?;
        Ok(simulation)
    }

    /// One step of the simulation: it moves on and says what it has come to.
    pub fn advance(&mut self) {
        let [u, v] = self.region.slices_mut([&self.u, &self.v]);
        self.reaction.advance(u, v, STEP_ITERATIONS);
        self.iteration += STEP_ITERATIONS as i64;
        self.checksum = self.current_checksum();
    }

    /// Makes the state of the arrays a version.
    pub fn publish(&mut self, last: bool) -> Result<()> {
        self.version += 1;
        let start = Instant::now();
        let publication = self.region.publish(self.version);
        let published = publication
            .attr(ITERATION, self.iteration)
            .attr(CHECKSUM, self.checksum as i64)
            .attr(FINAL, last)
            .commit()?;
        self.publish_seconds += start.elapsed().as_secs_f64();
        self.pages = [published.dirty_pages, published.total_pages];
        Ok(())
    }

    /// The same simulation in memory of its own, which nobody tracks.
    pub fn private(&self) -> PrivateSimulation {
        PrivateSimulation {
            u: self.region.slice(&self.u).to_vec(),
            v: self.region.slice(&self.v).to_vec(),
            reaction: self.reaction.clone(),
            threads: self.threads,
        }
    }

    /// Whether the arrays hold the same numbers as those of the private simulation.
    pub fn equals(&self, other: &PrivateSimulation) -> bool {
        self.region.slice(&self.u) == other.u && self.region.slice(&self.v) == other.v
    }

    /// Bytes of the arrays.
    pub fn array_bytes(&self) -> u64 {
        2 * size_of_val(self.region.slice(&self.u)) as u64
    }

    /// Ends it, and removes the region.
    pub fn unlink(self) -> Result<()> {
        Ok(self.region.unlink()?)
    }

    fn current_checksum(&self) -> u64 {
        checksum(self.region.slice(&self.u), self.region.slice(&self.v), self.threads)
    }
}

/// The simulation as it would be without the library.
pub struct PrivateSimulation {
    u: Vec<f32>,
    v: Vec<f32>,
    reaction: Reaction,
    threads: usize,
}

impl PrivateSimulation {
    /// One step; does all that [`Simulation::advance`] does.
    pub fn advance(&mut self) {
        self.reaction.advance(&mut self.u, &mut self.v, STEP_ITERATIONS);
        std::hint::black_box(checksum(&self.u, &self.v, self.threads));
    }
}

fn checksum(u: &[f32], v: &[f32], threads: usize) -> u64 {
    checksum_parallel(u, threads).wrapping_add(checksum_parallel(v, threads).rotate_left(32))
}
