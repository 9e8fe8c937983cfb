//! Where a variable lies in the planes, mapped.

use crate::error::{Error, Result};
use crate::list;
use crate::mask::Mask;
use crate::store::planes::Planes;
use crate::store::space::Allocation;
use stillframe_kernel::map::Mapping;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES};

/// An allocation in each plane, mapped when it is first written there.
#[derive(Debug)]
pub(crate) struct PlaneMaps {
    pub(crate) allocation: Allocation,
    maps: Vec<Option<PlaneMap>>,
}

/// An allocation in one plane.
#[derive(Debug)]
pub(crate) struct PlaneMap {
    /// Of all its windows, one after the other; `None` where the file is mapped as a whole.
    own: Option<Mapping>,
    /// Pages of each window that have page-table entries, but for those that were written few at a time.
    entered: Vec<Mask>,
}

/// Runs of pages at least this long get their page-table entries in one call; shorter ones fault, which costs no more.
const ENTER_PAGES_MIN: usize = 4;

impl PlaneMaps {
    pub(crate) fn new(allocation: Allocation) -> PlaneMaps {
        PlaneMaps { allocation, maps: Vec::new() }
    }

    /// Maps a plane, unless it is.
    pub(crate) fn map(&mut self, plane: usize, planes: &Planes) -> Result<&mut PlaneMap> {
        if self.maps.len() <= plane {
            self.maps.resize_with(plane + 1, || None);
        }
        let known = &mut self.maps[plane];
        match known {
            Some(known) => Ok(known),
            None => {
                let windows = self.allocation.range();
                let file = &planes.plane(plane).file;
                // What is mapped with all of its file needs no map here.
                let own = if file.is_mapped() { None } else { Some(file.map(windows, true)?) };
                let entered = list::filled(Mask::EMPTY, self.allocation.windows as usize);
                let entered = entered.map_err(|failure| Error::system(file.path(), failure))?;
                Ok(known.insert(PlaneMap { own, entered }))
            }
        }
    }

    /// Address of one of the windows in a plane that was [mapped](PlaneMaps::map).
    pub(crate) fn address(&self, plane: usize, window: usize, planes: &Planes) -> Result<usize> {
        self.with_window(plane, window, planes, |map, offset| map.address() + offset)
    }

    /// Uses the map of a plane, and the offset of one of the windows in it.
    pub(crate) fn with_window<T>(
        &self,
        plane: usize,
        window: usize,
        planes: &Planes,
        work: impl FnOnce(&Mapping, usize) -> T,
    ) -> Result<T> {
        match self.maps.get(plane).and_then(Option::as_ref).and_then(|known| known.own.as_ref()) {
            Some(map) => Ok(work(map, window * WINDOW_BYTES)),
            None => {
                let file = &planes.plane(plane).file;
                let (map, at) = file.mapped(self.allocation.window as usize + window)?;
                Ok(work(&map, at))
            }
        }
    }

    /// Address of one of the windows in a plane, about to be written at these pages.
    pub(crate) fn address_for_writing(
        &mut self,
        plane: usize,
        window: usize,
        pages: Mask,
        planes: &Planes,
    ) -> Result<usize> {
        let known = self.map(plane, planes)?;
        let mut new = Mask::EMPTY;
        // So few pages are no run for which it matters.
        if pages.count() >= ENTER_PAGES_MIN {
            new = pages.without(known.entered[window]);
            known.entered[window] = known.entered[window].or(new);
        }
        self.with_window(plane, window, planes, |map, at| {
            for (start, end) in new.runs().filter(|(start, end)| end - start >= ENTER_PAGES_MIN) {
                map.populate_for_writing(at + start * PAGE_BYTES, (end - start) * PAGE_BYTES);
            }
            map.address() + at
        })
    }
}
