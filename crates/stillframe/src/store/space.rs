//! The page space of a region: which windows belong to a variable.

use crate::list;
use std::ops::Range;
use stillframe_kernel::Failure;

/// Windows of the page space that belong to the memory of one variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocation {
    /// Number that no other allocation of the region ever has. In a version's manifest it is the serial number of the allocation.
    pub(crate) serial: u64,
    /// First window.
    pub(crate) window: u32,
    pub(crate) windows: u32,
}

impl Allocation {
    /// Its windows.
    pub(crate) fn range(&self) -> Range<usize> {
        self.window as usize..(self.window + self.windows) as usize
    }
}

/// The page space: which windows are allocated.
#[derive(Debug, Default)]
pub(crate) struct Space {
    taken: Vec<bool>,
}

impl Space {
    /// Takes a run of free windows, the lowest that fits.
    pub(crate) fn take(&mut self, windows: u32) -> Result<u32, Failure> {
        let count = windows.max(1) as usize;
        let mut run = 0;
        for (index, taken) in self.taken.iter().enumerate() {
            run = if *taken { 0 } else { run + 1 };
            if run == count {
                let start = index + 1 - count;
                self.taken[start..=index].fill(true);
                return Ok(start as u32);
            }
        }
        let start = self.taken.len() - run;
        list::resize(&mut self.taken, start + count, true)?;
        self.taken[start..].fill(true);
        Ok(start as u32)
    }

    /// Takes windows whose place is known already.
    pub(crate) fn claim(&mut self, window: u32, windows: u32) -> Result<(), Failure> {
        let end = (window + windows.max(1)) as usize;
        if self.taken.len() < end {
            list::resize(&mut self.taken, end, false)?;
        }
        self.taken[window as usize..end].fill(true);
        Ok(())
    }

    pub(crate) fn give_back(&mut self, window: u32, windows: u32) {
        let end = ((window + windows.max(1)) as usize).min(self.taken.len());
        self.taken[window as usize..end].fill(false);
        let used = self.taken.iter().rposition(|taken| *taken).map_or(0, |last| last + 1);
        self.taken.truncate(used);
    }

    /// Whether a window belongs to a variable.
    pub(crate) fn is_taken(&self, window: usize) -> bool {
        self.taken.get(window).is_some_and(|taken| *taken)
    }

    /// Windows up to the last taken one.
    pub(crate) fn windows(&self) -> usize {
        self.taken.len()
    }
}
