//! Messages of other nodes about an object.

use super::Watched;
use crate::error::Result;
use crate::home::Home;
use crate::roster::News;
use crate::surroundings::Surroundings;
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_object::{Part, Writer as Named};
use stillframe_roster::message::Report;
use stillframe_roster::writer::Node;
use stillframe_wire::Message;
use stillframe_wire::data::{Lost, Unsubscribe};
use stillframe_wire::roster::{Ask, Layouts, ObjectChange, ObjectDecision, Roster, RosterChange};

impl Watched {
    /// Takes a message of another node.
    pub(crate) fn receive(&mut self, from: Node, message: Message, around: &mut Surroundings) -> Result<()> {
        match message {
            Message::Ask(Ask { revision, .. }) => {
                // Of a term that the names do not tell of nobody may ever be the home. Where they do a little later, it is followed then.
                if around.cluster.home(self.known.id).is_some_and(|(_, known)| known == revision) {
                    self.known.protocol.follow(revision);
                }
                self.forget_told();
                if let Some(home) = self.home.as_mut().filter(|home| home.revision() == revision) {
                    home.forget_told(from);
                }
            }
            Message::Layouts(Layouts { layouts, .. }) => {
                self.find_home(around)?;
                let is_own = layouts.iter().all(|(writer, _)| writer.node == from);
                match &mut self.home {
                    _ if !is_own => {}
                    Some(home) => home.note_layouts(layouts),
                    None => {
                        self.early_layouts.0 = self.known.protocol.revision();
                        self.early_layouts.1.extend(layouts);
                    }
                }
            }
            Message::Roster(Roster { revision, serial, declared, is_last, .. }) => {
                let (declared, gone) = (Arc::new(declared), Arc::default());
                self.hear_roster(from, revision, News { base: None, serial, declared, gone, is_last }, around)?;
            }
            Message::RosterChange(RosterChange { revision, base, serial, declared, gone, is_last, .. }) => {
                let (base, declared, gone) = (Some(base), Arc::new(declared), Arc::new(gone));
                self.hear_roster(from, revision, News { base, serial, declared, gone, is_last }, around)?;
            }
            Message::Subscribe(subscribe) => {
                return self.subscriptions.subscribe(&mut self.known, from, *subscribe, around);
            }
            Message::Unsubscribe(Unsubscribe { subscription }) => {
                self.subscriptions.unsubscribe(from, subscription);
            }
            Message::Lost(Lost { subscription, version, cause, who }) => {
                let whose = who.map_or_else(|| "its elements".into(), |who| format!("elements of {}", Named(who)));
                let why = Part { who: None, elements: whose, cause: Some(cause) }.to_string();
                // One that is not asked any more may say so late.
                if who.is_none_or(|who| self.readers.waits_for(subscription, version, who.writer)) {
                    self.readers.lose_version(&mut self.known, subscription, version, &why, around);
                }
            }
            // Others belong to no object, or are taken where no lock is held.
            _ => {}
        }
        self.settle(around)
    }

    /// Takes a report, if this is the home.
    pub(crate) fn take_report(&mut self, from: Node, report: Report, around: &mut Surroundings) -> Result<()> {
        self.find_home(around)?;
        // One for a home that the names do not tell of says nothing: where they do a little later, that home asks for all.
        let is_for = |home: &Home| report.node == from && report.revision <= home.revision();
        if let Some(home) = self.home.as_mut().filter(|home| is_for(home)) {
            home.receive(report);
            points::hit("report.taken");
        }
        self.settle(around)
    }

    /// Takes what is new since a report, if this is the home.
    pub(crate) fn take_change(&mut self, from: Node, change: ObjectChange, around: &mut Surroundings) -> Result<()> {
        self.find_home(around)?;
        if let Some(home) = self.home.as_mut().filter(|_| change.node == from)
            && home.change(change).is_err()
        {
            let revision = home.revision();
            around.send(from, self.ask(revision));
        }
        points::hit("change.taken");
        self.settle(around)
    }

    /// Takes a decision of the home.
    pub(crate) fn take_decision(
        &mut self,
        from: Node,
        ObjectDecision { roster, decision, .. }: ObjectDecision,
        around: &mut Surroundings,
    ) -> Result<()> {
        let home = around.cluster.home(self.known.id);
        if decision.revision > self.known.protocol.revision() && home != Some((from, decision.revision)) {
            // If the names tell of that home a little later, it is asked to say all again.
            self.has_missed = true;
            return Ok(());
        }
        if decision.revision >= self.known.protocol.revision() {
            self.needed_roster = self.needed_roster.max((decision.revision, roster));
        }
        self.hear(decision, around)?;
        self.settle(around)
    }
}
