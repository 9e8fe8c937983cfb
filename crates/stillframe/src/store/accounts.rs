//! For tests: whether what a store has noted as in use is what its versions and loans use.

use crate::mask::Mask;
use crate::place::Place;
use crate::store::Store;
use crate::store::planes::Assignment;
use stillframe_segment::table::{self, ZERO_PLANE};
use stillframe_segment::{BLOCK_BYTES, WINDOW_PAGES};

impl Store {
    /// Counts frames and blocks anew, those of `lent` with them. Says what is wrong.
    pub(crate) fn check_accounts<'a>(&self, lent: impl Iterator<Item = &'a Assignment>) -> Result<(), String> {
        let mut frames = vec![vec![Mask::EMPTY; self.planes.windows()]; self.planes.count()];
        let mut mark = |plane: usize, window: usize, pages: Mask| {
            if let Some(mask) = frames.get_mut(plane).and_then(|plane| plane.get_mut(window)) {
                *mask = mask.or(pages);
            }
        };
        let mut users = vec![0; self.tables.blocks() as usize];
        let mut count = |block: u32, bytes: usize| {
            let blocks = block as usize..block as usize + bytes.div_ceil(BLOCK_BYTES).max(1);
            blocks.for_each(|block| users[block] += 1);
        };
        for version in &self.versions {
            count(version.manifest.0, version.manifest.1);
            count(version.table_block, version.table.len() * 4);
            for (window, word) in version.table.iter().enumerate() {
                if word & table::SUBTABLE != 0 {
                    count(word & !table::SUBTABLE, WINDOW_PAGES);
                }
                for (page, plane) in self.expand(*word).iter().enumerate().filter(|(_, plane)| **plane != ZERO_PLANE) {
                    let mut mask = Mask::EMPTY;
                    mask.insert(page);
                    mark(usize::from(*plane), window, mask);
                }
            }
        }
        lent.for_each(|part| mark(part.plane, part.window, part.pages));
        if let Place::Arena(region) = &self.place {
            let schemas = region.index().map_err(|error| error.to_string())?.schemas();
            schemas.iter().for_each(|entry| count(entry.block, entry.bytes as usize));
        }
        for (plane, windows) in frames.iter().enumerate() {
            for (window, used) in windows.iter().enumerate() {
                let free = self.planes.free(plane, window);
                let noted = Mask::FULL.without(free);
                if noted != *used {
                    let (noted, used) = (noted.count(), used.count());
                    return Err(format!("{noted} frames of window {window} of plane {plane} are in use, not {used}"));
                }
            }
        }
        let noted = self.tables.users();
        match noted.iter().zip(&users).position(|(noted, used)| noted != used) {
            Some(block) => Err(format!("block {block} has {} users, not {}", noted[block], users[block])),
            None => Ok(()),
        }
    }
}
