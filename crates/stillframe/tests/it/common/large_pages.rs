//! Large pages for tests.

use std::cell::Cell;
use std::fs::File;

/// How many the machine has.
pub const LARGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Large pages that the machine has while this lives. One test process of the machine at a time has them.
pub struct LargePages {
    count: u64,
    /// How many the machine had.
    before: u64,
    /// How many were added to those of the machine.
    added: Cell<u64>,
    _alone: File,
}

/// Where `crates/pages` locks while it changes how many the machine has.
const POOLS_LOCK: &str = "/run/stillframe/pages/.lock";

/// Changes how many the machine has, beside pools that do the same.
fn change(change: impl Fn(u64) -> u64) -> Option<()> {
    let pools = File::open(POOLS_LOCK).ok();
    if let Some(pools) = &pools {
        pools.lock().ok()?;
    }
    std::fs::write(LARGE_PAGES, change(number(LARGE_PAGES)?).to_string()).ok()
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// How many nobody has, and are promised to nobody.
fn spare() -> u64 {
    let of = |name| number(&format!("/sys/kernel/mm/hugepages/hugepages-2048kB/{name}")).unwrap_or(0);
    of("free_hugepages").saturating_sub(of("resv_hugepages"))
}

/// Leaves the machine none to spare, as where others took them, until [`LargePages`] ends. Pools keep theirs.
#[allow(dead_code)]
pub fn remove_spare() {
    change(|now| now.saturating_sub(spare())).unwrap();
}

impl LargePages {
    /// So many more than there are; `None` if the machine does not give them.
    pub fn take(count: u64) -> Option<LargePages> {
        let alone = File::open(LARGE_PAGES).ok()?;
        alone.lock().ok()?;
        let before = Cell::new(0);
        change(|now| {
            before.set(now);
            now + count
        })?;
        // Fewer, where the machine has not as many.
        let added = number(LARGE_PAGES)?.saturating_sub(before.get()).min(count);
        let taken = LargePages { count, before: before.get(), added: Cell::new(added), _alone: alone };
        (added == count).then_some(taken)
    }

    /// What is made of large pages, as soon as it can be. Processes that ask nobody may take those that were added, or change how many
    /// the machine has: as many as are missing are added once more.
    #[allow(dead_code)]
    pub fn make<T>(&self, mut make: impl FnMut() -> Option<T>) -> T {
        loop {
            if let Some(made) = make() {
                return made;
            }
            let missing = self.count.saturating_sub(spare());
            if change(|now| now + missing).is_some() {
                self.added.set(self.added.get() + missing);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        // Those that were to spare before are again.
        change(|now| now.saturating_sub(self.added.get()).max(self.before));
    }
}
