//! Ordinary memory, in large pages where the kernel has some, and there at once where that is not absurd.

use crate::files::{Short, number};
use crate::groups;
use crate::kernel::{self, Advice, quietly};

/// Bytes that the machine, or the cgroup of this process, could still give.
pub fn available_bytes() -> usize {
    let machine = Short::read(c"/proc/meminfo").and_then(|text| number(text.after("MemAvailable:")?));
    let machine = machine.map_or(usize::MAX, |kib| kib << 10);
    machine.min(groups::left("memory.max", "memory.current").unwrap_or(usize::MAX))
}

/// Fills ordinary memory that may be written: with large pages where they can be had, and only if that is not more than
/// half of what there is. Says whether it was filled.
pub fn fill(address: usize, bytes: usize) -> bool {
    quietly(|| {
        // All of it, though the edges are no whole windows: what is advised differently is no longer one mapping.
        advise(address, bytes);
        bytes <= available_bytes() / 2 && kernel::advise(address, bytes, Advice::Populate).is_ok()
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
