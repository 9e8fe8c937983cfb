//! What a program gives back where the runtime of its node has no memory left.

use crate::error::Result;

/// What a program keeps of the memory that the runtime of its node takes for what it reads, as fragments that it may read again. Whoever
/// reads with it waits for no memory that the program itself only keeps.
pub trait Relief {
    /// The runtime has no memory for a read: gives back what is kept, with [`ReadFragment::give_back`](crate::ReadFragment::give_back).
    /// Whether the program gave something back, or is about to: then the runtime is asked once more though the read was to wait for
    /// nobody. It is called each time that the runtime refuses. From then on the read has no memory of the runtime; `had_memory` says
    /// whether it had some until then.
    ///
    /// # Errors
    /// Those that end the read.
    fn give_back(&self, had_memory: bool) -> Result<bool>;

    /// The runtime is about to be asked once more. From then on the read may have memory of the runtime: whoever is refused meanwhile
    /// may be so because of it, before the answer is here.
    ///
    /// # Errors
    /// Those that end the read.
    fn ask_again(&self) -> Result<()> {
        Ok(())
    }
}

/// A program that keeps nothing.
pub(crate) struct NoRelief;

impl Relief for NoRelief {
    fn give_back(&self, _had_memory: bool) -> Result<bool> {
        Ok(false)
    }
}
