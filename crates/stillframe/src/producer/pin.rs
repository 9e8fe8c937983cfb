//! Pinning: managed memory that a device was told of keeps its pages.
//!
//! A device that knows memory has its pages, not its addresses. The kernel keeps a page for as long as a device has it,
//! but what exchanges the page in the page table, as demotion does to let cold memory exist once, parts the device from the
//! program for good: each goes on with pages of its own. So a pinned variable never shows a plane, nothing is laid over its
//! pages, and it grows in its own windows only. Whatever replaces working memory asks `Memory::pinned` first.

use crate::error::{Error, Result};
use crate::producer::state::{Producer, VariableState};
use crate::variable::Kind;
use crate::working::Working;
use crate::working::managed::Managed;
use crate::working::tracker::memory::Watch;
use stillframe_segment::WINDOW_BYTES;

/// Frames on loan are another memory each time.
pub(crate) fn not_pinnable(name: &str) -> Error {
    let found = Kind::Loaned { shape: Vec::new() }.name();
    Error::WrongKind { name: name.into(), expected: "managed and tracked", found }
}

impl Producer {
    pub(crate) fn pin(&mut self, id: u32) -> Result<()> {
        let Some(mut state) = self.workspace.variables.remove(id) else {
            return Err(self.unknown(&format!("number {id}")));
        };
        let result = self.pin_state(&mut state);
        self.workspace.variables.insert(id, state);
        result
    }

    /// Gives a variable memory that stays. The memory of a tracked one is the application's, and stays as it is.
    pub(crate) fn pin_state(&mut self, state: &mut VariableState) -> Result<()> {
        let managed = match &mut state.working {
            Working::Managed(managed) => managed,
            Working::Tracked(_) => return Ok(()),
            Working::Loaned(_) => return Err(not_pinnable(&state.meta.name)),
        };
        let Managed { source, pages, .. } = &mut **managed;
        let shared = pages.demoted_windows();
        let done = pages.promote(source.bytes);
        let replaced = shared - pages.demoted_windows();
        let demoted_windows = &mut self.workspace.demoted_windows;
        *demoted_windows = demoted_windows.saturating_sub(replaced);
        if replaced > 0 && source.watch != Watch::Off {
            // What replaced it is not watched, and all of it counts as written.
            source.watch = Watch::New;
        }
        done.map_err(|failure| Error::system(self.store.dir(), failure))?;
        source.memory.pinned = true;
        Ok(())
    }

    pub(crate) fn unpin(&mut self, id: u32) -> Result<()> {
        for source in self.state_mut(id)?.working.sources_mut() {
            source.memory.pinned = false;
        }
        Ok(())
    }
}

impl VariableState {
    /// Whether nothing may be laid over its memory.
    pub(crate) fn is_pinned(&self) -> bool {
        self.working.current_source().is_some_and(|source| source.memory.pinned)
    }

    /// Refuses to give the variable memory elsewhere while it is pinned.
    pub(crate) fn check_pin(&self, wanted_bytes: usize) -> Result<()> {
        match self.working.current_source() {
            Some(source) if source.memory.pinned => {
                let room_bytes = source.maps.allocation.windows as usize * WINDOW_BYTES;
                Err(Error::IsPinned { name: self.meta.name.clone(), room_bytes, wanted_bytes })
            }
            _ => Ok(()),
        }
    }
}
