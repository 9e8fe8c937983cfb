//! Filling working memory with a version that was recovered.

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::store::planes::Planes;
use crate::store::version::Subtable;
use crate::working::pages::{Pages, Window};
use crate::working::pieces::{PIECES_MAX, Piece, pieces, pieces_below};
use crate::working::tracker::Tracker;
use std::sync::Mutex;
use stillframe_kernel::map::Mapping;
use stillframe_kernel::workers::Workers;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES, WINDOW_PAGES};

impl Pages {
    /// Fills a new working memory, which lies from window `first` on in the planes, with a version that was recovered:
    /// `table` tells the planes of the pages of a window. Nothing is copied but pages that lie among others of another plane,
    /// which get memory of their own, armed; and whole windows, where the tracker or the pieces do not allow for that.
    /// The workers copy; at most `pieces_max` mappings are made. Returns the windows that were copied.
    pub(crate) fn restore(
        &mut self,
        first: u32,
        table: impl Fn(usize) -> Subtable,
        planes: &Planes,
        tracker: &Tracker,
        workers: &Workers,
        pieces_max: usize,
    ) -> Result<Vec<usize>> {
        let mut shown: Vec<Piece> = Vec::new();
        let (mut mixed, mut copied) = (Vec::new(), Vec::new());
        for index in 0..self.windows.len() {
            let table = table(index);
            let all = pieces(index, &table);
            let is_hugetlb = all.first().is_some_and(|piece| planes.plane(piece.plane as usize).file.is_hugetlb());
            let (showing, own) = match all.len() > PIECES_MAX && tracker.is_filling() {
                true => pieces_below(index, &table),
                false => (all.clone(), Mask::EMPTY),
            };
            // Of large pages parts cannot be shown.
            if is_hugetlb || showing.len() > PIECES_MAX || shown.len() + showing.len() > pieces_max {
                self.windows[index] = Window { hot: Mask::EMPTY, ..self.windows[index] };
                copied.push((index, all));
            } else if !showing.is_empty() {
                let mut private = own;
                (0..WINDOW_PAGES).filter(|page| table[*page] == ZERO_PLANE).for_each(|page| private.insert(page));
                self.windows[index] = Window { private, hot: Mask::EMPTY, before: Mask::EMPTY, age: 0, demoted: true };
                if !own.is_empty() {
                    mixed.push(Mixed { index, own, pieces: all });
                }
                for piece in showing {
                    match shown.last_mut() {
                        Some(last) if last.plane == piece.plane && last.page + last.pages == piece.page => {
                            last.pages += piece.pages;
                        }
                        _ => shown.push(piece),
                    }
                }
            }
        }
        for Piece { plane, page, pages } in shown {
            let first = first as usize * WINDOW_PAGES + page;
            planes.plane(plane as usize).file.lay_private(&self.memory, page * PAGE_BYTES, first..first + pages)?;
        }
        for Mixed { index, pieces, .. } in self.fill_own(mixed, first, planes, tracker, workers) {
            let fresh = Mapping::private(WINDOW_BYTES, false)
                .and_then(|fresh| self.memory.replace(index * WINDOW_BYTES, fresh))
                .map_err(|failure| Error::system(planes.plane(0).file.path(), failure));
            fresh?;
            self.windows[index] = Window { hot: Mask::EMPTY, ..Window::NEW };
            copied.push((index, pieces));
        }
        copied.sort_unstable_by_key(|(index, _)| *index);
        let maps = self.map_planes(first, copied.iter().flat_map(|(_, pieces)| pieces), planes)?;
        self.copy_windows(&copied, &maps, workers);
        Ok(copied.into_iter().map(|(index, _)| index).collect())
    }

    /// Maps the planes in which these pieces lie.
    fn map_planes<'a>(
        &self,
        first: u32,
        pieces: impl Iterator<Item = &'a Piece>,
        planes: &Planes,
    ) -> Result<Vec<Option<Mapping>>> {
        let mut maps: Vec<Option<Mapping>> = (0..planes.count()).map(|_| None).collect();
        for piece in pieces {
            if maps[piece.plane as usize].is_none() {
                let windows = first as usize..first as usize + self.windows.len();
                maps[piece.plane as usize] = Some(planes.plane(piece.plane as usize).file.map(windows, false)?);
            }
        }
        Ok(maps)
    }

    /// Gives pages of windows that show a plane memory of their own. Returns the windows where the kernel cannot.
    fn fill_own(
        &self,
        mixed: Vec<Mixed>,
        first: u32,
        planes: &Planes,
        tracker: &Tracker,
        workers: &Workers,
    ) -> Vec<Mixed> {
        let address = |page: usize| self.address() + page * PAGE_BYTES;
        for run in mixed.chunk_by(|one, next| one.index + 1 == next.index) {
            // What is not watched is not filled.
            let _ = tracker.watch(address(run[0].index * WINDOW_PAGES), run.len() * WINDOW_BYTES);
        }
        let failed = Mutex::new(Vec::new());
        workers.parallel_for(mixed.len(), mixed.len() / WINDOWS_PER_THREAD, &|number| {
            let Mixed { index, own, pieces } = &mixed[number];
            let is_own = |piece: &&Piece| own.has(piece.page % WINDOW_PAGES);
            // Read as a file and copied from the cache, which spares the page-table entries of the plane.
            let mut buffer = [0; FILL_PAGES * PAGE_BYTES];
            for Piece { plane, page, pages } in pieces.iter().filter(is_own) {
                for start in (0..*pages).step_by(FILL_PAGES) {
                    let buffer = &mut buffer[..(pages - start).min(FILL_PAGES) * PAGE_BYTES];
                    let from = first as usize * WINDOW_PAGES + page + start;
                    let read = planes.plane(*plane as usize).file.read(from, buffer).is_ok();
                    if !read || tracker.fill(address(page + start), buffer).is_err() {
                        failed.lock().unwrap_or_else(|poison| poison.into_inner()).push(*index);
                        return;
                    }
                }
            }
        });
        let failed = failed.into_inner().unwrap_or_else(|poison| poison.into_inner());
        mixed.into_iter().filter(|mixed| failed.contains(&mixed.index)).collect()
    }

    /// Copies the pieces of windows into memory of their own.
    fn copy_windows(&self, copied: &[(usize, Vec<Piece>)], maps: &[Option<Mapping>], workers: &Workers) {
        workers.parallel_for(copied.len(), copied.len() / WINDOWS_PER_THREAD, &|number| {
            let (index, pieces) = &copied[number];
            self.memory.populate_for_writing(index * WINDOW_BYTES, WINDOW_BYTES);
            for Piece { plane, page, pages } in pieces {
                if let Some(map) = &maps[*plane as usize] {
                    let at = page * PAGE_BYTES;
                    self.memory.copy_from(at, map, at, pages * PAGE_BYTES);
                }
            }
        });
    }
}

/// A window that shows a plane but for some pages.
#[derive(Debug)]
struct Mixed {
    index: usize,
    /// The pages that the plane does not have.
    own: Mask,
    /// Where all of its pages lie.
    pieces: Vec<Piece>,
}

/// Pages that get memory of their own in one call.
const FILL_PAGES: usize = 8;

/// Windows to copy for which starting another thread is worth it.
const WINDOWS_PER_THREAD: usize = 4;
