//! Gathering the dirty pages of sections to their frames.
//!
//! # Safety
//!
//! As [`copying`](crate::producer::copying): nobody writes the memory of a section while publish runs, or while one is started.
#![allow(unsafe_code)]

use crate::list;
use crate::producer::collect::Job;
use crate::producer::state::Workspace;
use std::ops::Range;
use stillframe_kernel::Failure;
use stillframe_segment::{PAGE_BYTES, WINDOW_PAGES};

/// Pages for each thread below which waking another one costs more than it saves.
const THREAD_PAGES_MIN: usize = 1024;

/// Pages of a section that follow each other in the version and in the plane, in one window. A thread takes them at once.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The variable, and which of its sources it is.
    id: u32,
    source: usize,
    pages: Range<usize>,
    /// Address of the first frame.
    to: usize,
}

/// Adds a run of pages of a window, whose frames begin at `to` for that window.
pub(crate) fn push_run(
    runs: &mut Vec<Run>,
    job: &Job,
    window: usize,
    run: Range<usize>,
    to: usize,
) -> Result<(), Failure> {
    let pages = window * WINDOW_PAGES + run.start..window * WINDOW_PAGES + run.end;
    list::push(runs, Run { id: job.id, source: job.source, pages, to: to + run.start * PAGE_BYTES })
}

impl Workspace {
    /// Gathers the runs, by all threads.
    pub(crate) fn gather(&self, runs: &[Run]) {
        let pages: usize = runs.iter().map(|run| run.pages.len()).sum();
        let threads = self.copier.threads().min(pages / THREAD_PAGES_MIN);
        self.copier.workers().parallel_for(runs.len(), threads, &|index| {
            let Run { id, source, pages, to } = &runs[index];
            let source = self.variables.get(*id).and_then(|state| state.working.sources().get(*source));
            if let Some(gather) = source.and_then(|source| source.gather.as_ref()) {
                // SAFETY: the memory was looked for when the publish began; each frame is chosen once, no version uses it, and
                // its space was taken.
                unsafe { gather.copy(pages.clone(), *to, &self.copier) };
            }
        });
    }
}
