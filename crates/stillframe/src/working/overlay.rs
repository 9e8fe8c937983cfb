//! Windows of working memory that show a plane, with pages of their own on top.

use crate::error::Result;
use crate::mask::Mask;
use crate::store::planes::Planes;
use crate::store::version::Subtable;
use stillframe_kernel::map::Mapping;
use stillframe_segment::WINDOW_PAGES;
use stillframe_segment::table::ZERO_PLANE;

/// A private mapping of the plane with most of a window's pages, and the pages it does not show.
pub(crate) struct Overlay {
    pub(crate) mapping: Mapping,
    pub(crate) private: Mask,
    plane: usize,
    window: usize,
}

impl Overlay {
    /// `None`: no plane has any page of the window, or none can be shown page by page.
    pub(crate) fn new(
        window: usize,
        valid: Mask,
        keep: Mask,
        table: &Subtable,
        planes: &Planes,
    ) -> Result<Option<Overlay>> {
        let (keep, rest) = (keep.and(valid), valid.without(keep));
        let mut counts = [0usize; 256];
        for page in rest.pages() {
            counts[table[page] as usize] += 1;
        }
        counts[ZERO_PLANE as usize] = 0;
        let Some((plane, count)) = counts.iter().enumerate().max_by_key(|(_, count)| **count) else { return Ok(None) };
        if *count == 0 || plane >= planes.count() {
            return Ok(None);
        }
        let mut private = keep;
        for page in rest.pages().filter(|page| table[*page] as usize != plane) {
            private.insert(page);
        }
        let first = window * WINDOW_PAGES;
        // Of large pages a page could not be shown by itself, and a write to one would need another.
        if planes.plane(plane).file.is_hugetlb() {
            return Ok(None);
        }
        let mapping = planes.plane(plane).file.map_private(first..first + valid.count())?;
        Ok(Some(Overlay { mapping, private, plane, window }))
    }

    /// Gives the private pages content of their own.
    ///
    /// The first write to a page of a private mapping makes the kernel look for the file's page first, and take memory
    /// for it where the file has none: memory nobody counts, and a fatal signal if there is none left. So the frames
    /// below are taken beforehand, which can fail in peace, and given back afterwards.
    pub(crate) fn fill(&self, planes: &Planes, mut write: impl FnMut(&Mapping, usize) -> Result<()>) -> Result<()> {
        let bare = self.private.without(planes.present(self.plane, self.window));
        let result = planes
            .take_bare(self.plane, self.window, bare)
            .and_then(|()| self.private.pages().try_for_each(|page| write(&self.mapping, page)));
        planes.give_back_bare(self.plane, self.window, bare);
        result
    }
}
