//! Snapshots: a hold on one version.
//!
//! # Safety
//!
//! This module makes slices of pages that another process wrote. Its invariant: a slice is made only of pages that the
//! snapshot's version shows, and lives no longer than the snapshot's hold, because until then the producer writes none of
//! their frames. Lengths and plane numbers come from the shared files and are checked against the files' sizes first.
#![allow(unsafe_code)]

use crate::element::Element;
use crate::error::{Error, Result};
use crate::observer::ahead::Ahead;
use crate::observer::attachment::{Hold, Shared};
use crate::observer::chunks::Chunks;
use crate::observer::pieces::{Inner, Piece, WINDOW_PIECES_MAX, pieces_easy};
use crate::observer::variable::VariableView;
use crate::observer::view::View;
use crate::variable::Attributes;
use std::fs::File;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use stillframe_kernel::map::Mapping;
use stillframe_protocol::Leased;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Description, PAGE_BYTES, WINDOW_PAGES, description};

/// A consistent, unchanging view of all variables of one version.
///
/// Cloning shares the hold; it ends with the last clone and the last [`View`].
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
}

/// Ranges laid at addresses of the caller's that together may take as many mappings as one of the snapshot's own.
const LAID_MAX: usize = 8;

impl Snapshot {
    /// Reads what a leased version says of itself. The hold ends on an error.
    pub(crate) fn open(shared: Arc<Shared>, leased: Leased) -> Result<Snapshot> {
        Snapshot::of(Hold { shared, leased })
    }

    /// As [`open`](Snapshot::open), for a version that is held already.
    pub(crate) fn of(hold: Hold) -> Result<Snapshot> {
        let leased = hold.leased;
        let shared = &hold.shared;
        let descriptor = shared.head.descriptor(leased.slot);
        let blocks = Ahead::new(shared, &descriptor);
        let description = Description::new(&blocks, descriptor, leased.slot)?;
        let manifest = description.manifest()?;
        let entries = description.entries()?;
        shared.open_planes()?;
        let schema = shared.schema(descriptor.schema)?;
        let metas = description::find_variables(&manifest, descriptor.manifest_block, &schema);
        let metas = metas.map_err(|corrupt| shared.corrupt(corrupt))?;
        let mut variables = Vec::with_capacity(manifest.extents.len());
        for (extent, meta) in manifest.extents.into_iter().zip(metas) {
            let shape = extent.shape.iter().map(|n| *n as usize).collect();
            variables.push(VariableView {
                name: meta.name.clone(),
                dtype: meta.dtype.clone(),
                order: extent.order,
                units: meta.units.clone(),
                attributes: meta.attributes.clone(),
                shape,
                bytes: extent.bytes as usize,
                extent,
                contiguous: OnceLock::new(),
            });
        }
        let inner = Inner {
            hold,
            descriptor,
            attributes: manifest.attributes,
            variables,
            entries,
            subtables: Mutex::default(),
            maps: Mutex::default(),
        };
        Ok(Snapshot { inner: Arc::new(inner) })
    }

    /// The name of the region.
    pub fn region(&self) -> &str {
        &self.inner.hold.shared.name
    }

    /// The producer's number of the version.
    pub fn version(&self) -> u64 {
        self.inner.descriptor.version
    }

    /// Time of publishing in nanoseconds since 1970.
    pub fn published_ns(&self) -> u64 {
        self.inner.descriptor.published_ns
    }

    /// The run that published the version; `None` if a producer did that knew of no runs. What the ranks of a group publish under
    /// one number belongs together if they are of one run.
    pub fn run(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.inner.descriptor.run)
    }

    /// Pages that were dirty when the version was published, and pages of all its variables.
    pub fn dirty_and_total_pages(&self) -> (u64, u64) {
        (self.inner.descriptor.dirty_pages, self.inner.descriptor.total_pages)
    }

    /// Place of the version among all that were committed in the region's files, by any producer: it grows by one with each.
    pub fn sequence(&self) -> u64 {
        self.inner.hold.leased.sequence
    }

    /// Refuses a snapshot of another region.
    ///
    /// # Errors
    /// [`Error::DifferentRegions`].
    pub fn check_region(&self, other: &Snapshot) -> Result<()> {
        self.inner.check_region(&other.inner)
    }

    /// Whether both snapshots are of the same region's files, rather than of two that had the same name one after the other.
    pub fn is_of_same_files(&self, other: &Snapshot) -> bool {
        self.inner.hold.shared.is_same(&other.inner.hold.shared)
    }

    /// The version's attributes.
    pub fn attributes(&self) -> &Attributes {
        &self.inner.attributes
    }

    /// The variables, in the order of their declaration.
    pub fn variables(&self) -> &[VariableView] {
        &self.inner.variables
    }

    /// One variable.
    ///
    /// # Errors
    /// [`Error::UnknownVariable`].
    pub fn variable(&self, name: &str) -> Result<&VariableView> {
        self.inner.variable(name).map(|(_, variable)| variable)
    }

    /// All elements of a variable, in their order in memory. The first call for a variable maps it if its pages lie in
    /// several pieces.
    ///
    /// # Errors
    /// Misuse if the variable is unknown or of another type; [`Error::NoMappings`] if it cannot be mapped.
    pub fn slice<T: Element>(&self, name: &str) -> Result<&[T]> {
        let (_, variable) = self.inner.variable(name)?;
        if variable.dtype != T::dtype() {
            let (expected, found) = (T::dtype(), variable.dtype.clone());
            return Err(Error::WrongDType { name: name.into(), expected, found });
        }
        let bytes = self.inner.contiguous_bytes(variable)?;
        if bytes.is_empty() {
            return Ok(&[]);
        }
        bytemuck::try_cast_slice(bytes).map_err(|error| Error::WrongShape {
            name: name.into(),
            why: format!("its memory cannot be seen as {}: {error}; use view or read", T::dtype()),
        })
    }

    /// All bytes of a variable, as a value of its own that keeps the hold.
    ///
    /// # Errors
    /// As [`slice`](Snapshot::slice).
    pub fn view(&self, name: &str) -> Result<View> {
        let (index, variable) = self.inner.variable(name)?;
        self.inner.contiguous_bytes(variable)?;
        Ok(View { inner: self.inner.clone(), index })
    }

    /// The bytes of a variable in pieces as they lie in the planes, ascending, without mapping anything for this version.
    ///
    /// # Errors
    /// Misuse if the variable is unknown; environment if a plane cannot be opened.
    pub fn chunks(&self, name: &str) -> Result<Chunks<'_>> {
        let (_, variable) = self.inner.variable(name)?;
        let runs = self.inner.runs(variable, 0..variable.extent.pages() as usize)?;
        Chunks::new(&self.inner, variable, runs, 0..variable.bytes)
    }

    /// As [`chunks`](Snapshot::chunks), for a range of the variable's bytes.
    ///
    /// # Errors
    /// As [`chunks`](Snapshot::chunks), and [`Error::OutOfRange`].
    pub fn chunks_in(&self, name: &str, range: Range<usize>) -> Result<Chunks<'_>> {
        let (variable, runs) = self.runs_in(name, &range)?;
        Chunks::new(&self.inner, variable, runs, range)
    }

    /// The ranges of a variable's bytes, ascending and apart, that are zeros and lie in no plane.
    ///
    /// # Errors
    /// Misuse if the variable is unknown.
    pub fn zeros(&self, name: &str) -> Result<Vec<Range<usize>>> {
        let (_, variable) = self.inner.variable(name)?;
        let runs = self.inner.runs(variable, 0..variable.extent.pages() as usize)?;
        let zeros =
            runs.iter().filter(|run| run.plane == ZERO_PLANE).map(|run| run.bytes_in(variable, &(0..variable.bytes)));
        Ok(zeros.filter(|range| !range.is_empty()).collect())
    }

    /// The pieces in which a range of a variable's bytes lies.
    fn runs_in(&self, name: &str, range: &Range<usize>) -> Result<(&VariableView, Vec<Piece>)> {
        let (_, variable) = self.inner.variable(name)?;
        if range.start > range.end || range.end > variable.bytes {
            let (start, end, bytes) = (range.start, range.end, variable.bytes);
            return Err(Error::OutOfRange { name: name.into(), start, end, bytes });
        }
        let offset = variable.extent.page_offset as usize;
        let pages = (offset + range.start) / PAGE_BYTES..(offset + range.end).div_ceil(PAGE_BYTES);
        let runs = if range.is_empty() { Vec::new() } else { self.inner.runs(variable, pages)? };
        Ok((variable, runs))
    }

    /// Copies bytes of a variable from `offset` on, from the files and not through memory that shows them: files that were
    /// cut short are an error here, where [`slice`](Snapshot::slice), [`view`](Snapshot::view) and
    /// [`chunks`](Snapshot::chunks) would end the process by `SIGBUS`.
    ///
    /// # Errors
    /// As [`chunks_in`](Snapshot::chunks_in), and [`Error::Corrupt`] with file, offset and sizes.
    pub fn read(&self, name: &str, offset: usize, out: &mut [u8]) -> Result<()> {
        let range = offset..offset.saturating_add(out.len());
        let (variable, runs) = self.runs_in(name, &range)?;
        let page_offset = variable.extent.page_offset as usize;
        let mut open: Option<(u8, Arc<File>)> = None;
        for run in runs {
            let bytes = run.bytes_in(variable, &range);
            let to = &mut out[bytes.start - offset..bytes.end - offset];
            if run.plane == ZERO_PLANE {
                to.fill(0);
                continue;
            }
            let file = match open.take() {
                Some((plane, file)) if plane == run.plane => file,
                _ => self.inner.hold.shared.plane_file(run.plane)?,
            };
            let at = run.at + (page_offset + bytes.start - run.page * PAGE_BYTES) as u64;
            self.inner.hold.shared.read_plane(run.plane, &file, at, to)?;
            open = Some((run.plane, file));
        }
        Ok(())
    }

    /// Whether the region's files are another user's, who could cut them short at any time: read them with
    /// [`read`](Snapshot::read).
    pub fn is_foreign(&self) -> bool {
        self.inner.hold.shared.is_foreign()
    }

    /// A file that holds the version for as long as it is open anywhere: here, or in children that inherit it by `fork`,
    /// whatever becomes of the snapshot. It has no other use.
    ///
    /// # Errors
    /// Environment if the file cannot be opened; [`Error::NoRegion`] if the region was removed.
    pub fn keep(&self) -> Result<File> {
        self.inner.hold.shared.leases.keep(self.inner.hold.leased.slot)
    }

    /// Puts pages of a variable, as they lie in the planes, in the place of what is mapped at `address`. Pages that lie in
    /// more pieces than the process has mappings to spare are copied. The last page shows unspecified bytes behind the
    /// variable's end.
    ///
    /// The pages show the version as long as the snapshot or a file of [`keep`](Snapshot::keep) holds it.
    ///
    /// # Errors
    /// Misuse if the variable is unknown, does not have the pages, or does not begin at a page; [`Error::NoMappings`],
    /// with the pages before it already in place.
    ///
    /// # Safety
    /// The addresses are the caller's, aligned to a page, and nobody relies on what is mapped there.
    pub unsafe fn lay(&self, name: &str, pages: Range<usize>, address: *mut u8) -> Result<()> {
        let (_, variable) = self.inner.variable(name)?;
        let extent = &variable.extent;
        if extent.page_offset != 0 || pages.start > pages.end || pages.end > extent.pages() as usize {
            let (start, end) = (pages.start.saturating_mul(PAGE_BYTES), pages.end.saturating_mul(PAGE_BYTES));
            return Err(Error::OutOfRange { name: name.into(), start, end, bytes: variable.bytes });
        }
        let runs = self.inner.runs(variable, pages.clone())?;
        // SAFETY: the range is the caller's to replace.
        let map = unsafe { Mapping::lent(address as usize, pages.len() * PAGE_BYTES) };
        // A process may lay many versions, so each gets its share of the mappings, and each window its share of those.
        let (easy, windows) = (pieces_easy() / LAID_MAX, pages.len().div_ceil(WINDOW_PAGES));
        let most = if runs.len() <= easy { usize::MAX } else { (easy / windows).clamp(1, WINDOW_PIECES_MAX) };
        self.inner.lay_all(&map, &runs, pages.start, most)
    }

    /// Ranges of a variable's bytes, ascending and apart, that may differ from an older snapshot of the same region. It is
    /// everything if the variable moved, was resized, or was not there, or if the region was removed and made anew in between.
    /// The work is proportional to what changed.
    ///
    /// # Errors
    /// Misuse if the variable is unknown, or the snapshots are of different regions.
    pub fn changed(&self, older: &Snapshot, name: &str) -> Result<Vec<Range<usize>>> {
        self.check_region(older)?;
        self.inner.changed(&older.inner, self.variable(name)?)
    }

    /// Lets go of this version for a later one, and brings what was viewed along: what [`slice`](Snapshot::slice) and
    /// [`view`](Snapshot::view) show then is made from what they showed before, by what [`changed`](Snapshot::changed) lists,
    /// where that is cheaper than to map the later version anew. That takes memory of this process, as much as the variable has,
    /// which is copied once; from then on the work of each version is proportional to what changed.
    ///
    /// For that nobody else may have the memory: with a [`View`], or a clone of this snapshot, that lives on, nothing is brought
    /// along. What was viewed of `next` already stays as it is.
    ///
    /// # Errors
    /// [`Error::DifferentRegions`]; [`Error::Forked`]; and nothing has changed. What cannot be brought along is mapped anew when it is asked for, so
    /// there are no others.
    pub fn advance(&mut self, next: Snapshot) -> Result<()> {
        next.check_region(self)?;
        // The hold of a process that forked is not its child's, nor are its locks.
        next.inner.hold.shared.leases.file()?;
        let older = std::mem::replace(&mut self.inner, next.inner);
        if older.hold.shared.leases.file().is_ok() {
            self.inner.take_copies(older);
        }
        Ok(())
    }
}
