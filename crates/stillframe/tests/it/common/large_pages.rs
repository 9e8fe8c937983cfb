//! Large pages for tests.

use std::fs::File;

/// How many the machine has.
pub const LARGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Large pages that the machine has while this lives. One test process of the machine at a time has them.
pub struct LargePages {
    before: u64,
    count: u64,
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
        let taken = LargePages { before, count, _alone: alone };
        (number(LARGE_PAGES)? >= before + count).then_some(taken)
    }

    /// What is made of large pages, as soon as it can be. Processes that ask nobody may take those that were added, or change how many
    /// the machine has: as many as are missing are added once more.
    #[allow(dead_code)]
    pub fn make<T>(&self, mut make: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(made) = make() {
                return made;
            }
            let of = |name| number(&format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}")).unwrap_or(0);
            let free = of("free_hugepages").saturating_sub(of("resv_hugepages"));
            if let Some(all) = number(LARGE_PAGES) {
                let _ = std::fs::write(LARGE_PAGES, (all + self.count.saturating_sub(free)).to_string());
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        let _ = std::fs::write(LARGE_PAGES, self.before.to_string());
    }
}
