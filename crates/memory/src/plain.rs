//! Ordinary memory, in large pages where the kernel has some, and there at once where that is not absurd.

use crate::files::{Short, number};
use crate::groups::{self, Limit, Resource};
use crate::kernel::now_ms;
use crate::kernel::{self, Advice, quietly};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Of much, what is filled before it is asked again how much there is: others fill, too.
const STEP_BYTES: usize = 64 << 20;

/// What may be filled before it is asked again, for that takes as long as to fill half a large page, and until when.
static CREDIT_BYTES: AtomicUsize = AtomicUsize::new(0);
static CREDIT_END_MS: AtomicU64 = AtomicU64::new(0);
const CREDIT_MS: u64 = 100;

/// A forked child has none of its parent's.
pub fn begin_child() {
    CREDIT_BYTES.store(0, Ordering::Relaxed);
}

/// The parts of the machine's memory and of a group's that stay for what is touched, for much of what was filled may never be. Who exceeds a
/// group is killed, and no others give anything back before.
const KEPT_OF_MACHINE: usize = 4;
const KEPT_OF_GROUP: usize = 2;

const MEMORY: Resource<'_> = Resource {
    controller: "memory",
    unified: ["memory.max", "memory.current"],
    former: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
    reclaimable: Some(["inactive_file ", "total_inactive_file "]),
};

/// Calls a function with what bounds memory, the machine and each bounded control group of this process, and the part that is kept of it.
fn each_limit(mut visit: impl FnMut(Limit, usize)) {
    if let Some(text) = Short::read(c"/proc/meminfo") {
        let bytes = |word| number(text.after(word)?).map(|kib| kib << 10);
        if let (Some(all), Some(left)) = (bytes("MemTotal:"), bytes("MemAvailable:")) {
            // What lies in pools is nobody's to have in small pages.
            let most = all.saturating_sub(bytes("Hugetlb:").unwrap_or(0));
            visit(Limit { most, used: most.saturating_sub(left) }, KEPT_OF_MACHINE);
        }
    }
    groups::each_limit(&MEMORY, |limit| visit(limit, KEPT_OF_GROUP));
}

/// Bytes that the machine, or the control groups of this process, could still give.
pub fn available_bytes() -> usize {
    let mut available = usize::MAX;
    each_limit(|limit, _| available = available.min(limit.left()));
    available
}

/// Whether so much may be filled unasked: at most half of what there is, and a part of all is left.
fn may_fill(bytes: usize) -> bool {
    let now_ms = now_ms();
    if now_ms < CREDIT_END_MS.load(Ordering::Relaxed)
        && CREDIT_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |credit| credit.checked_sub(bytes)).is_ok()
    {
        return true;
    }
    let mut room = usize::MAX;
    each_limit(|limit, kept| room = room.min(limit.left() / 2).min(limit.left().saturating_sub(limit.most / kept)));
    let Some(rest) = room.checked_sub(bytes) else { return false };
    // Others fill meanwhile.
    CREDIT_BYTES.store((rest / 8).min(STEP_BYTES), Ordering::Relaxed);
    CREDIT_END_MS.store(now_ms + CREDIT_MS, Ordering::Relaxed);
    true
}

/// Fills ordinary memory that may be written: with large pages where they can be had, and as far as it [may](may_fill). Says whether all of
/// it was filled.
pub fn fill(address: usize, bytes: usize) -> bool {
    quietly(|| {
        // All of it, though the edges are no whole windows: what is advised differently is no longer one mapping.
        advise(address, bytes);
        (0..bytes).step_by(STEP_BYTES).all(|done| {
            let step = STEP_BYTES.min(bytes - done);
            may_fill(bytes - done) && kernel::advise(address + done, step, Advice::Populate).is_ok()
        })
    })
}

/// Makes large pages of memory that is there in part, where the kernel can.
pub fn gather(address: usize, bytes: usize) {
    quietly(|| {
        if fill(address, bytes) {
            let _ = kernel::advise(address, bytes, Advice::Collapse);
        }
    });
}

/// Has memory be in large pages later, where it is not now.
pub fn advise(address: usize, bytes: usize) {
    quietly(|| {
        let _ = kernel::advise(address, bytes, Advice::Large);
    });
}
