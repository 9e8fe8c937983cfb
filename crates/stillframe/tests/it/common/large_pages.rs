//! Large pages for tests.

use std::fs::File;

/// How many the machine has.
pub const LARGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Large pages that the machine has while this lives. One test process of the machine at a time has them.
pub struct LargePages {
    before: u64,
    _alone: File,
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

impl LargePages {
    /// So many more than there are; `None` if the machine does not give them.
    pub fn take(count: u64) -> Option<LargePages> {
        let alone = File::open(LARGE_PAGES).ok()?;
        alone.lock().ok()?;
        let before = number(LARGE_PAGES)?;
        std::fs::write(LARGE_PAGES, (before + count).to_string()).ok()?;
        let taken = LargePages { before, _alone: alone };
        (number(LARGE_PAGES)? >= before + count).then_some(taken)
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        let _ = std::fs::write(LARGE_PAGES, self.before.to_string());
    }
}
