//! What it costs to publish many small arrays, relative to one of as many bytes.

use super::report::{Report, Row};
use super::{Setting, measure};
use crate::trial::Result;
use measure::{median, seconds};
use serde_json::json;
use stillframe::{Region, Tracked};

/// Elements of a small array: 8 KiB.
const ELEMENTS: usize = 1024;

/// A region that tracks arrays, which lie as the allocator has them.
struct Program {
    region: Region,
    arrays: Vec<(Tracked<f64>, Vec<f64>)>,
    version: u64,
}

impl Program {
    fn new(setting: &Setting, name: &str, arrays: usize, elements: usize) -> Result<Program> {
        let mut region = Region::options().dir(setting.root()).keep(1).create(name)?;
        // As in most programs they are there before they are tracked, so that nothing else comes to lie between them.
        let memory: Vec<Vec<f64>> = (0..arrays).map(|_| vec![0.0; elements]).collect();
        let mut track = |(number, memory)| Ok((region.track(&format!("a{number}"))?, memory));
        let arrays = memory.into_iter().enumerate().map(&mut track).collect::<Result<_>>()?;
        Ok(Program { region, arrays, version: 0 })
    }

    /// Writes all arrays or none, and says how many seconds the publish takes.
    fn publish(&mut self, is_written: bool) -> Result<f64> {
        let Program { region, arrays, version } = self;
        *version += 1;
        if is_written {
            arrays.iter_mut().for_each(|(_, elements)| elements.fill(*version as f64));
        }
        let mut published = None;
        let time = seconds(|| {
            let publication = region.publish(*version);
            let given = arrays.iter().fold(publication, |publication, (variable, elements)| {
                publication.tracked(variable, elements, &[elements.len()])
            });
            published = Some(given.commit());
        });
        published.transpose()?;
        Ok(time)
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    for written in ["none", "all"] {
        for arrays in [8, 32, 128, 512] {
            let mut many = Program::new(setting, "many", arrays, ELEMENTS)?;
            let mut one = Program::new(setting, "one", 1, arrays * ELEMENTS)?;
            let mut times = Vec::new();
            // The first publishes make planes, and learn which pages are written every time.
            let settling = setting.repetitions(80, 10);
            for round in 0..settling + setting.repetitions(1001, 31) {
                let is_written = written == "all" || round < 3;
                let pair = (many.publish(is_written)?, one.publish(is_written)?);
                if round >= settling {
                    times.push(pair);
                }
            }
            many.region.unlink()?;
            one.region.unlink()?;
            let mut ratios: Vec<f64> = times.iter().map(|(many, one)| many / one).collect();
            let (mut many, mut one): (Vec<f64>, Vec<f64>) = times.into_iter().unzip();
            let case = json!({"arrays": arrays, "bytes": ELEMENTS * 8, "written": written});
            let row = Row::new("variables", case, median(&mut many) * 1e6, "us", median(&mut one) * 1e6);
            report.add(Row { ratio: median(&mut ratios), ..row })?;
        }
    }
    Ok(())
}
