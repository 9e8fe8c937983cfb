//! Regions whose versions belong together, and that are no group.

use crate::error::{Error, Result};
use crate::group::peers::{PeerRegion, Peers};
use crate::place::directory::Directory;
use crate::place::names;
use crate::producer::region::Region;
use crate::producer::retention;
use crate::producer::state::Producer;
use crate::store::regions::Regions;
use std::collections::HashSet;
use std::ops::Range;
use stillframe_segment::head::RANKS_MAX;

impl Region {
    /// Names the other regions whose versions belong together with this region's. It then retains, besides the newest `keep`,
    /// the newest version that all of them have and at most [`drift`](crate::RegionOptions::drift) that some have still to
    /// publish: as the rank of a group does for the other ranks. If they name each other, there is a version that all have at
    /// every instant after all have published for the first time. An empty list: there are none, and `keep` alone counts.
    ///
    /// The list may change between any two publishes, and the one that is there already costs nearly nothing. What was
    /// retained for a peer that is not named any more goes at once.
    ///
    /// * Versions are the same if they have the same number and are of the same run: see
    ///   [`RegionOptions::run`](crate::RegionOptions::run).
    /// * A peer takes part from its version [`from`](PeerRegion::from) on, and counts as having those below. What this region
    ///   let go of before it named the peer is not there any more, so for a peer that joins this is a version which nobody has
    ///   published yet.
    /// * A peer that has not begun is waited for; so is a name that is a rank's of a group, which is no peer.
    /// * For a peer whose producer is gone, or whose region was removed, nothing is retained that it had still to publish.
    ///   It is noticed within 10 ms, or 1 ms for each region if that is more, by the next publish.
    ///
    /// # Errors
    /// [`Error::BadOption`] on a rank of a group, whose peers are the other ranks, or if a region is named twice or is this one,
    /// or if they are 65 536 or more, or if `drift` makes no sense; [`Error::BadName`] if a name cannot be a region's; environment if the directory of
    /// the regions cannot be opened. The peers are those from before then.
    pub fn set_peers(&mut self, peers: &[PeerRegion]) -> Result<()> {
        self.producer.check_process()?;
        self.producer.set_peers(peers, &[], None::<fn() -> bool>)
    }

    /// As [`set_peers`](Region::set_peers), for who has the list from somewhere where it may change at any time: nothing is let go
    /// of because all of these peers have something newer, unless `is_current` says so after they were looked at. It counts
    /// until the next list.
    ///
    /// Versions in `open` are never ones that all have: somebody would have to publish them too who is not known.
    ///
    /// # Errors
    /// As [`set_peers`](Region::set_peers).
    pub fn set_peers_while(
        &mut self,
        peers: &[PeerRegion],
        open: &[Range<u64>],
        is_current: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Result<()> {
        self.producer.check_process()?;
        self.producer.set_peers(peers, open, Some(is_current))
    }
}

impl Producer {
    fn set_peers(
        &mut self,
        named: &[PeerRegion],
        open: &[Range<u64>],
        condition: Option<impl Fn() -> bool + Send + Sync + 'static>,
    ) -> Result<()> {
        if self.options.rank.is_some() {
            let why =
                format!("region '{}' is a rank of a group, whose peers are the other ranks: name none", self.name);
            return Err(Error::BadOption { option: "peers", why });
        }
        match &self.peers {
            None if named.is_empty() => return Ok(()),
            Some(peers) if condition.is_none() && peers.are(named) => return Ok(()),
            _ => {}
        }
        self.check_peers(named)?;
        self.peers = match self.peers.take() {
            _ if named.is_empty() => None,
            Some(peers) => Some(peers),
            None => Some(Peers::new(&self.regions()?)),
        };
        if let Some(peers) = &mut self.peers {
            peers.trust_while(condition);
        }
        let Producer { store, peers, options, run, .. } = self;
        peers.iter_mut().for_each(|peers| peers.name(named, open, store.versions(), *run));
        // The peers are named, whatever cannot be let go of: that is tried again at the next publish.
        let _ = retention::retire_unwanted(store, peers.as_mut(), options);
        Ok(())
    }

    fn check_peers(&self, named: &[PeerRegion]) -> Result<()> {
        let fail = |why| Err(Error::BadOption { option: "peers", why });
        self.options.check_drift()?;
        if named.len() >= RANKS_MAX as usize {
            return fail(format!("{} regions are named, and {} are the most", named.len(), RANKS_MAX - 1));
        }
        let mut seen = HashSet::new();
        for PeerRegion { name, .. } in named {
            names::region_dir(&self.options.dir, name)?;
            if *name == self.store.name {
                return fail(format!("'{name}' is the region itself: name only others"));
            }
            if !seen.insert(name) {
                return fail(format!("'{name}' is named twice: name each region once"));
            }
        }
        Ok(())
    }

    /// The regions among which this one lies.
    fn regions(&self) -> Result<Regions> {
        if let Some(arena) = &self.options.arena {
            return Ok(self.options.regions_of(arena));
        }
        let dir = &self.options.dir;
        match Directory::root(dir, self.options.guard()?)? {
            Some(root) => Ok(Regions::Directory(root)),
            None => Err(Error::NoRegion { region: self.name.clone(), dir: dir.clone() }),
        }
    }
}
