//! `stillframe-tracked`, `-managed` and `-loaned`: the three kinds of working memory of Stillframe.
//!
//! The region lives under `STILLFRAME_DIR`, which the runner sets to a directory of the run's own.
//! Versions start at 1, because the observer asks for the one after the last it has seen.

use crate::{Job, Result, work};
use std::time::Duration;

pub fn producer(job: &Job, kind: &str) -> Result<()> {
    // The producer may be a step ahead, and the observer, on a busy machine, not have taken the version before yet: it has to
    // stay until then, as it does in the buffers of the rivals.
    let mut region = stillframe::Region::options().keep(2).create("rivals")?;
    match kind {
        // The application's own array: publishing finds and copies what was written.
        "tracked" => {
            let x = region.track::<f64>("x")?;
            let mut data = vec![1.0; job.elements];
            job.control.produce(|step, row| {
                row.filling();
                work::fill(step, &mut data);
                row.filled();
                region.publish(step + 1).tracked(&x, &data[..], &[data.len()]).commit()?;
                Ok(())
            })
        }
        // The region's own memory, written in place every step.
        "managed" => {
            let x = region.array::<f64>("x", &[job.elements])?;
            job.control.produce(|step, row| {
                let data = region.slice_mut(&x);
                row.filling();
                work::fill(step, data);
                row.filled();
                region.publish(step + 1).commit()?;
                Ok(())
            })
        }
        // Memory that is handed out for one version: publishing copies nothing.
        _ => {
            let x = region.loaned::<f64>("x", &[job.elements])?;
            job.control.produce(|step, row| {
                let mut data = region.loan(&x)?;
                row.filling();
                work::fill(step, &mut data[..]);
                row.filled();
                data.submit();
                region.publish(step + 1).commit()?;
                Ok(())
            })
        }
    }
}

pub fn observer(job: &Job) -> Result<()> {
    job.control.wait_created();
    let observer = stillframe::Observer::open("rivals")?;
    job.control.observe(|step, row| {
        // The runner's watchdog is the limit that matters; this one only has to be finite.
        let snapshot = observer.next_after(Some(step), Some(Duration::from_secs(600)))?;
        row.summed(work::sum(snapshot.slice::<f64>("x")?));
        Ok(())
    })
}
