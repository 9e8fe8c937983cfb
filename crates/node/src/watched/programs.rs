//! What programs of this node are told: who writes an object on other nodes, and which version is complete.

use super::Watched;
use crate::error::Result;
use crate::known::numbers;
use crate::roster::{Missing, News};
use crate::surroundings::Surroundings;
use std::sync::Arc;
use stillframe_kernel::points;
use stillframe_object::relay::{Remote, RemoteFragment};
use stillframe_roster::writer::{Node, Revision};

impl Watched {
    pub(super) fn hear_roster(
        &mut self,
        from: Node,
        revision: Revision,
        news: News,
        around: &mut Surroundings,
    ) -> Result<()> {
        let heard = match news.base {
            None => {
                let declared = Arc::unwrap_or_clone(news.declared);
                Ok(self.known.roster.hear(revision, news.serial, declared, news.is_last))
            }
            Some(_) => self.known.roster.change(revision, news),
        };
        match heard {
            Ok(is_new) => {
                self.is_untold |= is_new;
                self.known.note_heard();
            }
            Err(Missing) => around.send(from, self.ask(revision)),
        }
        if self.is_untold { self.tell_programs(around) } else { Ok(()) }
    }

    /// Tells this node's programs of fragments on other nodes, and which version is complete. In this order: who is told of a version
    /// knows its writers, and those of the version before go only when there is a newer one.
    pub(super) fn tell_programs(&mut self, around: &Surroundings) -> Result<()> {
        if !self.has_name {
            return Ok(());
        }
        self.tell_writers()?;
        // Programs would look for who has a version's elements, and find nobody. What was lost on the way comes with the next connection.
        if self.known.roster.is_behind() || self.known.roster.at() < self.needed_roster {
            return Ok(());
        }
        if self.is_untold {
            self.tell_roster(around)?;
        }
        let (announced, is_gone) = (self.known.protocol.announced().version, self.known.protocol.announced().is_gone());
        if is_gone {
            // Nobody has written in the places of those that were lost, of whom errors go on to tell.
            self.known.relay.give_up(announced)?;
        } else if self.known.relay.complete(announced)? {
            // Others have written what was theirs, up to there.
            self.known.lost.retain(|lost| lost.from > announced);
            if self.keeps_former {
                self.tell_roster(around)?;
            }
        }
        // The roster is as new as that: who has no part in a version by now has none for good.
        self.readers.settle(&self.known.roster, announced);
        self.has_told |= self.has_heard;
        Ok(())
    }

    pub(super) fn tell_roster(&mut self, around: &Surroundings) -> Result<()> {
        let others = self.known.roster.declared().filter(|one| one.writer.node != around.node);
        let remote: Vec<RemoteFragment> = others
            .map(|one| RemoteFragment {
                remote: Remote {
                    node: one.writer.node.0,
                    host: around.cluster.host(one.writer.node),
                    number: one.writer.serial,
                },
                process: one.writer.process,
                rank: one.rank,
                from: one.from,
                left: one.left,
                died: one.died,
                text: one.layout.text.clone(),
                bindings: numbers(&one.layout),
                writers: one.expected,
            })
            .collect();
        points::hit("roster.heard");
        self.keeps_former = self.known.relay.tell(&remote)?;
        self.is_untold = false;
        points::hit("roster.told");
        Ok(())
    }
}
