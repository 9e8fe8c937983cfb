//! Giving variables another shape.

use crate::error::{Error, Result};
use crate::producer::state::{Producer, VariableState};
use crate::working::Working;
use stillframe_segment::WINDOW_BYTES;

impl Producer {
    /// Gives a managed or loaned variable another shape. On an error it is as it was.
    pub(crate) fn resize(&mut self, state: &mut VariableState, shape: &[usize]) -> Result<()> {
        let wrong = |why| Error::WrongShape { name: state.meta.name.clone(), why };
        if let Some(part) = &state.part {
            part.check(shape).map_err(wrong)?;
        }
        if state.is_tracked() {
            return Err(state.wrong_kind("managed and loaned"));
        }
        let bytes = state.meta.dtype.array_bytes(shape).map_err(|why| wrong(why.to_string()))?;
        let windows = bytes.div_ceil(WINDOW_BYTES).max(1);
        let kind = state.kind();
        if let Working::Managed(managed) = &state.working
            && windows > managed.source.maps.allocation.windows as usize
        {
            state.check_pin(bytes)?;
        }
        match &mut state.working {
            Working::Managed(managed) if windows <= managed.source.maps.allocation.windows as usize => {
                let cut = managed.resize(bytes, &self.store);
                let cut = cut.map_err(|failure| Error::system(self.store.dir(), failure))?;
                self.workspace.demoted_windows = self.workspace.demoted_windows.saturating_sub(cut);
            }
            Working::Loaned(loaned) => {
                let old = loaned.allocation;
                loaned.move_to(self.store.allocate(windows as u32)?, bytes);
                self.store.free(old.window, old.windows);
            }
            _ => {
                let new = self.working(&kind, bytes)?;
                let old = std::mem::replace(&mut state.working, new);
                if let (Working::Managed(from), Working::Managed(to)) = (&old, &state.working) {
                    to.pages.memory.copy_from(0, &from.pages.memory, 0, from.source.bytes.min(bytes));
                }
                self.drop_working(old);
            }
        }
        state.shape = shape.to_vec();
        Ok(())
    }
}
