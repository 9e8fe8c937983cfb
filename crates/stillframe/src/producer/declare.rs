//! Adding variables.

use crate::error::{Error, Result};
use crate::part::Part;
use crate::producer::pin;
use crate::producer::state::{Producer, VariableState};
use crate::store::space::Allocation;
use crate::variable::{Attributes, Declaration, Kind};
use crate::working::Working;
use crate::working::loaned::Loaned;
use crate::working::managed::Managed;
use crate::working::pages::{Pages, demoted_windows_max};
use crate::working::plane_maps::PlaneMaps;
use crate::working::tracked::Tracked;
use stillframe_segment::table::ZERO_PLANE;
use stillframe_segment::{Extent, Variable, WINDOW_BYTES, WINDOW_PAGES};

impl Producer {
    /// Adds a variable, or takes up the one of this name that the recovered version has.
    pub(crate) fn declare(&mut self, declaration: Declaration) -> Result<u32> {
        let (bytes, part) = self.check_declaration(&declaration)?;
        let Declaration { name, dtype, order, units, attributes, kind, pinned } = declaration;
        let shape = kind.shape().unwrap_or(&[]).to_vec();
        let undeclared = &self.workspace.undeclared;
        let known = undeclared.iter().position(|undeclared| undeclared.meta.name == name);
        let matches = known.map(|index| &undeclared[index]).is_some_and(|known| {
            known.meta.dtype == dtype
                && is_same_part(&known.meta.attributes, &part)
                && (kind.is_tracked()
                    || known.extent.order == order
                        && known.extent.page_offset == 0
                        && known.extent.shape.iter().map(|n| *n as usize).eq(shape.iter().copied()))
        });
        let id = match known.filter(|_| matches) {
            Some(index) => undeclared[index].meta.id,
            None => self.store.new_id()?,
        };
        let known = known.map(|index| self.workspace.undeclared.remove(index));
        let is_restored = matches && !kind.is_tracked();
        let working = match known.as_ref().filter(|_| is_restored) {
            Some(known) => self.restore(&kind, &known.extent, bytes, pinned),
            None => self.working(&kind, bytes),
        };
        let working = match working {
            Ok(working) => working,
            Err(error) => {
                // It can be declared again as long as no version was published without it.
                self.workspace.undeclared.extend(known);
                return Err(error);
            }
        };
        if let Some(known) = known.filter(|_| !is_restored) {
            self.store.free(known.extent.window, known.extent.windows().max(1) as u32);
        }
        let meta = Variable { id, name, dtype, order, units, attributes };
        let mut state = VariableState { meta, shape, order, part, working, shown: None };
        if pinned && let Err(error) = self.pin_state(&mut state) {
            self.drop_working(state.working);
            return Err(error);
        }
        self.workspace.variables.insert(id, Box::new(state));
        self.workspace.schema_changed = true;
        Ok(id)
    }

    /// Refuses what cannot be a variable, and says how many bytes it has, and which part of a global array it is.
    fn check_declaration(&self, declaration: &Declaration) -> Result<(usize, Option<Part>)> {
        let Declaration { name, dtype, attributes, kind, pinned, .. } = declaration;
        let wrong = |why| Error::WrongShape { name: name.clone(), why };
        check_variable_name(name)?;
        if *pinned && matches!(kind, Kind::Loaned { .. }) {
            return Err(pin::not_pinnable(name));
        }
        dtype.check().map_err(|error| wrong(error.to_string()))?;
        if self.workspace.variables.values().any(|state| state.meta.name == *name) {
            return Err(Error::VariableExists { region: self.store.name.clone(), name: name.clone() });
        }
        let shape = kind.shape().unwrap_or(&[]);
        let bytes = dtype.array_bytes(shape).map_err(|why| wrong(why.to_string()))?;
        let part = Part::of(attributes).map_err(wrong)?;
        if let Some(part) = part.as_ref().filter(|_| !kind.is_tracked()) {
            part.check(shape).map_err(wrong)?;
        }
        Ok((bytes, part))
    }

    /// Windows of its own for a managed or loaned variable, and memory if it is managed.
    pub(crate) fn working(&mut self, kind: &Kind, bytes: usize) -> Result<Working> {
        let windows = bytes.div_ceil(WINDOW_BYTES).max(1);
        Ok(match kind {
            Kind::Managed { .. } => {
                let pages = self.pages(windows, bytes)?;
                // Before another region can track it: the kernel says to one alone what is written, and whoever comes later
                // compares. What cannot be watched yet counts as written.
                let _ = self.workspace.tracker.watch(pages.address(), windows * WINDOW_BYTES);
                let allocation = self.store.allocate(windows as u32)?;
                match Managed::new(allocation, pages, bytes, false) {
                    Ok(managed) => Working::Managed(managed.into()),
                    Err(failure) => {
                        self.store.free(allocation.window, allocation.windows);
                        return Err(Error::system(self.store.dir(), failure));
                    }
                }
            }
            Kind::Tracked => Working::Tracked(Tracked::default()),
            Kind::Loaned { .. } => Working::Loaned(Loaned::new(self.store.allocate(windows as u32)?, bytes)),
        })
    }

    fn pages(&self, windows: usize, bytes: usize) -> Result<Pages> {
        // What does not fill a window would take the memory of a whole one with its first byte.
        let large = self.options.large_pages && bytes >= WINDOW_BYTES;
        Pages::new(windows, large).map_err(|failure| Error::system(self.store.dir(), failure))
    }

    /// Takes up what the recovered version has of a managed or loaned variable. What is pinned shows no plane: all of it is
    /// copied.
    fn restore(&mut self, kind: &Kind, extent: &Extent, bytes: usize, pinned: bool) -> Result<Working> {
        let windows = extent.windows().max(1) as usize;
        let allocation = Allocation { serial: extent.allocation, window: extent.window, windows: windows as u32 };
        if let Kind::Loaned { .. } = kind {
            return Ok(Working::Loaned(Loaned::new(allocation, bytes)));
        }
        let mut pages = self.pages(windows, bytes)?;
        let mut maps = PlaneMaps::new(allocation);
        if !pinned {
            self.compact(&mut maps)?;
        }
        let store = &self.store;
        let table = |index: usize| {
            let mut table = store.subtable(extent.window as usize + index);
            let pages = (extent.pages() as usize).saturating_sub(index * WINDOW_PAGES);
            table[pages.min(WINDOW_PAGES)..].fill(ZERO_PLANE);
            table
        };
        let workspace = &mut self.workspace;
        let pieces_max = if pinned { 0 } else { demoted_windows_max().saturating_sub(workspace.demoted_windows) };
        let workers = workspace.copier.workers();
        let copied = pages.restore(extent.window, table, store.planes(), &workspace.tracker, workers, pieces_max)?;
        workspace.demoted_windows += pages.demoted_windows();
        for run in copied.chunk_by(|index, next| index + 1 == *next) {
            // What cannot be watched yet counts as written.
            let _ = workspace.tracker.rewatch(pages.address() + run[0] * WINDOW_BYTES, run.len() * WINDOW_BYTES);
        }
        let managed = Managed::new(allocation, pages, bytes, true);
        let mut managed = managed.map_err(|failure| Error::system(self.store.dir(), failure))?;
        managed.source.maps = maps;
        Ok(Working::Managed(managed.into()))
    }

    /// Lets go of what a variable is written in. The versions that exist keep its pages.
    pub(crate) fn drop_working(&mut self, working: Working) {
        drop(self.drop_keeping(working));
    }

    /// As [`drop_working`](Producer::drop_working), but returns the memory that is the region's.
    pub(crate) fn drop_keeping(&mut self, working: Working) -> Option<Pages> {
        for source in working.sources() {
            source.unwatch(&mut self.workspace.tracker);
        }
        for allocation in working.allocations() {
            self.store.free(allocation.window, allocation.windows);
        }
        let Working::Managed(managed) = working else { return None };
        let demoted_windows = &mut self.workspace.demoted_windows;
        *demoted_windows = demoted_windows.saturating_sub(managed.pages.demoted_windows());
        Some(managed.pages)
    }
}

/// Whether what a variable held may be taken up by one of this part: another box of the global array is other content.
fn is_same_part(recovered: &Attributes, part: &Option<Part>) -> bool {
    match (Part::of(recovered), part) {
        (Ok(Some(recovered)), Some(part)) => recovered == *part,
        _ => true,
    }
}

fn check_variable_name(name: &str) -> Result<()> {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > 200 {
        "it is longer than 200 bytes"
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace() || "[]:/".contains(c)) {
        "it has a blank, a control character, or one of [ ] : /"
    } else {
        return Ok(());
    };
    Err(Error::BadName { name: name.into(), what: "variable", why: why.into() })
}
