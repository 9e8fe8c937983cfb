//! Leases across enclaves: words in the place of locks.
//!
//! Two kernels know nothing of each other's locks. So an enclave shows another one which of its versions it holds: a bit for each slot,
//! in memory that the other one reads and cannot write. Only the enclave's **agent** writes these words, one thread. Who wants a version
//! of another enclave takes a lock in his own kernel, as for any version, and then asks the agent to show the slot. So the agent keeps
//! no accounts: a slot that is shown and that nobody locks is hidden again, whether its holder let go, died, or the agent was
//! started anew.
//!
//! What an enclave shows counts as long as the other one **admits** it. That is said by a word of the other enclave, so that one
//! whose machine died is not waited for. No word is ever given up for the time that has passed: a machine that was paused
//! goes on where it was.
//!
//! ```text
//! lease                                   retire
//!   lock the slot in the own kernel         stamp the slot retiring
//!   agent: show the slot                    fence
//!          fence                            ask whether anybody locks the slot
//!          is it admitted?                  is it admitted, and does it show the slot?
//!   fence                                   neither: stamp it free, reuse its pages
//!   stamp still (s, live)?                  else: ask again at the next publish
//! ```

use crate::{Leases, Ordering, fence};

/// What one enclave shows another one of one of its regions, as that one sees it.
pub trait Shown {
    /// Whether a slot is shown, with any ordering.
    fn is_shown(&self, slot: usize) -> bool;
    /// Whether the other enclave counts what is shown, with any ordering.
    fn is_admitted(&self) -> bool;
}

/// The same, as the agent has it.
pub trait Show: Shown {
    /// Shows a slot, with any ordering.
    fn show(&self, slot: usize);
    /// Hides a slot, with release ordering.
    fn hide(&self, slot: usize);
}

/// The agent shows a slot for somebody who has locked it. `false`: what is shown does not count, and nothing may be leased.
pub fn show(words: &impl Show, slot: usize) -> bool {
    words.show(slot);
    fence(Ordering::SeqCst);
    if words.is_admitted() {
        return true;
    }
    words.hide(slot);
    false
}

/// The agent hides a slot that nobody locks any more; `true` if it did. Who locks it just now has yet to ask.
pub fn hide_unheld<L: Leases>(words: &impl Show, locks: &L, slot: usize) -> Result<bool, L::Error> {
    if locks.is_held(slot)? {
        return Ok(false);
    }
    fence(Ordering::Acquire);
    words.hide(slot);
    Ok(true)
}

/// Whether another enclave holds a slot, for who retires the version in it and has stamped it so.
pub fn is_held_elsewhere(words: &impl Shown, slot: usize) -> bool {
    words.is_admitted() && words.is_shown(slot)
}
