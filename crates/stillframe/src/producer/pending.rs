//! Publishing in the background: a publish that is started and finished by two calls.
//!
//! The first finds the dirty pages and takes frames and memory for them; threads copy from then on. The second waits for them,
//! copies what none has begun, and commits. Between the two the program may read its variables and not write them, as with
//! MPI's nonblocking sends; one that writes makes the version a mixture of before and after, and breaks nothing else. What
//! changes the variables themselves finishes the publish first. With `guard` the program may write: a child process copies,
//! which has the memory as it was when it was started.

use crate::error::{Error, Result};
use crate::list;
use crate::producer::check::Sums;
use crate::producer::collect::Job;
use crate::producer::input::{Inputs, Label};
use crate::producer::publish::Submitted;
use crate::producer::room::Room;
use crate::producer::state::Producer;
use crate::producer::statistics::Published;
use crate::store::planes::Assignment;
use crate::working::tracker::kind::TrackerKind;
use std::time::{Duration, Instant};
use stillframe_kernel::Failure;
use stillframe_kernel::background::Transfer;
use stillframe_kernel::child::CopyingChild;
use stillframe_kernel::copy::Piece;
use stillframe_kernel::points;
use stillframe_segment::PAGE_BYTES;

/// Bytes that are copied by the start itself: to wake a thread takes longer.
const AT_ONCE_BYTES: usize = 64 << 10;

/// A publish that was started.
#[derive(Debug)]
pub(crate) struct Pending {
    label: Label,
    inputs: Inputs,
    jobs: Vec<Job>,
    submitted: Vec<Submitted>,
    /// What is copied to: taken, and of no version yet.
    pub(crate) frames: Vec<Assignment>,
    /// `None` when all is copied.
    copying: Option<Copying>,
    /// For looking whether it was written meanwhile, if that is asked for.
    sums: Option<Sums>,
    /// Time that the start and tries to finish took.
    spent: Duration,
}

/// Who copies.
#[derive(Debug)]
enum Copying {
    Threads(Transfer),
    /// A process that has the memory as it was; and threads that take pages back which it has copied. In this order, so that they
    /// need not wait for it when both are given up.
    Child(CopyingChild, Option<Transfer>),
}

impl Copying {
    fn is_done(&mut self) -> bool {
        match self {
            Copying::Threads(transfer) => transfer.test(),
            Copying::Child(child, _) => child.is_done(),
        }
    }
}

impl Pending {
    fn dirty_pages(&self) -> usize {
        self.jobs.iter().map(|job| job.dirty).sum()
    }

    /// Whether nothing is left to be copied.
    fn is_copied(&mut self) -> bool {
        self.copying.as_mut().is_none_or(Copying::is_done)
    }
}

/// How far a publish is that was to be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// None is started that is not finished. What the last one did, unless that was told before.
    Done(Option<Published>),
    /// Somebody still copies, or there is no room yet and the rule would wait on.
    Later,
}

impl Producer {
    /// Starts a publish, after what is left of the one before. `false`: `slice` is over, and that one is not finished or there is
    /// no room yet, see [`with_room`](Producer::with_room). Label and inputs are taken when it is started.
    pub(crate) fn start(
        &mut self,
        label: &mut Label,
        inputs: &mut Inputs,
        guard: bool,
        slice: Option<Duration>,
    ) -> Result<bool> {
        let begin = Instant::now();
        if !self.settle(slice)? {
            return Ok(false);
        }
        let slice = left(slice, begin);
        self.finished = None;
        if self.workspace.tracker.kind() == TrackerKind::PrivateCow {
            // It lays pages of the version in the place of those that were published, which nobody may write meanwhile.
            self.finished = self.publish(label, inputs, slice)?;
            return Ok(self.finished.is_some());
        }
        let (mut jobs, dirty_pages) = self.collect(label, inputs)?;
        let all_held = self.peers.is_some();
        let room = self.with_room(slice, &mut |workspace, mut draft| {
            let (pieces, runs) = workspace.prepare(&mut jobs, &mut draft, all_held)?;
            // What is written or freed from here on is no matter to sections.
            workspace.gather(&runs);
            Ok((pieces, draft.lend()))
        });
        let (pieces, frames) = match room {
            Ok(Room::Made(made)) => made,
            room => {
                self.workspace.remember(&jobs);
                return match room? {
                    Room::Later => Ok(false),
                    _ => {
                        self.finished = Some(self.leave_out(label.number, dirty_pages, begin.elapsed()));
                        Ok(true)
                    }
                };
            }
        };
        points::hit("publish.started");
        let (copying, sums) = match self.begin_copying(pieces, &jobs, guard) {
            Ok(begun) => begun,
            Err(failure) => {
                self.store.free_frames_of(&frames);
                self.workspace.remember(&jobs);
                return Err(Error::system(self.store.dir(), failure));
            }
        };
        self.pending = Some(Pending {
            label: std::mem::take(label),
            inputs: std::mem::take(inputs),
            jobs,
            submitted: self.workspace.submitted_loans(),
            frames,
            copying,
            sums,
            spent: begin.elapsed(),
        });
        Ok(true)
    }

    /// Begins to copy, and sums up what is copied if that is asked for. No copying: all is copied, because there is little, or
    /// because a child that is to copy what is guarded would not have it, or not as it was.
    fn begin_copying(
        &mut self,
        pieces: Vec<Piece>,
        jobs: &[Job],
        guard: bool,
    ) -> Result<(Option<Copying>, Option<Sums>), Failure> {
        let is_checked = self.options.check_writes && !guard;
        let sums = if is_checked { Some(Sums::of(&pieces)?) } else { None };
        let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
        if bytes > AT_ONCE_BYTES {
            if !guard {
                return Ok((Some(Copying::Threads(self.workspace.transfer(pieces)?)), sums));
            }
            if self.workspace.is_private(jobs)
                && let Some(copying) = self.copy_in_child(&pieces, jobs)
            {
                return Ok((Some(copying), sums));
            }
        }
        self.workspace.copy(&pieces);
        Ok((None, sums))
    }

    fn copy_in_child(&mut self, pieces: &[Piece], jobs: &[Job]) -> Option<Copying> {
        let child = self.workspace.copy_in_child(pieces)?;
        let own = self.workspace.own_after(&child, pieces, jobs);
        Some(Copying::Child(child, own))
    }

    /// Finishes the publish that was started, if one was, unless that takes longer than `slice`, see
    /// [`with_room`](Producer::with_room). On an error nothing is published, and what was written is part of the next version.
    pub(crate) fn finish(&mut self, slice: Option<Duration>) -> Result<Finish> {
        let Some(mut pending) = self.pending.take() else { return Ok(Finish::Done(self.finished.take())) };
        let begin = Instant::now();
        let room = match self.copy_rest(&mut pending, slice) {
            Ok(true) => self.commit(&pending, left(slice, begin)),
            Ok(false) => Ok(Room::Later),
            Err(error) => Err(error),
        };
        pending.spent += begin.elapsed();
        match room {
            Ok(Room::Made(copied_pages)) => {
                let Pending { label, spent, .. } = &pending;
                Ok(Finish::Done(Some(self.count(label.number, pending.dirty_pages(), Some(copied_pages), *spent))))
            }
            Ok(Room::Later) => {
                self.pending = Some(pending);
                Ok(Finish::Later)
            }
            room => {
                let (number, dirty_pages, spent) = (pending.label.number, pending.dirty_pages(), pending.spent);
                self.give_up(pending);
                room.map(|_| Finish::Done(Some(self.leave_out(number, dirty_pages, spent))))
            }
        }
    }

    /// Waits for whoever copies in the background, at most for `slice`. Whether nobody does any more.
    fn join(&self, pending: &mut Pending, slice: Option<Duration>) -> Result<bool> {
        match &mut pending.copying {
            Some(Copying::Threads(transfer)) => Ok(transfer.stop(slice)),
            Some(Copying::Child(child, own)) => {
                let begin = Instant::now();
                if !child.wait(slice) {
                    return Ok(false);
                }
                if !child.has_copied() {
                    // What the program has by now is something else.
                    return Err(Error::ChildGone { region: self.name.clone(), version: pending.label.number });
                }
                let Some(own) = own else { return Ok(true) };
                // At once it costs a sixth of what the faults would that are left over.
                own.help();
                Ok(own.stop(left(slice, begin)))
            }
            None => Ok(true),
        }
    }

    /// Copies what was not copied in the background. `false`: somebody copies still, and `slice` is over.
    fn copy_rest(&mut self, pending: &mut Pending, slice: Option<Duration>) -> Result<bool> {
        self.check_process()?;
        if !self.join(pending, slice)? {
            return Ok(false);
        }
        let rest = match pending.copying.take() {
            Some(Copying::Threads(mut transfer)) => {
                transfer.take_rest().map_err(|failure| Error::system(self.store.dir(), failure))?
            }
            Some(Copying::Child(..)) | None => Vec::new(),
        };
        points::hit("publish.joined");
        if !rest.is_empty() || pending.sums.is_some() {
            // It may have been freed since.
            let arrays = pending.inputs.iter().filter(|input| input.section.is_none());
            let mut checks = self.workspace.maps.checks();
            arrays.into_iter().try_for_each(|input| self.check_mapped(input, &mut checks))?;
        }
        self.workspace.copy(&rest);
        points::hit("publish.copied");
        match pending.sums.take().and_then(|sums| sums.find_written()) {
            Some(address) => Err(self.written(address, pending)),
            None => Ok(true),
        }
    }

    /// Names what was written while it was copied.
    fn written(&mut self, address: usize, pending: &Pending) -> Error {
        let version = pending.label.number;
        for job in &pending.jobs {
            let source = self.workspace.source_mut(job.id, job.source).filter(|source| source.gather.is_none());
            let Some(source) = source else { continue };
            let at = address.wrapping_sub(source.memory.address);
            if at < source.memory.pages * PAGE_BYTES {
                let page = at / PAGE_BYTES;
                let end = ((page + 1) * PAGE_BYTES - source.page_offset).min(source.bytes);
                let bytes = (page * PAGE_BYTES).saturating_sub(source.page_offset)..end;
                let name = self.state(job.id).map(|state| state.meta.name.clone());
                return name.map_or_else(|error| error, |name| Error::Written { name, version, page, bytes });
            }
        }
        // What was there before it was written is in memory of the caller's own.
        let why = format!("what version {version} shows of the time before was written while it was published");
        Error::BadOption { option: "before", why }
    }

    /// Makes the version visible, and returns how many pages were copied for it.
    fn commit(&mut self, pending: &Pending, slice: Option<Duration>) -> Result<Room<usize>> {
        let Pending { label, inputs, jobs, submitted, frames, .. } = pending;
        let room = self.with_room(slice, &mut |workspace, mut draft| {
            let frames = list::copied(frames, 0).map_err(|failure| Error::system(draft.store().dir(), failure))?;
            draft.adopt(frames);
            workspace.conclude(label, inputs, jobs, submitted, draft)
        })?;
        Ok(match room {
            Room::Made(committed) => {
                let copied_pages = committed.copied_pages;
                // No window is demoted: that would undo what was written since the dirty pages were found.
                self.end_publish(committed, submitted, &[]);
                Room::Made(copied_pages)
            }
            Room::Refused(error) => Room::Refused(error),
            Room::Later => Room::Later,
        })
    }

    /// Whether finishing need not wait for any copying.
    fn is_copied(&mut self) -> bool {
        self.pending.as_mut().is_none_or(Pending::is_copied)
    }

    /// Finishes the publish that was started, if one was, before something that would change what it publishes. `false`: that
    /// takes longer than `slice`.
    pub(crate) fn settle(&mut self, slice: Option<Duration>) -> Result<bool> {
        if self.pending.is_some() {
            match self.finish(slice)? {
                Finish::Done(published) => self.finished = published,
                Finish::Later => return Ok(false),
            }
        }
        Ok(true)
    }

    /// As [`settle`](Producer::settle), if that needs no waiting: for who asks again and again while the program goes on, which
    /// is no time that its rule is to count.
    pub(crate) fn settle_if_ready(&mut self) -> Result<bool> {
        let is_waiting = self.patience.wait.is_some();
        let is_settled = self.is_copied() && self.settle(Some(Duration::ZERO))?;
        if !is_settled && !is_waiting {
            self.end_wait();
        }
        Ok(is_settled)
    }

    /// For who ends: finishes the publish that was started when all is copied, if there is room by then. Nobody who ends waits
    /// for others to let go of versions.
    pub(crate) fn settle_at_end(&mut self) {
        if let Some(mut pending) = self.pending.take() {
            // What goes wrong comes again.
            let _ = self.join(&mut pending, None);
            self.pending = Some(pending);
            drop(self.finish(Some(Duration::ZERO)));
        }
        self.abandon();
    }

    /// Gives up the publish that was started, if one was. What was written is part of the next version.
    pub(crate) fn abandon(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.give_up(pending);
        }
    }

    fn give_up(&mut self, pending: Pending) {
        let Pending { jobs, frames, copying, .. } = pending;
        // Nobody writes to frames that may be used for something else.
        drop(copying);
        self.store.free_frames_of(&frames);
        self.workspace.remember(&jobs);
    }
}

/// What is left of a slice that began then.
pub(crate) fn left(slice: Option<Duration>, begin: Instant) -> Option<Duration> {
    slice.map(|slice| slice.saturating_sub(begin.elapsed()))
}
