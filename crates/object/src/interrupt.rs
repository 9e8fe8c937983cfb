//! What may end a wait early: a signal in a program whose language looks for signals itself.

use crate::error::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Asks whether the thread that waits is to stop.
#[derive(Clone, Default)]
pub(crate) struct Interrupt(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Interrupt {
    pub(crate) fn new(asks: impl Fn() -> bool + Send + Sync + 'static) -> Interrupt {
        Interrupt(Some(Arc::new(asks)))
    }

    /// An error if the wait for something of this object is to end.
    pub(crate) fn check(&self, name: &str) -> Result<()> {
        match &self.0 {
            Some(asks) if asks() => Err(Error::Interrupted { name: name.into() }),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Interrupt(asks)" } else { "Interrupt(never)" })
    }
}
