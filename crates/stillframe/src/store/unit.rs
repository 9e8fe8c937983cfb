//! In which units memory behind the planes is taken and given back.

use crate::choice;
use crate::error::{Error, Result};

/// In which units the memory of versions is taken and given back (the page policies of the paper on XASM, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum MemoryUnit {
    /// In pages of 4 KiB: as many as a version differs in, for programs that write here and there.
    #[default]
    Small,
    /// In windows of 2 MiB: all pages of a window with the first one, until none of them is needed, for programs that go through their
    /// memory. Where there is no room for whole windows it is in pages.
    Large,
}

/// All units.
pub const MEMORY_UNITS: [MemoryUnit; 2] = [MemoryUnit::Small, MemoryUnit::Large];

impl MemoryUnit {
    /// The name, as options and `STILLFRAME_MEMORY_UNIT` take it.
    pub fn name(self) -> &'static str {
        match self {
            MemoryUnit::Small => "small",
            MemoryUnit::Large => "large",
        }
    }
}

impl std::fmt::Display for MemoryUnit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for MemoryUnit {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        choice::find("memory_unit", &MEMORY_UNITS, MemoryUnit::name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_known_by_its_name() {
        assert!(MEMORY_UNITS.into_iter().all(|unit| unit.name().parse::<MemoryUnit>().unwrap() == unit));
        let error = "2M".parse::<MemoryUnit>().unwrap_err().to_string();
        assert!(error.contains("memory_unit") && error.contains("small, large"), "{error}");
    }
}
