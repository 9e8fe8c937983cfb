//! Opening a region by its name, once it is there.

use crate::error::{Error, Result};
use crate::group::elsewhere::Elsewhere;
use crate::observer::Observer;
use crate::observer::attachment::Shared;
use crate::observer::options::ObserverOptions;
use crate::observer::ranks::survey;
use crate::place::arena::Arena;
use crate::place::broker::{addressed, socket_in};
use crate::place::files::Root;
use crate::place::names;
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_kernel::workers::Workers;

/// The longest pause between two looks for what is not there yet: in a directory, and by a question to a broker, which others ask too.
const PAUSES: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(50)];

/// Every how many questions it is also asked whether a group has the name, by another one.
const SURVEY_EVERY: u32 = 20;

impl ObserverOptions {
    /// Opens a region that is there.
    pub(crate) fn open_once(&self, name: &str) -> Result<Observer> {
        names::region_dir(&self.dir, name)?;
        let missing = || Error::NoRegion { region: name.into(), dir: self.dir.clone() };
        if let Some(arena) = &self.arena {
            let shared = Shared::in_arena(arena, &self.inner(name), &self.shown(name))?;
            return Ok(self.observe(shared.ok_or_else(missing)?));
        }
        let guard = names::looking(&self.dir, self.trust)?;
        if let Some((arena, region)) = Arena::noted(&self.dir, guard, name)
            && let Some(shared) = Shared::in_arena(&arena, region, name)?
        {
            return Ok(self.observe(shared));
        }
        let root = Root::open(&self.dir, guard)?.ok_or_else(missing)?;
        Ok(self.observe(Shared::open(&root, name)?.ok_or_else(missing)?))
    }

    fn observe(&self, mut shared: Shared) -> Observer {
        shared.pace = self.pace.clone();
        shared.workers = self.populate.map(|threads| Arc::new(Workers::new(threads)));
        Observer { shared: Arc::new(shared) }
    }

    /// Opens an observer on a region.
    ///
    /// # Errors
    /// [`Error::NoRegion`], or with a wait [`Error::Timeout`]; [`Error::IsGroup`], see
    /// [`open_any`](ObserverOptions::open_any); [`Error::Denied`] if it is another user's;
    /// [`Error::Corrupt`] if its head is damaged; [`Error::BadOption`] if an option makes no sense.
    pub fn open(mut self, name: &str) -> Result<Observer> {
        if let Some(threads @ (0 | 1025..)) = self.populate {
            return Err(Error::BadOption { option: "populate", why: format!("{threads} is not between 1 and 1024") });
        }
        let (dir, name) = addressed(&self.dir, name);
        self.dir = dir;
        self.begin_polite()?;
        let begin = Instant::now();
        let deadline = begin.checked_add(self.wait);
        let is_brokers = socket_in(&self.dir).is_some();
        let (mut pause, longest) = (Duration::from_micros(200), PAUSES[usize::from(is_brokers)]);
        let mut looks = 0;
        let mut elsewhere = None;
        let observer = loop {
            match self.open_once(name) {
                // It is here for as long as somebody asks.
                Ok(mut observer) => {
                    Arc::get_mut(&mut observer.shared)
                        .into_iter()
                        .for_each(|shared| shared.elsewhere = elsewhere.take());
                    break observer;
                }
                Err(error @ Error::NoRegion { .. }) => {
                    let is_last = self.wait.is_zero() || deadline.is_some_and(|deadline| deadline <= Instant::now());
                    let is_asked = !is_brokers || is_last || looks % SURVEY_EVERY == 0;
                    looks += 1;
                    if is_asked && let Some(ranks) = survey(&self, name, &[])? {
                        return Err(Error::IsGroup { region: name.into(), ranks: ranks.len() as u32 });
                    }
                    // It may be a group that has no rank on this node, or such a rank.
                    if elsewhere.is_none() {
                        elsewhere = Elsewhere::ask(&self, names::group_of(name));
                        if self.wait.is_zero() && elsewhere.as_ref().is_some_and(Elsewhere::wait) {
                            continue;
                        }
                    }
                    elsewhere.iter().for_each(Elsewhere::look);
                    let left =
                        deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()));
                    if self.wait.is_zero() {
                        return Err(error);
                    }
                    if left.is_zero() {
                        return Err(Error::Timeout {
                            region: name.into(),
                            what: "the region to appear",
                            waited: self.wait,
                        });
                    }
                    // Nothing can be waited on in a directory that may not exist yet, so this polls.
                    std::thread::sleep(pause.min(left));
                    pause = (pause * 2).min(longest);
                }
                // A broker may be started later than who looks, and an arena be being made.
                Err(Error::NoBroker { .. } | Error::NoArena { half_made: true, .. })
                    if deadline.is_none_or(|deadline| Instant::now() < deadline) =>
                {
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(longest);
                }
                Err(error) => return Err(error),
            }
        };
        if !self.wait.is_zero() {
            let left = self.wait.saturating_sub(begin.elapsed());
            match observer.newest_after(None, Some(left)) {
                // A region that nobody will fill can still be looked at.
                Ok(_) | Err(Error::ProducerGone { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(observer)
    }
}
