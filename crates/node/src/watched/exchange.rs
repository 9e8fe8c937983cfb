//! What the node tells the home of an object, and what the home here tells all nodes.

use super::Watched;
use crate::error::Result;
use crate::home::{Home, Outgoing};
use crate::reporting;
use crate::surroundings::Surroundings;
use std::collections::BTreeSet;
use stillframe_kernel::points;
use stillframe_object::bindings as bindings_of;
use stillframe_object::relay::LocalFragment;
use stillframe_roster::writer::{Node, Revision, Writer};
use stillframe_wire::Message;
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::{Ask, ObjectDecision, ObjectReport};

impl Watched {
    /// Brings the home up to what is new, and readers who waited for others.
    pub(super) fn settle(&mut self, around: &mut Surroundings) -> Result<()> {
        let settled = self.settle_home(around);
        self.readers.bring_shared(&mut self.known, around).and(settled)
    }

    /// Tells the home what is new here, hears what it decides if it is here, and does what follows, until nothing does.
    pub(super) fn settle_home(&mut self, around: &mut Surroundings) -> Result<()> {
        let mut done = Ok(());
        loop {
            // A home that may have lost its role decides nothing.
            let home = around.cluster.home(self.known.id);
            self.is_homeless = home.is_none();
            let Some(home) = home else { return done };
            self.follow_home(home, around)?;
            let mut is_new = self.report(home.0, around);
            let outgoing = self.home.as_mut().map(Home::outgoing).unwrap_or_default();
            // The home takes all of it for sent: what does not succeed here now is tried again, and keeps nobody from the rest.
            for (node, outgoing) in outgoing {
                let to_here = node == around.node;
                match outgoing {
                    Outgoing::Decision { decision, .. } if to_here => {
                        is_new = true;
                        let heard = self.hear(decision, around);
                        done = done.and(heard);
                    }
                    Outgoing::Roster { revision, news } if to_here => {
                        let heard = self.hear_roster(node, revision, news, around);
                        done = done.and(heard);
                    }
                    Outgoing::Decision { roster, decision } => {
                        let decision = ObjectDecision { object: self.known.id, roster, decision };
                        points::hit("decision.made");
                        around.send(node, Message::Decisions(vec![decision]));
                    }
                    Outgoing::Roster { revision, news } => {
                        around.send(node, news.message(self.known.id, revision));
                        points::hit("roster.sent");
                    }
                }
            }
            if !is_new {
                return done;
            }
        }
    }

    /// Follows the home that there is now.
    pub(super) fn find_home(&mut self, around: &mut Surroundings) -> Result<()> {
        match around.cluster.home(self.known.id) {
            Some(home) => self.follow_home(home, around),
            None => Ok(()),
        }
    }

    /// Begins or ends to be the home, and follows a new one.
    pub(super) fn follow_home(&mut self, (node, revision): (Node, Revision), around: &mut Surroundings) -> Result<()> {
        self.known.protocol.follow(revision);
        if node != around.node {
            if std::mem::take(&mut self.has_missed) {
                around.send(node, self.ask(revision));
            }
            self.home = None;
            if revision > self.early_layouts.0 {
                self.early_layouts.1.clear();
            }
            return Ok(());
        }
        if self.home.as_ref().is_none_or(|home| home.revision() != revision) {
            let nodes = around.cluster.nodes();
            let (shape, initial) = (self.known.relay.shape()?, self.known.relay.initial());
            let mut home = Home::new(revision, shape, initial, nodes.iter().copied(), around.cluster.lease());
            home.set_replaced(around.cluster.replaced());
            home.note_layouts(std::mem::take(&mut self.early_layouts.1).into_iter().collect());
            self.home = Some(home);
            points::hit("home.begun");
            let own = around.node;
            for other in nodes.into_iter().filter(|other| *other != own) {
                around.send(other, self.ask(revision));
            }
            points::hit("home.asked");
        }
        Ok(())
    }

    /// Sends a report to the home, if it is another than before; whether it is.
    pub(super) fn report(&mut self, home: Node, around: &mut Surroundings) -> bool {
        let Some(news) = self.reporting.news(&self.known.protocol, self.known.id, home) else { return false };
        let layouts = self.new_layouts((home, self.known.protocol.revision()));
        match (&mut self.home, news) {
            (Some(own), reporting::News::Whole(report)) if home == around.node => {
                own.note_layouts(layouts);
                own.receive(report);
            }
            (_, news) => {
                let layouts = reporting::layouts(self.known.id, self.name(), layouts);
                layouts.into_iter().for_each(|layouts| around.send(home, Message::Layouts(layouts)));
                around.send(home, self.message_of(news));
                points::hit("report.sent");
            }
        }
        true
    }

    pub(super) fn message_of(&self, news: reporting::News) -> Message {
        match news {
            reporting::News::Whole(report) => {
                Message::Reports(vec![ObjectReport { object: self.known.id, name: self.name().into(), report }])
            }
            reporting::News::Change(change) => Message::Changes(vec![change]),
        }
    }

    pub(super) fn ask(&self, revision: Revision) -> Message {
        Message::Ask(Ask { object: self.known.id, name: self.name().into(), revision })
    }

    /// Layouts that a home was not told yet.
    pub(super) fn new_layouts(&mut self, home: (Node, Revision)) -> Vec<(Writer, FragmentText)> {
        if self.told_layouts.0 != Some(home) {
            self.told_layouts = (Some(home), BTreeSet::new());
        }
        let told = &mut self.told_layouts.1;
        told.retain(|writer| self.known.local.contains_key(writer));
        let new = self.known.local.iter().filter(|(writer, _)| told.insert(**writer));
        let layout = |(writer, fragment): (&Writer, &LocalFragment)| {
            let (text, bindings) = (fragment.text.clone(), bindings_of(&fragment.bindings));
            (*writer, FragmentText { text, bindings })
        };
        new.map(layout).collect()
    }
}
