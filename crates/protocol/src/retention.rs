//! Which versions a rank of a group retains for the sake of slower ranks.
//!
//! The ranks of a group publish the same numbers, each when it comes to them, and agree on nothing: each reads the heads
//! of the others and decides for itself. A version is *common* once all ranks have it, and each rank sees to it that
//! there is a common version at every instant after all have published for the first time.
//!
//! # The rules
//!
//! * What is older than a common version may go.
//! * What is newer stays for those that have still to publish it, unless one of them is gone, or one went past it
//!   without having it: then it will never be common.
//! * There are bounds: at most so many versions, and the region's memory. At a bound versions in between go. Two stay
//!   longest: the newest common one, and the oldest after it, which is the next to be common.
//!
//! # Why two ranks never let go of each other's choice
//!
//! A rank that lets old versions go *relies* on a newer one being common. Another rank must not let go of that one because
//! it does not know yet that it became common. So whoever lets go of a version that is not past first retires it *tentatively*, where
//! all can see it, and then looks whether all others have it; if they have, it stays. Whoever relies on a version first
//! finds it everywhere, and then finds it tentative nowhere. Each side first shows itself and then looks, with sequentially
//! consistent fences in between, so at least one sees the other: the mirror of lease and retire.
//!
//! So of all versions that were ever relied on the newest is still everywhere: it could only go as past, for the sake of
//! a newer one that somebody relied on. The exceptions are bounds of memory, and a rank that is removed.
//!
//! # Those that join
//!
//! Nothing here asks for the ranks of one group: regions may come and go. One that takes part from a version on
//! counts as having those below, and its newest is then at least the one before. So it stands in the way of nothing that was
//! common before it came.

#[cfg(loom)]
use loom::sync::atomic::{Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{Ordering, fence};

/// Another rank of the group, as far as its head tells. Loads have acquire ordering.
pub trait Peer {
    /// Number of its newest version; `None` if it has none or has not begun.
    fn newest(&self) -> Option<u64>;
    /// Whether it has this version live.
    fn has(&self, version: u64) -> bool;
    /// Whether it does not retire this version tentatively, and then still has it live.
    fn is_firm(&self, version: u64) -> bool;
    /// Whether it may still publish: false once it is gone.
    fn may_publish(&self) -> bool;
}

/// A version that may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spare {
    /// Its number.
    pub version: u64,
    /// Whether it is known that it will not be common again. If not, it is retired tentatively first, and stays if
    /// [`is_everywhere`] is true then.
    pub is_past: bool,
}

/// What a rank knows of its group from one publish to the next.
#[derive(Debug, Clone, Default)]
pub struct Retention {
    /// The newest version that was found common.
    common: Option<u64>,
    /// Newest version of the slowest rank when that was looked for.
    slowest: Option<u64>,
}

/// Whether all others have a version. Asked by whoever retires it tentatively.
pub fn is_everywhere<C: Peer>(version: u64, peers: &[C]) -> bool {
    fence(Ordering::SeqCst);
    peers.iter().all(|peer| peer.has(version))
}

/// What is known of a version that all ranks have published or passed.
enum Finding {
    Common,
    Tentative,
    Past,
}

fn find<C: Peer>(version: u64, peers: &[C]) -> Finding {
    if !peers.iter().all(|peer| peer.has(version)) {
        return Finding::Past;
    }
    fence(Ordering::SeqCst);
    match peers.iter().all(|peer| peer.is_firm(version)) {
        true => Finding::Common,
        false => Finding::Tentative,
    }
}

impl Retention {
    /// The newest version that was found to be common.
    pub fn common(&self) -> Option<u64> {
        self.common
    }

    /// Looks for common versions anew at the next publish, because one of the others is not what it was.
    pub fn forget(&mut self) {
        self.slowest = None;
    }

    /// Which of the rank's own live versions may go after a publish; they are given ascending, the last being the newest.
    /// `keep` of the newest stay in any case, and of the others at most `drift`.
    ///
    /// As long as the slowest rank has nothing new, this loads no more than the newest word of each.
    pub fn spares<C: Peer>(&mut self, own: &[u64], keep: usize, drift: usize, peers: &[C]) -> Vec<Spare> {
        let mut spares = Vec::new();
        // Nothing that was read before the own version was committed counts.
        fence(Ordering::SeqCst);
        let newest = own.last().copied();
        let slowest = peers.iter().fold(newest, |least, peer| least.min(peer.newest()));
        let kept = own.len() - keep.min(own.len());
        let passed = own.partition_point(|version| Some(*version) <= slowest);
        if slowest != self.slowest {
            self.common = None;
            let mut is_certain = true;
            for (index, version) in own[..passed].iter().copied().enumerate().rev() {
                let finding = match self.common {
                    Some(_) => Finding::Past,
                    None => find(version, peers),
                };
                match finding {
                    Finding::Common => self.common = Some(version),
                    Finding::Tentative => is_certain = false,
                    Finding::Past if index < kept => spares.push(Spare { version, is_past: true }),
                    Finding::Past => {}
                }
            }
            self.slowest = slowest.filter(|_| is_certain);
        } else {
            // What was among the newest when that was found out.
            let past = own[..passed.min(kept)].iter().filter(|version| Some(**version) != self.common);
            spares.extend(past.map(|version| Spare { version: *version, is_past: true }));
        }
        let Some(furthest) = own[passed.min(kept)..kept].last().copied() else { return spares };
        let is_gone = |peer: &&C| peer.newest() < Some(furthest) && !peer.may_publish();
        if let Some(end) = peers.iter().filter(is_gone).map(Peer::newest).min() {
            let waiting = own[..kept].iter().filter(|version| Some(**version) > end);
            spares.extend(waiting.map(|version| Spare { version: *version, is_past: false }));
        }
        let mut retained: Vec<u64> =
            own[..kept].iter().copied().filter(|own| spares.iter().all(|spare| spare.version != *own)).collect();
        if retained.len() > drift {
            // What a faster rank let go is common never.
            let is_past =
                |version: u64| peers.iter().any(|other| other.newest() >= Some(version) && !other.has(version));
            retained.retain(|version| {
                let is_past = Some(*version) > slowest && is_past(*version);
                if is_past {
                    spares.push(Spare { version: *version, is_past });
                }
                !is_past
            });
        }
        while retained.len() > drift
            && let Some(version) = self.least_wanted(&retained)
        {
            retained.retain(|other| *other != version);
            spares.push(Spare { version, is_past: false });
        }
        spares
    }

    /// The versions among these that go when there is no room, those that are wanted least first. They are ascending and
    /// do not have the newest.
    pub fn by_want(&self, retained: &[u64]) -> Vec<u64> {
        let mut left = retained.to_vec();
        let mut order = Vec::with_capacity(left.len());
        while let Some(version) = self.least_wanted(&left).or_else(|| left.pop()) {
            left.retain(|other| *other != version);
            order.push(version);
        }
        order
    }

    /// Which of the versions that slower ranks have still to publish goes first. `None`: there are only the common one and
    /// the next.
    ///
    /// All ranks choose alike, whatever else they have, so that they do not let go of different ones. Multiples of the
    /// golden ratio are spread evenly, those of any choice of versions that follow each other in equal steps too: so the
    /// versions that remain have similar distances, and the group goes on in similar steps.
    fn least_wanted(&self, retained: &[u64]) -> Option<u64> {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let next = retained.iter().copied().find(|version| Some(*version) > self.common);
        let others = retained.iter().copied().filter(|version| Some(*version) != self.common && Some(*version) != next);
        others.min_by_key(|version| version.wrapping_mul(GOLDEN))
    }
}
