//! The members of one version, and whether they are all.

use std::collections::BTreeSet;

use drepl::{IndexSet, index_box::TooScattered};

use crate::writer::{Elements, Node, Record, Role, Version};

/// One writer of a version.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// What is known of it.
    pub record: &'a Record,
    /// What it writes of the version.
    pub elements: &'a Elements,
    expected: Option<u32>,
    from: Version,
}

impl<'a> Member<'a> {
    pub(crate) fn of(record: &'a Record, version: Version) -> Option<Self> {
        let stage = record.stage(version)?;
        match &stage.role {
            Role::Member { elements, expected } => {
                Some(Self { record, elements, expected: *expected, from: stage.from })
            }
            Role::Left | Role::Died { .. } => None,
        }
    }

    /// Whether the version can be had from it.
    pub fn has(&self, version: Version) -> bool {
        self.record.published.present.contains(&version)
    }
}

/// Whether a roster has all members that it will have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Closure {
    /// It has: they cover the object, or there are as many as the program said.
    Closed,
    /// More have to come.
    Open {
        /// How many; `None` where the object has to be covered.
        missing: Option<u32>,
    },
    /// Two members have elements in common: one of them has to change before it publishes.
    Overlapping,
    /// More attached than the program said, or members say different numbers.
    Miscounted {
        /// How many there are.
        members: u32,
        /// The least and the largest number that was said.
        expected: (u32, u32),
    },
}

/// Who writes what in one version. All versions of an epoch have the same.
#[derive(Debug, Clone)]
pub struct Roster<'a> {
    /// The version.
    pub version: Version,
    /// The first version of its epoch.
    pub epoch: Version,
    /// Its members, in the order of their names.
    pub members: Vec<Member<'a>>,
    pub(crate) shape: &'a Elements,
}

impl Roster<'_> {
    /// Whether all members are there.
    pub fn closure(&self) -> Result<Closure, TooScattered> {
        let written = self.written()?;
        let given: u128 = self.members.iter().map(|member| member.elements.count()).sum();
        if written.count() < given {
            return Ok(Closure::Overlapping);
        }
        // What was said last counts: it is from a later epoch.
        let last = self.members.iter().filter(|member| member.expected.is_some()).map(|member| member.from).max();
        let said = self.members.iter().filter(|member| Some(member.from) == last).filter_map(|member| member.expected);
        let said: BTreeSet<u32> = said.collect();
        let members = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        Ok(match (said.first().copied(), said.last().copied()) {
            (Some(least), Some(most)) if least != most || members > most => {
                Closure::Miscounted { members, expected: (least, most) }
            }
            (Some(expected), _) if members == expected => Closure::Closed,
            (Some(expected), _) => Closure::Open { missing: Some(expected - members) },
            _ if written.count() == self.shape.count() => Closure::Closed,
            _ => Closure::Open { missing: None },
        })
    }

    /// Elements that nobody writes.
    pub fn holes(&self) -> Result<IndexSet, TooScattered> {
        self.shape.difference(&self.written()?)
    }

    /// The nodes of its members.
    pub fn nodes(&self) -> BTreeSet<Node> {
        self.members.iter().map(|member| member.record.writer.node).collect()
    }

    fn written(&self) -> Result<IndexSet, TooScattered> {
        IndexSet::of(self.members.iter().flat_map(|member| member.elements.boxes()))
    }
}
