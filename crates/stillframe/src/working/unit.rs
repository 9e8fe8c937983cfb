//! In which units what lies in reserved large pages is copied.
//!
//! The kernel tells of a large page only that it was written, and not where. Its small pages are all copied, or compared with the
//! newest version, and those that differ are copied. To compare a page takes about as long as to copy it, for both read or write
//! two pages; but a page that is not copied takes no memory, and observers are told that it has not changed. So a window of
//! which little is written is compared at each publish, and one of which much is written now and then, to see whether that
//! is still so.

use crate::choice;
use crate::error::{Error, Result};
use crate::list;
use stillframe_kernel::Failure;

/// In which units a publish copies tracked arrays that lie in reserved large pages (hugetlbfs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CopyUnit {
    /// In the better of the two, which is learned for each 2 MiB.
    #[default]
    Learned,
    /// In pages of 4 KiB: those of a written large page that differ from the newest version.
    Small,
    /// In large pages: all of one that was written.
    Large,
}

/// All units.
pub const COPY_UNITS: [CopyUnit; 3] = [CopyUnit::Learned, CopyUnit::Small, CopyUnit::Large];

impl CopyUnit {
    /// The name, as options and `STILLFRAME_COPY_UNIT` take it.
    pub fn name(self) -> &'static str {
        match self {
            CopyUnit::Learned => "learned",
            CopyUnit::Small => "small",
            CopyUnit::Large => "large",
        }
    }
}

impl std::fmt::Display for CopyUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for CopyUnit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        choice::find("copy_unit", &COPY_UNITS, CopyUnit::name, text)
    }
}

/// Longest time, in publishes, for which a window is copied without a look.
const PERIOD_MAX: u16 = 64;

/// Windows that are compared together take turns with others, so that no publish pays for all.
const GROUP: usize = 8;

/// Share of the pages found written from which on a window is copied whole, in percent: to look at a page that is copied
/// all the same is in vain.
const WHOLE_PERCENT: usize = 33;

/// What is known of the pages of one window.
#[derive(Debug, Clone, Copy)]
struct Window {
    /// Publishes between two comparisons.
    period: u16,
    /// Publishes since the last one.
    age: u16,
}

/// What is known of the windows of one place.
#[derive(Debug)]
pub(crate) struct Units {
    windows: Vec<Window>,
}

impl Units {
    /// Of this many windows nothing is known.
    pub(crate) fn new(windows: usize) -> Result<Units, Failure> {
        Ok(Units { windows: list::filled(Window { period: 1, age: 0 }, windows)? })
    }

    /// Whether the pages of a window that were found written are to be compared.
    pub(crate) fn is_compared(&self, window: usize, unit: CopyUnit) -> bool {
        let state = &self.windows[window];
        match unit {
            CopyUnit::Learned => state.age >= state.period - 1,
            CopyUnit::Small => true,
            CopyUnit::Large => false,
        }
    }

    /// Learns how many of the pages of a window that were found written differ, where they were compared.
    pub(crate) fn learn(&mut self, index: usize, found_pages: usize, differing_pages: Option<usize>) {
        if found_pages == 0 {
            return;
        }
        let window = &mut self.windows[index];
        // What is never compared gets older for as long as the program runs.
        window.age = window.age.saturating_add(1);
        let Some(differing_pages) = differing_pages else { return };
        window.age = 0;
        if differing_pages * 100 < found_pages * WHOLE_PERCENT {
            window.period = 1;
        } else if window.period < PERIOD_MAX {
            window.period *= 2;
            window.age = ((index / GROUP * 7) % window.period as usize) as u16;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Publishes of one window, each with so many of 512 pages that differ; how many of them compared it.
    fn play(units: &mut Units, differing: impl Iterator<Item = usize>) -> usize {
        differing
            .filter(|pages| {
                let is_compared = units.is_compared(0, CopyUnit::Learned);
                units.learn(0, 512, is_compared.then_some(*pages));
                is_compared
            })
            .count()
    }

    #[test]
    fn what_is_written_whole_is_seldom_compared_and_what_is_written_in_few_places_always() {
        let mut units = Units::new(1).unwrap();
        assert!(play(&mut units, [512; 640].into_iter()) <= 16);
        // It is found out within a period that less is written.
        assert!(play(&mut units, [3; 164].into_iter()) >= 100);
        assert_eq!(play(&mut units, [3; 100].into_iter()), 100);
        assert!(play(&mut units, [400; 640].into_iter()) <= 16);
    }

    #[test]
    fn a_window_that_was_not_compared_for_long_is_compared_then() {
        let mut units = Units::new(1).unwrap();
        for _ in 0..2 * usize::from(u16::MAX) {
            units.learn(0, 512, None);
            assert!(units.is_compared(0, CopyUnit::Learned));
        }
    }

    #[test]
    fn who_chooses_a_unit_gets_it() {
        let mut units = Units::new(1).unwrap();
        for differing in [0, 512] {
            units.learn(0, 512, Some(differing));
            assert!(units.is_compared(0, CopyUnit::Small) && !units.is_compared(0, CopyUnit::Large));
        }
        for unit in COPY_UNITS {
            assert_eq!(unit.name().parse::<CopyUnit>().unwrap(), unit);
        }
        assert!("2M".parse::<CopyUnit>().unwrap_err().to_string().contains("learned, small, large"));
    }
}
