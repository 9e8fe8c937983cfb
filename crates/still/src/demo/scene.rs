//! The producer's part, and how the whole demonstration goes.

use super::comparison::{self, Comparison};
use super::dashboard::Dashboard;
use super::plan::{CHILD_COMMAND, Length, Plan};
use super::progress::{Progress, Sight};
use super::simulation::Simulation;
use super::summary::Summary;
use crate::trial::{Child, Error, Place, Result, child::parse_numbers};
use std::fs;
use std::time::{Duration, Instant};

/// Share of the time, at the end, in which steps with and without publishing take turns.
const COMPARISON_SHARE: f64 = 0.25;
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
    simulation.unlink()?;
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
        array_bytes: simulation.array_bytes(),
        file_bytes: place.allocated_bytes(),
    }
}
