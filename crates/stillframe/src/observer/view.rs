//! All bytes of a variable of a snapshot, as a value.
//!
//! # Safety
//!
//! The invariant of [`pieces`](crate::observer::pieces): the map shows pages of the version that the hold of the view keeps.
#![allow(unsafe_code)]

use crate::observer::pieces::Inner;
use crate::observer::variable::VariableView;
use std::ops::Deref;
use std::sync::Arc;

/// All bytes of a variable of a snapshot, with a hold of their own.
#[derive(Debug, Clone)]
pub struct View {
    pub(crate) inner: Arc<Inner>,
    pub(crate) index: usize,
}

impl View {
    /// What is known of the variable.
    pub fn variable(&self) -> &VariableView {
        &self.inner.variables[self.index]
    }
}

impl Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let variable = &self.inner.variables[self.index];
        match variable.contiguous.get() {
            // SAFETY: as in `contiguous_bytes`, which made it.
            Some(contiguous) => unsafe { contiguous.map.bytes_at(contiguous.offset, variable.bytes) },
            None => &[],
        }
    }
}
