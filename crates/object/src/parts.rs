//! Who has which elements of a version, or had them, for people.

use crate::error::{Part, Parts, Result, Writer as Named};
use crate::member::{Member, Members};
use crate::shared::Shared;
use drepl::IndexSet;
use stillframe_roster::readiness::{Loss, Share};
use stillframe_roster::writer::Version;

impl Members {
    /// What is missing, for people.
    pub(crate) fn parts(shared: &Shared, shares: &[Share]) -> Vec<Part> {
        shares.iter().map(|share| part(shared, share)).collect()
    }

    /// Who has elements of a version as far as the board tells, for people.
    pub(crate) fn known(&self, shared: &Shared, version: Version, wanted: &IndexSet) -> Result<String> {
        let mut parts = Vec::new();
        for member in self.list.values().filter(|member| member.is_in(version)) {
            let elements = member.elements.intersection(wanted).map_err(shared.scattered())?;
            if !elements.is_empty() {
                parts.push(part(shared, &Share { who: Some(member.who()), elements: elements.into() }));
            }
        }
        let parts = if parts.is_empty() { "anybody".into() } else { Parts(&parts).to_string() };
        Ok(format!("nothing has come of {parts}"))
    }

    /// Elements that nobody has any more, with a writer that had some of them and of which the home says nothing just now.
    pub(crate) fn last_owner(&self, share: &Share) -> Share {
        let had_some = |member: &&Member| member.is_kept() && member.has_any(&share.elements);
        let who = share.who.or_else(|| self.list.values().find(had_some).map(Member::who));
        Share { who, elements: share.elements.clone() }
    }

    /// What is lost, for people.
    pub(crate) fn losses(shared: &Shared, losses: &[Loss]) -> Vec<Part> {
        let lost = |loss: &Loss| Part { cause: Some(loss.cause), ..part(shared, &loss.share) };
        losses.iter().map(lost).collect()
    }
}

fn part(shared: &Shared, share: &Share) -> Part {
    let elements: &IndexSet = &share.elements;
    Part { who: share.who.map(Named), elements: shared.space.shown(elements), cause: None }
}
