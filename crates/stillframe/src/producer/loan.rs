//! Lending free frames.

use crate::error::{Error, Result};
use crate::producer::room::Room;
use crate::producer::state::Producer;
use crate::working::Working;
use crate::working::loan::{LoanBytes, Ticket};
use crate::working::loaned::{Loaned, OpenLoan};
use std::time::Duration;

impl Producer {
    /// Lends free frames for a whole loaned variable.
    /// `None`: there is no room yet, and `slice` is over, see [`with_room`](Producer::with_room).
    pub(crate) fn lend(&mut self, id: u32, slice: Option<Duration>) -> Result<Option<LoanBytes>> {
        let discarded = self.loaned(id)?.take_discarded();
        self.free_loans(&discarded);
        let loaned = self.loaned(id)?;
        let (allocation, bytes, pages) = (loaned.allocation, loaned.bytes, loaned.pages());
        let present_bytes = self.store.planes().present_bytes();
        let all_held = self.peers.is_some();
        let room = self.with_room(slice, &mut |_, mut draft| {
            let plane = draft.take_in_one_plane(allocation.window as usize, pages)?;
            draft.take_memory(all_held)?;
            Ok((plane, draft.lend()))
        })?;
        let (plane, frames) = match room {
            Room::Made(made) => made,
            // What is lent cannot be left out.
            Room::Refused(error) => return Err(error),
            Room::Later => return Ok(None),
        };
        let is_recycled = self.store.planes().present_bytes() == present_bytes;
        let large_pages = self.options.large_pages;
        let (workers, leases) = (self.workspace.copier.workers().clone(), self.store.leases.clone());
        let Producer { store, workspace, .. } = self;
        let lent = match workspace.variables.get_mut(id).map(|state| &mut state.working) {
            Some(Working::Loaned(loaned)) => {
                let planes = store.planes();
                let map = loaned.map(plane, planes, &workers, is_recycled, large_pages);
                map.and_then(|map| loaned.map_after(plane, planes).map(|after| (loaned, map, after)))
            }
            _ => Err(Error::NoVersion { region: store.name.clone() }),
        };
        match lent {
            Ok((loaned, map, after)) => {
                let ticket = Ticket::default();
                loaned.loans.push(OpenLoan { ticket: ticket.clone(), frames, serial: allocation.serial });
                Ok(Some(LoanBytes::new(map, bytes, ticket, leases, after)))
            }
            Err(error) => {
                store.free_frames_of(&frames);
                Err(error)
            }
        }
    }

    fn loaned(&mut self, id: u32) -> Result<&mut Loaned> {
        let wrong = self.state(id)?.wrong_kind("loaned");
        match &mut self.state_mut(id)?.working {
            Working::Loaned(loaned) => Ok(loaned),
            _ => Err(wrong),
        }
    }

    /// Frees the frames of loans that no version shows.
    pub(crate) fn free_loans(&mut self, loans: &[OpenLoan]) {
        loans.iter().for_each(|loan| self.store.free_frames_of(&loan.frames));
    }
}
