//! Room: memory and ring slots for what is to be published or lent, and what happens while there is none.
//!
//! First the region gives back what nobody needs: what a former run left and was set aside, memory of idle frames, then versions
//! that nobody holds. What is left is held by observers, and then the region's rule decides. Whoever waits keeps nothing of what a try took, so that others who share
//! the file system get what they can use, and tries again only when there may be enough.

use crate::error::{Error, Result};
use crate::inspect::holders::holders_of;
use crate::observer::options::ObserverOptions;
use crate::producer::options::Rule;
use crate::producer::patience::{Patience, Wait};
use crate::producer::retention;
use crate::producer::state::{Producer, Workspace};
use crate::store::draft::Draft;
use std::time::{Duration, Instant};
use stillframe_kernel::remark;

/// Pauses between two looks whether somebody let go: an eighth of the time waited so far, so that a wait is hardly longer than
/// it has to be, and a long one costs nearly nothing.
const PAUSE_MIN: Duration = Duration::from_micros(50);

const PAUSE_MAX: Duration = Duration::from_millis(20);

const PAUSE_SHARE: u32 = 8;

/// Waits that last so long are told on standard error.
const SAID_AFTER: Duration = Duration::from_secs(2);

/// Holders named in a line on standard error.
const NAMED_MAX: usize = 3;

/// What came of asking for room.
#[derive(Debug)]
pub(crate) enum Room<T> {
    /// There is room, and this was made of it.
    Made(T),
    /// There is none, for this reason, and the rule is to go on without.
    Refused(Error),
    /// There is none yet, and the caller wants to be asked before more is waited for.
    Later,
}

/// What the rule says when there is no room.
enum Verdict {
    /// Wait, at most so long if there is a limit.
    Wait(Option<Duration>),
    Refuse,
    Fail,
}

impl Verdict {
    /// To wait until so much of `limit` is used up that the other verdict holds.
    fn wait(limit: Option<Duration>, waited: Duration, then: Verdict) -> Verdict {
        match limit.map(|limit| limit.saturating_sub(waited)) {
            Some(Duration::ZERO) => then,
            left => Verdict::Wait(left),
        }
    }
}

impl Producer {
    /// Runs `attempt`, which chooses frames and takes memory for them, until there is room for it, making room as the region's
    /// rule says. Unless it was made nothing stays chosen or taken. With a `slice` it returns when it has waited so long, and
    /// goes on waiting, for those who look, until it is called again or [`end_wait`](Producer::end_wait) is.
    #[allow(clippy::type_complexity)]
    pub(crate) fn with_room<T>(
        &mut self,
        slice: Option<Duration>,
        attempt: &mut dyn FnMut(&mut Workspace, Draft<'_>) -> Result<T>,
    ) -> Result<Room<T>> {
        let room = self.seek_room(slice, attempt);
        if !matches!(room, Ok(Room::Later)) {
            self.end_wait();
        }
        room
    }

    #[allow(clippy::type_complexity)]
    fn seek_room<T>(
        &mut self,
        slice: Option<Duration>,
        attempt: &mut dyn FnMut(&mut Workspace, Draft<'_>) -> Result<T>,
    ) -> Result<Room<T>> {
        // Of the first try that found none: most find room at once.
        let mut begin: Option<Instant> = None;
        let mut is_cool = false;
        loop {
            let present_bytes = self.store.planes().present_bytes();
            let tried = match self.store.free_slot() {
                None => {
                    let (region, slots, held) = (self.store.name.clone(), self.store.slots(), self.held());
                    Err(Error::NoSlot { region, slots, held, enclaves: Vec::new() })
                }
                Some(_) => attempt(&mut self.workspace, self.store.draft()),
            };
            let error = match tried {
                Ok(made) => return Ok(Room::Made(made)),
                Err(error) => error,
            };
            if !error.is_want_of_room() {
                return Err(error);
            }
            let begin = *begin.get_or_insert_with(Instant::now);
            if matches!(error, Error::NoSpace { .. } | Error::ArenaFull { .. }) && self.end.run.make_room() {
                continue;
            }
            let was_cool = std::mem::replace(&mut is_cool, true);
            if !was_cool || self.store.planes().present_bytes() > present_bytes {
                self.store.planes_mut().cool(true);
            }
            if !was_cool {
                continue;
            }
            loop {
                if self.give_way()? {
                    is_cool = false;
                    break;
                }
                let left = match self.verdict(&error) {
                    Verdict::Refuse => return Ok(Room::Refused(error)),
                    Verdict::Fail => return Err(error.held_in(|| self.enclaves())),
                    Verdict::Wait(left) => left,
                };
                let left_of_slice = slice.map(|slice| slice.saturating_sub(begin.elapsed()));
                self.begin_wait();
                if left_of_slice == Some(Duration::ZERO) {
                    return Ok(Room::Later);
                }
                let pause = (self.patience.waited() / PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX);
                std::thread::sleep([left, left_of_slice].into_iter().flatten().fold(pause, Duration::min));
                // Others may have made room in the file system, or in the arena.
                match error {
                    Error::NoSpace { needed_bytes, .. } if self.store.planes().may_take(needed_bytes) => break,
                    Error::ArenaFull { .. } => break,
                    _ => {}
                }
            }
        }
    }

    /// Lets go of versions that nobody holds, or asks for those that were held; true if any went, or may go now.
    fn give_way(&mut self) -> Result<bool> {
        let Producer { store, peers, .. } = self;
        let before = store.versions().len();
        if retention::retire_for_room(store, peers.as_mut())? || store.versions().len() < before {
            return Ok(true);
        }
        store.retire_retiring()?;
        Ok(store.versions().len() < before)
    }

    fn verdict(&self, error: &Error) -> Verdict {
        let held = self.held();
        let Patience { spent, .. } = &self.patience;
        let waited = self.patience.waited();
        match self.options.rule {
            Rule::Skip if held > 0 || !matches!(error, Error::NoSpace { .. }) => Verdict::Refuse,
            // What nobody holds, nobody lets go of: waiting could be for ever, and for nobody who can be named.
            _ if held == 0 => Verdict::Fail,
            Rule::Skip | Rule::Fail => Verdict::Fail,
            Rule::Wait { timeout } => Verdict::wait(timeout, waited, Verdict::Fail),
            Rule::WaitThenSkip { limit } => Verdict::wait(Some(limit), *spent + waited, Verdict::Refuse),
        }
    }

    /// The other enclaves in which versions older than the newest are held, as far as they can be asked.
    fn enclaves(&self) -> Vec<String> {
        let versions = self.store.versions();
        let older =
            versions[..versions.len().saturating_sub(1)].iter().fold(0, |all, one| all | 1u64 << one.leased.slot);
        let mut enclaves = self.store.leases.enclaves().unwrap_or_default();
        enclaves.retain(|(_, slots)| slots & older != 0);
        enclaves.into_iter().map(|(name, _)| name).collect()
    }

    /// Shows that the producer waits, and says so when it has for long.
    fn begin_wait(&mut self) {
        if self.patience.wait.is_none() {
            self.patience.wait = Some(Wait { begin: Instant::now(), is_said: false });
            self.store.head.set_waiting(true);
        }
        let Some(wait) = &mut self.patience.wait else { return };
        if wait.begin.elapsed() >= SAID_AFTER && !std::mem::replace(&mut wait.is_said, true) {
            self.say(format!("has waited for room for {} s", SAID_AFTER.as_secs()));
        }
    }

    /// Ends the wait that goes on, if one does.
    pub(crate) fn end_wait(&mut self) {
        if let Some(wait) = self.patience.wait.take() {
            self.patience.spent += wait.begin.elapsed();
            self.store.head.set_waiting(false);
        }
    }

    /// Counts a publish that is left out.
    pub(crate) fn skip(&mut self, version: u64) {
        self.patience.skipped += 1;
        self.store.head.set_skipping(self.patience.skipped);
        // Whoever asked for `skip` knows.
        if let (1, Rule::WaitThenSkip { .. }) = (self.patience.skipped, self.options.rule) {
            let waited = self.patience.spent.as_secs_f64();
            self.say(format!(
                "has no room after waiting {waited:.1} s, and leaves out version {version} and those after it until there is"
            ));
        }
    }

    /// Begins anew with a version that was published.
    pub(crate) fn forget_waiting(&mut self) {
        if self.patience.skipped > 0 {
            self.store.head.set_skipping(0);
        }
        self.patience = Patience::default();
    }

    fn say(&self, what: String) {
        let (name, inner, newest) = (self.name.clone(), self.store.name.clone(), self.store.newest_number());
        let observer = self.options.trusted().map(|trust| self.options.observing().trust(trust));
        remark::say(move || {
            let holders = name_holders(observer, &inner, newest);
            format!("region '{name}' {what}: {holders}; 'still show {name}' tells who holds what")
        });
    }
}

/// Who holds versions older than the newest, for people.
fn name_holders(options: Result<ObserverOptions>, name: &str, newest: Option<u64>) -> String {
    let holders = options.and_then(|options| options.open(name)).and_then(|observer| holders_of(&observer));
    let mut holders = holders.unwrap_or_default();
    holders.retain(|holder| holder.version.is_none() || holder.version < newest);
    if holders.is_empty() {
        return "old versions are held".into();
    }
    let mut names: Vec<String> = holders.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    if holders.len() > NAMED_MAX {
        names.push(format!("{} more", holders.len() - NAMED_MAX));
    }
    names.join(", ")
}
