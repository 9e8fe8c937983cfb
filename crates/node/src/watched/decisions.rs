//! What the home decided, and what follows from it on this node.

use super::Watched;
use crate::error::Result;
use crate::surroundings::Surroundings;
use std::collections::BTreeMap;
use stillframe_kernel::points;
use stillframe_roster::message::Decision;
use stillframe_roster::runtime::Event;
use stillframe_roster::writer::{Role, Stage, Version, Writer};

impl Watched {
    pub(super) fn hear(&mut self, decision: Decision, around: &mut Surroundings) -> Result<()> {
        let (node, revision) = (decision.node, decision.revision);
        let mut events = self.known.protocol.hear(decision);
        self.known.relay.set_run_floor(self.known.protocol.run_floor());
        let is_of_home = node == around.node && revision == self.known.protocol.revision();
        let is_first = is_of_home && !std::mem::replace(&mut self.has_heard, true);
        // First, for what was complete before is let go of: programs would see neither.
        events.sort_by_key(|event| !matches!(event, Event::Complete(_)));
        for event in &events {
            match event {
                Event::Refused { writer, refusal, .. } => self.decide(writer.serial, Err(refusal.into())),
                Event::Ended { writer, from } => _ = self.ended.insert(writer.serial, *from),
                _ => {}
            }
        }
        let is_undecided = |writer: &Writer| !self.decided.contains(&writer.serial);
        let accepted: Vec<Writer> = self.known.protocol.accepted().filter(is_undecided).collect();
        for writer in accepted {
            // That it died was accepted. It was a member of no version, and whoever was there before it keeps his part in all.
            let is_member = |stage: &Stage| matches!(stage.role, Role::Member { .. });
            let record = self.known.protocol.record(writer);
            let has_counted =
                record.is_none_or(|record| record.published.newest.is_some() || record.stages.iter().any(is_member));
            let verdict = if has_counted { Ok(()) } else { Err("its process died before the fragment counted".into()) };
            self.decide(writer.serial, verdict);
        }
        // Before anything is pinned: whatever is complete with a fragment, a runtime that comes later knows that it counts.
        let mut done = self.tell_writers();
        for event in events {
            let heard = match event {
                Event::Pin { version, writers } => {
                    // It may be of other writers than before.
                    self.unpinned.retain(|(unpinned, _)| *unpinned != version);
                    self.pin(version, &writers)
                }
                Event::Unpin(version) => {
                    self.known.pins.remove(&version);
                    self.unpinned.retain(|(unpinned, _)| *unpinned != version);
                    Ok(())
                }
                Event::Complete(_) => {
                    points::hit("complete.heard");
                    self.tell_programs(around)
                }
                Event::Answer { reader, readiness } => self.readers.answer(&mut self.known, reader, readiness, around),
                // What cannot be had any more, readers learn when they want it.
                Event::Unpinned { .. } | Event::Refused { .. } | Event::Ended { .. } => Ok(()),
            };
            // One that does not succeed keeps no other from it; all are looked at again later.
            done = done.and(heard);
        }
        // Also where nothing is complete that was not before.
        if is_first { done.and(self.tell_programs(around)) } else { done }
    }

    pub(super) fn pin(&mut self, version: Version, writers: &[Writer]) -> Result<()> {
        if !self.verdicts.is_empty() || !self.ended.is_empty() {
            self.unpinned.push((version, writers.to_vec()));
            return Ok(());
        }
        let mut held = BTreeMap::new();
        for writer in writers {
            match self.known.hold(*writer, version) {
                Ok(Some(snapshot)) => _ = held.insert(*writer, snapshot),
                Ok(None) => {
                    self.known.protocol.drop(*writer, version);
                    return Ok(());
                }
                Err(error) => {
                    self.unpinned.push((version, writers.to_vec()));
                    return Err(error);
                }
            }
        }
        points::hit("pin.held");
        if self.known.protocol.hold(version).is_none() {
            self.known.pins.insert(version, held);
        }
        Ok(())
    }
}
