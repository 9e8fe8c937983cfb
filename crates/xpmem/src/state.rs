//! What is known of this process.

use crate::access::Access;
use crate::attachment::Attachment;
use crate::directory::Directory;
use crate::problem::Problem;
use crate::process::Process;
use crate::segment::Segment;
use crate::sharing::Files;
use crate::space::Space;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// What is known of this process.
#[derive(Debug)]
pub struct State {
    /// What the process is to others, once it made something.
    process: Option<Process>,
    /// What it made, by segid.
    pub segments: BTreeMap<i64, Segment>,
    /// The files in which its shared memory lies.
    pub files: Files,
    /// Its backed regions.
    pub space: Option<Space>,
    /// What it was granted, by apid.
    pub granted: BTreeMap<i64, Access>,
    pub granted_before: i64,
    /// By their first address.
    pub attachments: BTreeMap<usize, Attachment>,
}

static STATE: Mutex<State> = Mutex::new(State {
    process: None,
    segments: BTreeMap::new(),
    files: Files::new(),
    space: None,
    granted: BTreeMap::new(),
    granted_before: 0,
    attachments: BTreeMap::new(),
});

/// Nothing that panics leaves it half changed.
pub fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(|poison| poison.into_inner())
}

impl State {
    /// What this process is to others, from now on.
    pub fn process(&mut self) -> Result<&mut Process, Problem> {
        match self.process {
            Some(ref mut process) => Ok(process),
            None => Ok(self.process.insert(Process::begin()?)),
        }
    }

    /// The directory in which this process makes segments, and looks for others'; `None` if there is none yet.
    pub fn directory(&self) -> Result<Option<Directory>, Problem> {
        match &self.process {
            Some(process) => Ok(Some(process.directory.clone())),
            None => Directory::look(),
        }
    }

    /// The number of this process among those that make segments, if it is one.
    pub fn process_number(&self) -> Option<u32> {
        self.process.as_ref().map(|process| process.number)
    }

    /// The first address of an attachment, or of a backed region, that lies in a range, and what it is.
    pub fn occupied(&self, range: &Range<usize>) -> Option<(usize, &'static str)> {
        let attached = self.attachments.range(..range.end).next_back();
        let attached = attached.filter(|(start, attachment)| *start + attachment.bytes > range.start);
        let attached = attached.map(|(start, _)| (*start, "an attachment"));
        let backed = || self.space.as_ref()?.overlapping(range).next().map(|(start, _)| (start, "a backed region"));
        attached.or_else(backed)
    }

    /// In a forked child: what the parent made is its own, and its to end.
    pub fn leave_to_parent(&mut self) {
        std::mem::forget(self.process.take());
        std::mem::forget(std::mem::take(&mut self.segments));
        std::mem::forget(self.space.take());
        self.files = Files::new();
    }
}
