//! Demotion: cold windows of managed memory show a plane, and exist once.

use crate::error::{Error, Result};
use crate::mask::Mask;
use crate::producer::collect::Job;
use crate::producer::state::Workspace;
use crate::store::Store;
use crate::working::Working;
use crate::working::managed::Managed;
use crate::working::pages::demoted_windows_max;
use crate::working::tracker::kind::TrackerKind;
use crate::working::tracker::memory::Watch;
use stillframe_kernel::points;
use stillframe_segment::{PAGE_BYTES, WINDOW_BYTES};

/// Windows demoted in one publish, as a divisor of the windows there are.
const SHARE_DIVISOR: usize = 64;

impl Workspace {
    /// Shares the windows of a variable that turned out to be cold at the publish of a job.
    pub(crate) fn demote_cold(&mut self, job: &Job, store: &Store, demote: bool) -> Result<()> {
        let Workspace { variables, tracker, demoted_windows, .. } = self;
        let kind = tracker.kind();
        let Some(Working::Managed(managed)) = variables.get_mut(job.id).map(|state| &mut state.working) else {
            return Ok(());
        };
        let Managed { source, pages, .. } = &mut **managed;
        if source.memory.pinned {
            return Ok(());
        }
        // Where another region watches this memory, what is laid in its place and armed would hide from that one what was written.
        let demote = demote
            && match kind {
                TrackerKind::WpAsync => source.watch != Watch::Off,
                kind => kind == TrackerKind::SoftDirty,
            };
        let windows = source.windows();
        let mut budget = windows.div_ceil(SHARE_DIVISOR);
        for window in 0..windows {
            let valid = source.valid(window);
            let dirty = source.collected.dirty[window];
            let armed = source.collected.armed[window];
            let wanted = match kind {
                // This tracker arms a window by demoting it.
                TrackerKind::PrivateCow => armed && !dirty.is_empty(),
                _ if demote => pages.observe(window, dirty, valid) && budget > 0,
                _ => false,
            };
            if !wanted || (*demoted_windows >= demoted_windows_max() && !pages.is_demoted(window)) {
                continue;
            }
            budget = budget.saturating_sub(1);
            points::hit("demote.begin");
            let first = source.maps.allocation.window;
            let planes_of = store.subtable(first as usize + window);
            let keep = if kind == TrackerKind::PrivateCow { Mask::EMPTY } else { pages.hot(window) };
            let was_demoted = pages.is_demoted(window);
            match pages.demote(window, first, valid, keep, &planes_of, store.planes()) {
                Ok(true) => {}
                Ok(false) => continue,
                // Sharing is an economy: without mappings or space to spare the window stays as it is.
                Err(Error::NoMappings { .. } | Error::NoSpace { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
            points::hit("demote.replaced");
            *demoted_windows += usize::from(!was_demoted);
            let address = source.memory.address + window * WINDOW_BYTES;
            // What is written behind the variable's end shall be found when the variable has grown over it.
            let bytes = valid.count() * PAGE_BYTES;
            if kind == TrackerKind::WpAsync && tracker.rewatch(address, bytes).is_err() {
                source.watch = Watch::New;
            }
            source.sticky.rearmed(window, keep);
            points::hit("demote.done");
        }
        Ok(())
    }
}
