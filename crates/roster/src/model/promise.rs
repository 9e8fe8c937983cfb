//! What holds in every state.

use std::collections::BTreeSet;

use drepl::IndexSet;

use super::world::{Checked, INITIAL, Setup, World, range};
use crate::{
    home::Home,
    readiness::Readiness,
    writer::{Version, Writer},
};

impl World {
    pub fn check_announced(&mut self, setup: &Setup, home: &Home) -> Checked {
        let announced = home.announced();
        let version = announced.version;
        if announced.is_gone() {
            // It may never have been complete, and nobody gets anything of it.
            return Ok(());
        }
        if let Some((before, members)) = self.seen.announced.get(&version) {
            // Of a node that was lost a new home does not know.
            let is_same = before == announced && members_of(home, version).is_subset(members);
            return if is_same { Ok(()) } else { Err(format!("homes announced version {version} differently")) };
        }
        let members = members_of(home, version);
        let known: BTreeSet<usize> = members.iter().map(|writer| writer.process as usize).collect();
        if !setup.rosters(version).contains(&known) {
            return Err(format!("version {version} was announced with the writers {known:?}"));
        }
        if let Some(writer) = known.iter().find(|writer| !self.seen.published.contains(&(**writer, version))) {
            return Err(format!("version {version} was announced, and writer {writer} did not publish it"));
        }
        self.seen.announced.insert(version, (announced.clone(), members));
        self.check_found_alone()
    }

    /// What programs of a node find complete by themselves is what homes say.
    pub fn check_boards(&mut self, setup: &Setup, node: usize) -> Checked {
        if let Some(version) = self.find_alone(setup, node) {
            self.seen.found_alone.insert(version, node);
        }
        self.check_found_alone()
    }

    fn check_found_alone(&self) -> Checked {
        for (version, node) in &self.seen.found_alone {
            let is_other = |members: &BTreeSet<Writer>| members.iter().any(|writer| writer.node.0 as usize != *node);
            if self.seen.announced.get(version).is_some_and(|(_, members)| is_other(members)) {
                return Err(format!("version {version} is complete twice"));
            }
        }
        Ok(())
    }

    /// The newest version that was ever announced can be had, unless a node died or yielded.
    pub fn check_pins(&self) -> Checked {
        for (node, runtime) in self.runtimes.iter().enumerate() {
            let Some(runtime) = runtime else { continue };
            if let Some((node, version)) =
                self.seen.given_up.iter().find(|(at, version)| *at == node && runtime.has_pinned(*version))
            {
                return Err(format!("node {node} pinned version {version} anew"));
            }
        }
        let Some((version, (proposal, _))) = self.seen.announced.last_key_value() else { return Ok(()) };
        // A new home need not know of a version that was announced and given up before it came.
        if self.homes.len() > 1 && self.has_lost(*version) {
            return Ok(());
        }
        // Where a node died, the version is lost as a whole.
        let nodes: Option<Vec<_>> = proposal
            .nodes
            .iter()
            .map(|node| Some((node.0 as usize, self.runtimes[node.0 as usize].as_ref()?)))
            .collect();
        for (node, runtime) in nodes.into_iter().flatten() {
            if !runtime.has_pinned(*version) && !self.seen.given_up.contains(&(node, *version)) {
                return Err(format!("version {version} is complete, and node {node} does not pin it"));
            }
        }
        Ok(())
    }

    /// What a reader is told to read is of the version, and is all that it wants, once.
    pub fn check_answer(&self, setup: &Setup, reader: usize, readiness: &Readiness) -> Checked {
        let (_, version, start, end) = setup.wants[reader];
        let Readiness::Ready(shares) = readiness else { return Ok(()) };
        if version == INITIAL && shares.is_empty() {
            return Ok(());
        }
        let mut given = 0;
        for share in shares {
            let Some(who) = share.who else { return Err("elements of nobody are ready".into()) };
            let writer = who.writer.process as usize;
            given += share.elements.count();
            let is_its_own =
                setup.elements(writer, version).is_some_and(|own| own.contains_all(&share.elements).unwrap());
            if !is_its_own || !self.seen.published.contains(&(writer, version)) {
                return Err(format!("reader {reader} gets elements of another version than {version} from {writer}"));
            }
        }
        let all = IndexSet::of(shares.iter().flat_map(|share| share.elements.boxes())).unwrap();
        let is_all = all.same_elements(&range(start, end)).unwrap() && given == all.count();
        if is_all { Ok(()) } else { Err(format!("reader {reader} gets {all} of version {version}")) }
    }
}

/// The members of a version, as a home knows them.
pub fn members_of(home: &Home, version: Version) -> BTreeSet<Writer> {
    home.ledger().roster(version).members.iter().map(|member| member.record.writer).collect()
}
