//! Versions as their producer knows them, and their window tables.

use crate::clock;
use crate::store::tables::Tables;
use std::sync::Arc;
use stillframe_protocol::{Leased, State};
use stillframe_segment::WINDOW_PAGES;
use stillframe_segment::table::{self, ZERO_PLANE};

/// A version that exists.
#[derive(Debug, Clone)]
pub(crate) struct Version {
    pub(crate) leased: Leased,
    pub(crate) number: u64,
    pub(crate) state: State,
    pub(crate) table: Arc<Vec<u32>>,
    pub(crate) manifest: (u32, usize),
    pub(crate) table_block: u32,
    pub(crate) schema: u32,
    /// The run that published it.
    pub(crate) run: u64,
    pub(crate) asking: Asking,
}

/// So often it is asked at each publish whether somebody still holds a version that is to go, and then once in a millisecond: who
/// holds one for a thousand publishes costs each of them a call of the system otherwise.
const ASKED_EACH: u32 = 8;

/// When that was asked.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asking {
    in_vain: u32,
    last_ms: u64,
}

impl Asking {
    /// It is held.
    pub(crate) fn note_held(&mut self) {
        *self = Asking { in_vain: self.in_vain.saturating_add(1), last_ms: clock::monotonic_ms() };
    }

    /// Whether it is to be asked at this publish.
    pub(crate) fn is_due(&self) -> bool {
        self.in_vain < ASKED_EACH || self.last_ms != clock::monotonic_ms()
    }
}

/// The plane of each page of a window in a version with this table, which may end before the window.
pub(crate) fn expand_window(tables: &Tables, table: &[u32], window: usize) -> Subtable {
    expand(tables, table.get(window).copied().unwrap_or(u32::from(ZERO_PLANE)))
}

/// The plane of each page of a window with this entry.
pub(crate) fn expand(tables: &Tables, word: u32) -> Subtable {
    if word & table::SUBTABLE == 0 { [word as u8; WINDOW_PAGES] } else { tables.subtable(word & !table::SUBTABLE) }
}

/// The planes of the pages of a window in the newest version.
pub(crate) type Subtable = [u8; WINDOW_PAGES];
