//! What publishing costs the simulation: the same steps with and without it, in turns.

use super::plan::Length;
use super::simulation::Simulation;
use crate::trial::Result;
use crate::trial::measure::{median, seconds};
use std::time::Instant;

/// Steps after which the other simulation has its turn.
const TURN_STEPS: u64 = 2;

/// Seconds per step with and without publishing, medians over turns.
pub struct Comparison {
    /// Of the simulation whose arrays are tracked and published.
    pub with_seconds: f64,
    /// Of its copy in private memory.
    pub without_seconds: f64,
    /// The first over the second.
    pub ratio: f64,
    /// Pairs of turns.
    pub turns: usize,
    /// Whether both came to the same numbers.
    pub equal: bool,
}

/// Lets `simulation` and a private copy of it take turns until `length` is over.
pub fn run(simulation: &mut Simulation, length: Length) -> Result<Comparison> {
    let mut private = simulation.private();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let start = Instant::now();
    loop {
        // Each begins every other time, so that neither always has the quieter moment.
        for published in if with.len() % 2 == 0 { [true, false] } else { [false, true] } {
            if published {
                with.push(publish_seconds(simulation)?);
            } else {
                without.push(seconds(|| (0..TURN_STEPS).for_each(|_| private.advance())) / TURN_STEPS as f64);
            }
        }
        let over = match length {
            Length::Seconds(limit) => start.elapsed().as_secs_f64() >= limit,
            Length::Steps(limit) => with.len() as u64 * TURN_STEPS >= limit,
        };
        if over {
            break;
        }
    }
    let (with_seconds, without_seconds) = (median(&mut with), median(&mut without));
    Ok(Comparison {
        with_seconds,
        without_seconds,
        ratio: with_seconds / without_seconds,
        turns: with.len(),
        equal: simulation.equals(&private),
    })
}

/// Seconds per step of a turn in which every step is published.
fn publish_seconds(simulation: &mut Simulation) -> Result<f64> {
    let mut outcome = Ok(());
    let elapsed = seconds(|| {
        outcome = (0..TURN_STEPS).try_for_each(|_| {
            simulation.advance();
            simulation.publish(false)
        });
    });
    outcome.map(|()| elapsed / TURN_STEPS as f64)
}
