//! Where a variable lies in the planes, mapped.

use crate::error::Result;
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
struct PlaneMap {
    map: Mapping,
    /// Pages of each window that have page-table entries.
    entered: Vec<Mask>,
}

/// Runs of pages at least this long get their page-table entries in one call; shorter ones fault, which costs no more.
const ENTER_PAGES_MIN: usize = 4;

impl PlaneMaps {
    pub(crate) fn new(allocation: Allocation) -> PlaneMaps {
        PlaneMaps { allocation, maps: Vec::new() }
    }

    fn plane_map(&mut self, plane: usize, planes: &Planes) -> Result<&mut PlaneMap> {
        if self.maps.len() <= plane {
            self.maps.resize_with(plane + 1, || None);
        }
        let known = &mut self.maps[plane];
        match known {
            Some(known) => Ok(known),
            None => {
                let map = map_windows(self.allocation, plane, planes)?;
                Ok(known.insert(PlaneMap { map, entered: vec![Mask::EMPTY; self.allocation.windows as usize] }))
            }
        }
    }

    /// The map of a plane.
    pub(crate) fn map(&mut self, plane: usize, planes: &Planes) -> Result<&Mapping> {
        self.plane_map(plane, planes).map(|known| &known.map)
    }

    /// The maps of the planes that were mapped so far, in the order of the planes.
    pub(crate) fn known(&self) -> impl Iterator<Item = &Mapping> {
        self.maps.iter().flatten().map(|known| &known.map)
    }

    /// The map of a plane, about to be written at these pages of one of its windows.
    pub(crate) fn map_for_writing(
        &mut self,
        plane: usize,
        window: usize,
        pages: Mask,
        planes: &Planes,
    ) -> Result<&Mapping> {
        let known = self.plane_map(plane, planes)?;
        let new = pages.without(known.entered[window]);
        if !new.is_empty() {
            known.entered[window] = known.entered[window].or(new);
            for (start, end) in new.runs().filter(|(start, end)| end - start >= ENTER_PAGES_MIN) {
                let offset = window * WINDOW_BYTES + start * PAGE_BYTES;
                known.map.populate_for_writing(offset, (end - start) * PAGE_BYTES);
            }
        }
        Ok(&known.map)
    }
}

fn map_windows(allocation: Allocation, plane: usize, planes: &Planes) -> Result<Mapping> {
    planes.plane(plane).file.map(allocation.range(), true)
}
