//! What the application writes: memory that is managed, tracked or loaned, and how written pages are found.

pub(crate) mod dirty;
pub(crate) mod gather;
pub(crate) mod layout;
pub(crate) mod loan;
pub(crate) mod loaned;
pub(crate) mod managed;
pub(crate) mod narrow;
pub(crate) mod overlay;
pub(crate) mod pages;
pub(crate) mod pieces;
pub(crate) mod plane_maps;
pub(crate) mod restore;
pub(crate) mod source;
pub(crate) mod sticky;
pub(crate) mod tracked;
pub(crate) mod tracker;
pub(crate) mod unit;

use crate::store::space::Allocation;
use crate::working::loaned::Loaned;
use crate::working::managed::Managed;
use crate::working::source::Source;
use crate::working::tracked::Tracked;

/// Where the content of a variable is written by the application.
#[derive(Debug)]
pub(crate) enum Working {
    /// In memory of the region.
    Managed(Box<Managed>),
    /// In memory of the application.
    Tracked(Tracked),
    /// In frames of the planes themselves.
    Loaned(Loaned),
}

impl Working {
    /// The memory it is published from: none of a loaned one, several of a tracked one whose address changes.
    pub(crate) fn sources(&self) -> &[Source] {
        match self {
            Working::Managed(managed) => std::slice::from_ref(&managed.source),
            Working::Tracked(tracked) => &tracked.sources,
            Working::Loaned(_) => &[],
        }
    }

    pub(crate) fn sources_mut(&mut self) -> &mut [Source] {
        match self {
            Working::Managed(managed) => std::slice::from_mut(&mut managed.source),
            Working::Tracked(tracked) => &mut tracked.sources,
            Working::Loaned(_) => &mut [],
        }
    }

    /// The source whose content the next version shows, as an index, unless the variable is tracked and left out of it.
    pub(crate) fn current(&self) -> Option<usize> {
        match self {
            Working::Managed(_) => Some(0),
            Working::Tracked(tracked) => tracked.current,
            Working::Loaned(_) => None,
        }
    }

    pub(crate) fn current_source(&self) -> Option<&Source> {
        self.sources().get(self.current()?)
    }

    pub(crate) fn current_source_mut(&mut self) -> Option<&mut Source> {
        let current = self.current()?;
        self.sources_mut().get_mut(current)
    }

    /// Where the next version shows it: its windows, the offset of its first byte in the first page, and its bytes.
    pub(crate) fn shown_at(&self) -> Option<(Allocation, usize, usize)> {
        match self {
            Working::Loaned(loaned) => Some((loaned.allocation, 0, loaned.bytes)),
            _ => {
                let source = self.current_source()?;
                Some((source.maps.allocation, source.page_offset, source.bytes))
            }
        }
    }

    /// Pages of what the next version shows.
    pub(crate) fn pages(&self) -> usize {
        match self {
            Working::Loaned(loaned) => loaned.pages(),
            _ => self.current_source().map_or(0, |source| source.memory.pages),
        }
    }

    /// All windows that it has.
    pub(crate) fn allocations(&self) -> Vec<Allocation> {
        match self {
            Working::Loaned(loaned) => vec![loaned.allocation],
            _ => self.sources().iter().map(|source| source.maps.allocation).collect(),
        }
    }
}
