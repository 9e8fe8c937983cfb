//! The producer's part, and how the whole demonstration goes.

use super::comparison::{self, Comparison};
use super::dashboard::Dashboard;
use super::reaction::{Reaction, Recipe, checksum_parallel};
use super::summary::Summary;
use super::{CHILD_COMMAND, Length, Plan};
use crate::trial::{Child, Error, Place, Result, child::parse_numbers};
use std::fs;
use std::time::{Duration, Instant};
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
/// Share of the time, at the end, in which steps with and without publishing take turns.
const COMPARISON_SHARE: f64 = 0.25;
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
    version: u64,
    iteration: i64,
    checksum: u64,
    /// Pages that changed with the last publish, and all pages.
    pub pages: [u64; 2],
    /// Seconds that publishing has taken.
    pub publish_seconds: f64,
}

impl Simulation {
    fn create(plan: &Plan, place: &Place) -> Result<Simulation> {
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

/// What an observer has said about itself.
#[derive(Default, Clone, Copy)]
pub struct Sight {
    /// Versions seen.
    pub seen: u64,
    /// Versions whose content was not what was published.
    pub torn: u64,
    /// Bytes of anonymous memory.
    pub memory_bytes: u64,
}

/// An observer in a process of its own.
pub struct Watcher {
    child: Child,
    /// What it said last.
    pub sight: Sight,
}

impl Watcher {
    fn start(plan: &Plan, place: &Place, role: &str) -> Result<Watcher> {
        let out = plan.out.to_string_lossy();
        Ok(Watcher { child: Child::start(place.path(), &[CHILD_COMMAND, role, &out])?, sight: Sight::default() })
    }

    /// Takes in what the observer has said since the last time.
    fn listen(&mut self) {
        while let Some(line) = self.child.overhear() {
            self.note(&line);
        }
    }

    /// Waits until the observer has seen the last version.
    fn finish(&mut self) -> Result<()> {
        loop {
            let line = self.child.hear()?;
            if line == "done" {
                return Ok(());
            }
            self.note(&line);
        }
    }

    fn note(&mut self, line: &str) {
        if let Some([seen, torn, memory_bytes]) = parse_numbers(line) {
            self.sight = Sight { seen, torn, memory_bytes };
        }
    }
}

/// What the dashboard and the summary are made from.
pub struct Progress {
    /// Steps done, all of them published.
    pub steps: u64,
    /// Seconds since the first step.
    pub seconds: f64,
    /// Share of the time or of the steps that is over.
    pub done: f64,
    /// Share of pages that changed with the last step.
    pub dirty_share: f64,
    /// Seconds that publishing took.
    pub publish_seconds: f64,
    /// Bytes of the arrays.
    pub array_bytes: u64,
    /// Bytes that the region's files take.
    pub file_bytes: u64,
}

/// Runs the demonstration.
pub fn run(plan: &Plan) -> Result<()> {
    let limit = match plan.length {
        Length::Seconds(seconds) => Duration::from_secs_f64(seconds * 2.0 + 300.0),
        Length::Steps(_) => Duration::from_secs(24 * 3600),
    };
    fs::create_dir_all(&plan.out).map_err(Error::system(format!("mkdir {}", plan.out.display())))?;
    let place = Place::create(limit)?;
    let mut simulation = Simulation::create(plan, &place)?;
    let mut statistics = Watcher::start(plan, &place, "statistics")?;
    let mut viewer = if plan.view { Some(Watcher::start(plan, &place, "viewer")?) } else { None };
    let mut dashboard = Dashboard::new(plan);

    let (growing, comparing) = split(plan.length);
    let start = Instant::now();
    let mut steps = 0;
    let progress = loop {
        simulation.advance();
        simulation.publish(false)?;
        steps += 1;
        let progress = look(&simulation, &place, growing, start, steps);
        if progress.done >= 1.0 {
            break progress;
        }
        if dashboard.is_due() {
            statistics.listen();
            viewer.iter_mut().for_each(Watcher::listen);
            dashboard.show(&progress, &statistics.sight, viewer.as_ref().map(|viewer| &viewer.sight));
        }
    };
    dashboard.note("comparing steps with and without publishing, in turns");
    let comparison: Comparison = comparison::run(&mut simulation, comparing)?;
    simulation.publish(true)?;
    statistics.finish()?;
    viewer.as_mut().map_or(Ok(()), Watcher::finish)?;
    dashboard.clear();

    let summary = Summary {
        plan,
        progress: &progress,
        comparison: &comparison,
        published: simulation.version,
        statistics: statistics.sight,
        viewer: viewer.as_ref().map(|viewer| viewer.sight),
    };
    summary.print();
    drop((statistics, viewer));
    simulation.region.unlink()?;
    match statistics_torn(&summary.statistics, &comparison) {
        Some(why) => Err(Error::Wrong(why)),
        None => Ok(()),
    }
}

fn statistics_torn(statistics: &Sight, comparison: &Comparison) -> Option<String> {
    match (statistics.torn, comparison.equal) {
        (0, true) => None,
        (0, false) => Some("the published simulation and its private copy came to different results".into()),
        (torn, _) => Some(format!("{torn} versions were read with another content than they were published with")),
    }
}

/// How long to grow and how long to compare.
fn split(length: Length) -> (Length, Length) {
    match length {
        Length::Seconds(seconds) => {
            let comparing = seconds * COMPARISON_SHARE;
            (Length::Seconds(seconds - comparing), Length::Seconds(comparing))
        }
        Length::Steps(steps) => {
            let comparing = ((steps as f64 * COMPARISON_SHARE) as u64).max(1);
            (Length::Steps(steps.saturating_sub(comparing).max(1)), Length::Steps(comparing))
        }
    }
}

fn look(simulation: &Simulation, place: &Place, length: Length, start: Instant, steps: u64) -> Progress {
    let seconds = start.elapsed().as_secs_f64();
    let done = match length {
        Length::Seconds(limit) => seconds / limit,
        Length::Steps(limit) => steps as f64 / limit as f64,
    };
    Progress {
        steps,
        seconds,
        done,
        dirty_share: simulation.pages[0] as f64 / simulation.pages[1].max(1) as f64,
        publish_seconds: simulation.publish_seconds,
        array_bytes: 2 * size_of_val(simulation.region.slice(&simulation.u)) as u64,
        file_bytes: place.allocated_bytes(),
    }
}
