//! Letting versions go.

use crate::error::Result;
use crate::store::Store;
use crate::store::entries::{self, FrameFinder};
use crate::store::version::{Asking, Version};
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_protocol::{self as protocol, Leases, State};
use stillframe_segment::table::ZERO_PLANE;

impl Store {
    /// After a publish: retires versions until at most `keep` are live, and asks again for those that were held; for those that have been
    /// for long only now and then.
    pub(crate) fn retire_old(&mut self, keep: usize) -> Result<()> {
        self.retire_beyond(keep, Asking::is_due)
    }

    fn retire_beyond(&mut self, keep: usize, is_due: impl Fn(&Asking) -> bool) -> Result<()> {
        let mut live = self.versions.iter().filter(|version| version.state == State::Live).count();
        let mut index = 0;
        while index + 1 < self.versions.len() {
            let is_live = self.versions[index].state == State::Live;
            if is_live && live <= keep || !is_live && !is_due(&self.versions[index].asking) {
                index += 1;
                continue;
            }
            live -= usize::from(is_live);
            if !self.retire(index)? {
                index += 1;
            }
        }
        Ok(())
    }

    /// Asks again for the versions that were held.
    pub(crate) fn retire_retiring(&mut self) -> Result<()> {
        self.retire_beyond(usize::MAX, |_| true)
    }

    /// Whether an observer holds a version.
    pub(crate) fn is_held(&self, index: usize) -> Result<bool> {
        self.leases.is_held(self.versions[index].leased.slot)
    }

    /// Retires the oldest live version, unless it is the newest; true if there was one.
    pub(crate) fn retire_oldest(&mut self) -> Result<bool> {
        let oldest = self.versions.iter().position(|version| version.state == State::Live);
        match oldest {
            Some(index) if index + 1 < self.versions.len() => self.retire(index).map(|_| true),
            _ => Ok(false),
        }
    }

    /// Retires one version that is not the newest; true if nobody holds it, and it is gone.
    pub(crate) fn retire(&mut self, index: usize) -> Result<bool> {
        points::hit("retire.begin");
        let gone = protocol::retire(&self.head, &*self.leases, self.versions[index].leased)?;
        points::hit("retire.asked");
        if !gone {
            self.versions[index].state = State::Retiring;
            self.versions[index].asking.note_held();
            return Ok(false);
        }
        // Where the version that a run returned to is gone, numbers may ascend as if it had not; what follows is of another run.
        let follows = |pair: &[Version]| pair[0].number < pair[1].number && pair[0].run == pair[1].run;
        let is_rolled_back = !self.versions.windows(2).all(follows);
        let version = self.versions.remove(index);
        let neighbours = if is_rolled_back { 0..self.versions.len() } else { index.saturating_sub(1)..index + 1 };
        let others: Vec<_> = neighbours.filter_map(|other| self.versions.get(other)).map(|v| v.table.clone()).collect();
        self.free_frames(&version.table, &others);
        version.table.iter().for_each(|word| entries::release(*word, &mut self.tables));
        self.tables.release(version.manifest.0, version.manifest.1);
        self.tables.release(version.table_block, version.table.len() * 4);
        if self.versions.iter().all(|other| other.schema != version.schema) && version.schema != self.schema {
            self.remove_schema(version.schema);
        }
        if let Some(words) = Arc::into_inner(version.table) {
            self.spare.words = words;
        }
        points::hit("retire.done");
        Ok(true)
    }

    /// Frees the frames that only the version with this table used. A page keeps its frame from one version to the next
    /// until it is written again, so a frame neither neighbour uses is used by no version. After a rollback pages have frames
    /// again that versions in between do not use, so then `others` are all versions.
    fn free_frames(&mut self, gone: &[u32], others: &[Arc<Vec<u32>>]) {
        let entry = |table: &Arc<Vec<u32>>, window: usize| table.get(window).copied().unwrap_or(u32::from(ZERO_PLANE));
        let Store { planes, tables, .. } = self;
        let mut finder = FrameFinder::new();
        for (window, word) in gone.iter().enumerate() {
            // The newest first, which most pages are as in.
            let kept = others.iter().rev().map(|other| entry(other, window));
            if *word != u32::from(ZERO_PLANE) && kept.clone().all(|other| other != *word) {
                finder.find(*word, kept, tables, |plane, pages| planes.unmark(usize::from(plane), window, pages));
            }
        }
    }
}
