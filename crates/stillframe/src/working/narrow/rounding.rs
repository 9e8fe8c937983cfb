//! The way in which a thread's processor rounds numbers.
//!
//! It is the program's: one that is compiled with `-ffpe-trap` or `-ffast-math`, or that calls fesetround(3), has numbers too large for
//! 4 bytes end it, small ones become 0, or rounds upwards. What is published is rounded to the nearest, and the program's
//! flags stay as they are.
//!
//! # Safety
//!
//! This module changes the control register of floating point, which the compiler takes to be as the language says. While a
//! [`Rounding`] lives it is just that, and what the thread had comes back when it goes. Numbers are read and written through
//! memory, which no compiler moves over the instructions here.
#![allow(unsafe_code)]

use std::arch::asm;
use std::marker::PhantomData;

/// What the program had.
#[derive(Debug, Clone, Copy)]
struct Saved {
    control: u64,
    /// Flags of what went wrong, where they are a register of their own.
    #[cfg(target_arch = "aarch64")]
    flags: u64,
}

/// Numbers are rounded to the nearest by this thread, none ends it, and none becomes 0 for being small, while this lives.
#[derive(Debug)]
pub(crate) struct Rounding {
    saved: Saved,
    /// It is this thread's.
    thread: PhantomData<*const ()>,
}

impl Rounding {
    pub(crate) fn begin() -> Rounding {
        // SAFETY: that is what the language takes for granted.
        Rounding { saved: unsafe { exchange(None) }, thread: PhantomData }
    }
}

impl Drop for Rounding {
    fn drop(&mut self) {
        // SAFETY: it is what the thread had before.
        unsafe { exchange(Some(self.saved)) };
    }
}

/// Sets what is given, or what the language takes for granted, and returns what was set.
///
/// # Safety
/// As this module's.
#[cfg(target_arch = "x86_64")]
unsafe fn exchange(new: Option<Saved>) -> Saved {
    /// All exceptions masked, to the nearest, nothing flushed to zero.
    const STANDARD: u32 = 0x1f80;
    let (new, mut old) = (new.map_or(STANDARD, |saved| saved.control as u32), 0u32);
    // SAFETY: both words live until the instructions are done; the caller vouches for what they do.
    unsafe {
        asm!("stmxcsr [{old}]", "ldmxcsr [{new}]", old = in(reg) &raw mut old, new = in(reg) &raw const new, options(nostack));
    }
    Saved { control: u64::from(old) }
}

/// As on other processors.
///
/// # Safety
/// As this module's.
#[cfg(target_arch = "aarch64")]
unsafe fn exchange(new: Option<Saved>) -> Saved {
    let (control, flags): (u64, u64);
    let new = new.unwrap_or(Saved { control: 0, flags: 0 });
    // SAFETY: the caller vouches for what the instructions do.
    unsafe {
        asm!("mrs {}, fpcr", "mrs {}, fpsr", out(reg) control, out(reg) flags, options(nostack));
        asm!("msr fpcr, {}", "msr fpsr, {}", in(reg) new.control, in(reg) new.flags, options(nostack));
    }
    Saved { control, flags }
}

/// Of other processors nothing is known.
///
/// # Safety
/// There is nothing to vouch for.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn exchange(_new: Option<Saved>) -> Saved {
    Saved { control: 0 }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::working::narrow::Narrow;

    #[test]
    fn what_a_program_has_set_changes_no_number_and_ends_nothing() {
        let numbers =
            [1e300, -1e300, 0.1, -0.1, 1e-40, 3e-39, f64::NAN, 65519.9, 65520.0, 1e-7, 2.0 / 3.0, f64::INFINITY, 7.0];
        let numbers: Vec<f64> = numbers.into_iter().cycle().take(100).collect();
        // A number that signals when it is used.
        let numbers: Vec<f64> = numbers.into_iter().chain([f64::from_bits(0x7ff0_0000_0000_0001)]).collect();
        let ways = [Narrow::DoubleToSingle, Narrow::DoubleToHalf, Narrow::DoubleToBfloat];
        let round = |narrow: Narrow| {
            let mut shown = vec![0u8; numbers.len() * 8 / narrow.ratio()];
            let bytes = shown.len();
            // SAFETY: there are as many numbers as are named, and room for them.
            unsafe { narrow.round(&Rounding::begin(), numbers.as_ptr().cast(), shown.as_mut_ptr(), bytes) };
            shown
        };
        let expected = ways.map(round);
        // No exception is masked, upwards, small numbers become 0.
        let own = Saved { control: 0xc040 };
        // SAFETY: between the two, numbers are moved alone, but for what `round` does.
        let (found, left) = unsafe {
            let before = exchange(Some(own));
            let found = ways.map(round);
            (found, exchange(Some(before)))
        };
        assert_eq!(found, expected);
        assert_eq!(left.control, own.control, "nothing of it is left behind");
    }
}
