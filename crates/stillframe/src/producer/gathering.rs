//! Gathering the dirty pages of sections to their frames.
//!
//! # Safety
//!
//! As [`copying`](crate::producer::copying): nobody writes the memory of a section while publish runs, or while one is started.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::producer::collect::Job;
use crate::producer::state::Workspace;
use crate::store::draft::Draft;
use std::ops::Range;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// Most pages that a thread takes at a time.
const RUN_PAGES: usize = 128;

/// Pages for each thread below which waking another one costs more than it saves.
const THREAD_PAGES_MIN: usize = 1024;

/// Pages of a section that follow each other in the version and in the plane.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The variable, and which of its sources it is.
    id: u32,
    source: usize,
    pages: Range<usize>,
    /// Address of the first frame.
    to: usize,
}

impl Workspace {
    /// What is to be gathered where.
    pub(crate) fn runs(&mut self, jobs: &[Job], draft: &Draft) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for job in jobs {
            let Some(source) = self.source_mut(job.id, job.source).filter(|source| source.gather.is_some()) else {
                continue;
            };
            for part in &draft.frames()[job.frames.clone()] {
                let window = part.window - source.maps.allocation.window as usize;
                let to = source.maps.address_for_writing(part.plane, window, part.pages, draft.planes())?;
                for (start, end) in part.pages.runs() {
                    for first in (start..end).step_by(RUN_PAGES) {
                        let pages = first..end.min(first + RUN_PAGES);
                        let to = to + first * PAGE_BYTES;
                        let pages = window * WINDOW_PAGES + pages.start..window * WINDOW_PAGES + pages.end;
                        runs.push(Run { id: job.id, source: job.source, pages, to });
                    }
                }
            }
        }
        Ok(runs)
    }

    /// Gathers the runs, by all threads.
    pub(crate) fn gather(&self, runs: &[Run]) {
        let pages: usize = runs.iter().map(|run| run.pages.len()).sum();
        let threads = self.copier.threads().min(pages / THREAD_PAGES_MIN);
        self.copier.workers().parallel_for(runs.len(), threads, &|index| {
            let Run { id, source, pages, to } = &runs[index];
            let source = self.variables.get(id).and_then(|state| state.working.sources().get(*source));
            if let Some(gather) = source.and_then(|source| source.gather.as_ref()) {
                // SAFETY: the memory was looked for when the publish began; each frame is chosen once, no version uses it, and
                // its space was taken.
                unsafe { gather.copy(pages.clone(), *to, &self.copier) };
            }
        });
    }
}
