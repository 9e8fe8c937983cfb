//! Writers of this node: what its board tells of them, and what they are told.

use super::Watched;
use crate::error::Result;
use crate::surroundings::Surroundings;
use std::collections::BTreeSet;
use stillframe_kernel::points;
use stillframe_object::relay::{FragmentRefusal, LocalFragment};
use stillframe_roster::runtime::Runtime;
use stillframe_roster::writer::{Stage, Version, Who, Writer};

impl Watched {
    pub(super) fn note_fragments(&mut self, fragments: Vec<LocalFragment>, around: &Surroundings) -> Result<()> {
        let mut seen = BTreeSet::new();
        for fragment in fragments {
            let writer = Writer { node: around.node, ..fragment.who.writer };
            seen.insert(writer);
            self.note_fragment(writer, &fragment)?;
            self.known.local.insert(writer, fragment);
        }
        // Those that the board does not tell of any more have no version left.
        let gone: Vec<Writer> = self.known.local.keys().copied().filter(|writer| !seen.contains(writer)).collect();
        for writer in gone {
            self.known.local.remove(&writer);
            self.drop_all_but(writer, &[]);
            self.known.protocol.die(writer);
        }
        Ok(())
    }

    pub(super) fn note_fragment(&mut self, writer: Writer, fragment: &LocalFragment) -> Result<()> {
        let number = writer.serial;
        if fragment.is_accepted.is_some() {
            self.decided.insert(number);
        }
        if fragment.is_accepted == Some(false) || self.verdicts.get(&number).is_some_and(Result::is_err) {
            // Its program is to detach it.
            return Ok(());
        }
        if self.known.protocol.record(writer).is_none() {
            if fragment.left.is_some_and(|left| left <= fragment.from) {
                return Ok(());
            }
            let stage = match fragment.writers {
                Some(writers) => Stage::member_of(fragment.from, fragment.elements.clone(), writers),
                None => Stage::member(fragment.from, fragment.elements.clone()),
            };
            let who = Who { writer, rank: fragment.who.rank };
            if fragment.is_accepted == Some(true) {
                self.known.protocol.restore(who, vec![stage]);
            } else if let Err(refusal) = self.known.protocol.declare(who, stage) {
                self.decide(number, Err((&refusal).into()));
                return Ok(());
            }
        }
        let known = |protocol: &Runtime| {
            let record = protocol.record(writer);
            record.and_then(|record| record.published.newest)
        };
        // What it published from there on, where another has its place, counts for nothing.
        let newer = |protocol: &Runtime, version: Version| {
            fragment.left.is_none_or(|left| version < left) && known(protocol).is_none_or(|newest| version > newest)
        };
        let news = fragment.present.iter().copied().filter(|version| newer(&self.known.protocol, *version));
        for version in news.collect::<Vec<_>>() {
            // What it is no member of counts for nobody.
            let _ = self.known.protocol.publish(writer, version);
        }
        if let Some(newest) = fragment.newest.filter(|newest| newer(&self.known.protocol, *newest)) {
            let _ = self.known.protocol.publish(writer, newest);
        }
        self.drop_all_but(writer, &fragment.present);
        if let Some(left) = fragment.left
            && self.known.protocol.record(writer).is_some_and(|record| record.elements(left).is_some())
        {
            let _ = self.known.protocol.declare(Who { writer, rank: fragment.who.rank }, Stage::left(left));
        } else if !fragment.is_alive && fragment.left.is_none() {
            self.known.protocol.die(writer);
        }
        Ok(())
    }

    pub(super) fn drop_all_but(&mut self, writer: Writer, present: &[Version]) {
        let record = self.known.protocol.record(writer);
        let known = record.into_iter().flat_map(|record| record.published.present.iter().copied());
        let gone: Vec<Version> = known.filter(|version| !present.contains(version)).collect();
        gone.into_iter().for_each(|version| self.known.protocol.drop(writer, version));
    }

    pub(super) fn decide(&mut self, number: u32, verdict: Result<(), FragmentRefusal>) {
        // One that counted may count no more: when it was lost meanwhile, and another one took its place.
        if self.decided.insert(number) || verdict.is_err() {
            self.verdicts.insert(number, verdict);
        }
    }

    /// Tells writers of this node whether their fragments count. Where that does not succeed now, it is tried again.
    pub(super) fn tell_writers(&mut self) -> Result<()> {
        while let Some((number, verdict)) = self.verdicts.first_key_value() {
            points::hit("verdict.heard");
            self.known.relay.decide(*number, verdict.clone())?;
            self.verdicts.pop_first();
        }
        // Then, for an heir that counts says so, too: a runtime that comes later finds out the rest.
        while let Some((number, from)) = self.ended.first_key_value() {
            self.known.relay.end(*number, *from)?;
            self.ended.pop_first();
        }
        Ok(())
    }
}
