//! Fragments to read that the runtime of a node fills, for programs whose elements are elsewhere.

use crate::error::Result;
use crate::layout;
use crate::shared::{ARENA, Shared};
use drepl::{Fragment, IndexSet};
use std::sync::Arc;
use stillframe::{LoanBytes, Observer, Region, Rule, Snapshot, VariableId};
use stillframe_roster::writer::Version;

/// A fragment to read that the runtime fills.
#[derive(Debug)]
pub struct Receiver {
    shared: Arc<Shared>,
    region: Region,
    variable: VariableId,
    fragment: Arc<Fragment>,
    elements: IndexSet,
    /// Of its own region, as soon as one is needed.
    observer: Option<Observer>,
}

impl Receiver {
    /// A region for a fragment of these elements; with a number above `made`, which is counted up.
    pub(crate) fn make(
        shared: &Arc<Shared>,
        made: &mut u32,
        fragment: Arc<Fragment>,
        elements: IndexSet,
    ) -> Result<Receiver> {
        let arena = shared.site.arena()?;
        let options = Region::options().arena(&arena).run(shared.description.id).trust(shared.site.trust);
        // While a program takes one the next may come. Whoever holds too many of them keeps nobody else waiting.
        let options = options.keep(2).rule(Rule::Fail);
        loop {
            *made += 1;
            if shared.is_object(&format!("r{made}"))? {
                continue;
            }
            let mut region = match options.clone().create(&format!("{}/r{made}", shared.name)) {
                Err(stillframe::Error::InUse { .. }) => continue,
                other => other?,
            };
            if region.newest().is_some() {
                // One that a runtime which died left.
                region.unlink()?;
                continue;
            }
            let variable = region.declare(layout::declaration(&fragment, true))?;
            let (shared, observer) = (shared.clone(), None);
            return Ok(Receiver { shared, region, variable, fragment, elements, observer });
        }
    }

    /// Its region, within the arena of objects.
    pub fn name(&self) -> &str {
        let name = self.region.name();
        name.strip_prefix(ARENA).and_then(|name| name.strip_prefix('/')).unwrap_or(name)
    }

    /// What lies where in it.
    pub fn fragment(&self) -> &Arc<Fragment> {
        &self.fragment
    }

    /// Its elements, in the object's own space of indices.
    pub fn elements(&self) -> &IndexSet {
        &self.elements
    }

    /// The newest version that was published in it.
    pub fn newest(&self) -> Option<Version> {
        self.region.newest()
    }

    fn observer(&mut self) -> Result<&Observer> {
        if self.observer.is_none() {
            self.observer = Some(self.shared.site.observing()?.open(self.name())?);
        }
        match &self.observer {
            Some(observer) => Ok(observer),
            None => unreachable!("it was just opened"),
        }
    }

    /// Whether a version is there.
    ///
    /// # Errors
    /// Those of an observer.
    pub fn has(&mut self, version: Version) -> Result<bool> {
        match self.newest() {
            Some(newest) if newest > version => Ok(self.observer()?.version(version).is_ok()),
            newest => Ok(newest == Some(version)),
        }
    }

    /// The newest version, and its bytes.
    ///
    /// # Errors
    /// Those of an observer.
    pub fn base(&mut self) -> Result<Option<(Version, stillframe::View)>> {
        let Some((snapshot, name)) = self.newest_held()? else { return Ok(None) };
        Ok(Some((snapshot.version(), snapshot.view(&name)?)))
    }

    /// The newest version, held and mapped, and what its bytes are called there.
    ///
    /// # Errors
    /// Those of an observer.
    pub fn newest_held(&mut self) -> Result<Option<(Snapshot, String)>> {
        let Some(newest) = self.newest() else { return Ok(None) };
        let name = layout::declaration(&self.fragment, true).name;
        let snapshot = self.observer()?.version(newest)?;
        snapshot.view(&name)?;
        Ok(Some((snapshot, name)))
    }

    /// Memory of the next version, whatever lay in it before.
    ///
    /// # Errors
    /// Environment if there is none.
    pub fn loan(&mut self) -> Result<LoanBytes> {
        Ok(self.region.loan_bytes(self.variable)?)
    }

    /// Publishes what was written into the loan.
    ///
    /// # Errors
    /// Those of a publish.
    pub fn publish(&mut self, version: Version, published_ns: u64, loan: LoanBytes) -> Result<()> {
        loan.submit();
        let mut publication = self.region.publish(version);
        if published_ns > 0 {
            publication = publication.published_ns(published_ns);
        }
        publication.commit()?;
        Ok(())
    }

    /// Removes its region. Whoever holds a version of it keeps that.
    ///
    /// # Errors
    /// Those of the region.
    pub fn remove(self) -> Result<()> {
        Ok(self.region.unlink()?)
    }
}
