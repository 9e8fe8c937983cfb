//! Memory nodes: those that the process may run on share its pages, where there are several.
//!
//! Pages are filled by the thread that asks for them, and would all come from its node, whichever threads use them later.

use crate::files::Short;
use crate::kernel;
use std::ffi::CStr;
use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nodes from here on are not looked for.
const NODES: u32 = 64;

/// A bit for each node, if there are several.
static NEAR: AtomicU64 = AtomicU64::new(0);

/// Finds out on which nodes the process may run, as whoever started it said.
pub fn find() {
    // SAFETY: plain data, which the call fills.
    let processors = unsafe {
        let mut processors: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut processors) != 0 {
            return;
        }
        processors
    };
    // SAFETY: the number is within the set.
    let is_ours =
        |processor| processor < 8 * size_of::<libc::cpu_set_t>() && unsafe { libc::CPU_ISSET(processor, &processors) };
    let near = (0..NODES).filter(|node| processors_of(*node).is_some_and(|list| any_of(list.bytes(), is_ours)));
    let mask = near.fold(0u64, |mask, node| mask | 1 << node);
    NEAR.store(if mask.count_ones() > 1 { mask } else { 0 }, Ordering::Relaxed);
}

/// The list of a node's processors: `0-3,8-11`.
fn processors_of(node: u32) -> Option<Short> {
    let mut path = [0u8; 64];
    write!(&mut path[..], "/sys/devices/system/node/node{node}/cpulist\0").ok()?;
    Short::read(CStr::from_bytes_until_nul(&path).ok()?)
}

fn any_of(list: &[u8], is: impl Fn(usize) -> bool) -> bool {
    list.split(|byte| *byte == b',').any(|part| {
        let mut ends = part.split(|byte| *byte == b'-').filter_map(crate::files::number);
        let first = ends.next();
        first.is_some_and(|first| (first..=ends.next().unwrap_or(first)).any(&is))
    })
}

/// Has new memory come from these nodes in turn.
pub fn spread(address: usize, bytes: usize) {
    let mask = NEAR.load(Ordering::Relaxed);
    if mask != 0 {
        // Where the kernel does not, pages come from the node of who asks.
        let _ = kernel::interleave(address, bytes, mask);
    }
}
