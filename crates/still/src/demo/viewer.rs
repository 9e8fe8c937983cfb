//! The observer that draws pictures of as many versions as it can.

use super::picture::Cube;
use super::progress::Sight;
use super::simulation::{FINAL, ITERATION, REGION};
use crate::trial::child::PATIENCE;
use crate::trial::{Parent, Result};
use std::path::Path;
use stillframe::{Observer, Scalar};

/// Height of a picture in pixels.
const HEIGHT: usize = 720;
/// Iterations of the simulation in which the view goes once around the cube.
const TURN_ITERATIONS: f32 = 12_000.0;

/// Draws the newest version, then the newest version, until the last one is drawn.
pub fn play(out: &Path) -> Result<()> {
    let parent = Parent::listen();
    let observer = Observer::options().wait(PATIENCE).open(REGION)?;
    let mut sight = Sight::default();
    let mut last = None;
    loop {
        let snapshot = observer.newest_after(last, Some(PATIENCE))?;
        let cells = snapshot.variable("v")?.shape[0];
        let iteration = match snapshot.attributes().get(ITERATION) {
            Some(Scalar::Int(iteration)) => *iteration as f32,
            _ => 0.0,
        };
        let picture = Cube::new(cells, snapshot.slice("v")?).frame(HEIGHT, 0.03 + iteration / TURN_ITERATIONS);
        let finished = snapshot.attributes().get(FINAL) == Some(&Scalar::Bool(true));
        last = Some(snapshot.version());
        let number = sight.seen;
        picture.save(&out.join(format!("frame-{number:04}.png")))?;
        sight.seen += 1;
        parent.tell(format_args!("{} 0 {}", sight.seen, private_memory_bytes()))?;
        if finished {
            return parent.tell("done");
        }
    }
}

/// Memory that this process has for itself: what it reads in the region is not part of it.
pub fn private_memory_bytes() -> u64 {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap_or_default();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
