//! Ordinary memory, in large pages where the kernel has some, and there at once where that is not absurd.

use crate::files::{Room, Short, number};
use crate::kernel::{self, Advice, quietly};
use std::ffi::CStr;

/// Bytes that the machine, or the cgroup of this process, could still give.
pub fn available_bytes() -> usize {
    let machine = Short::read(c"/proc/meminfo").and_then(|text| number(text.after("MemAvailable:")?));
    let machine = machine.map_or(usize::MAX, |kib| kib << 10);
    machine.min(group_bytes().unwrap_or(usize::MAX))
}

/// What is left to the process's cgroup, where one bounds it (version 2).
fn group_bytes() -> Option<usize> {
    let own = Short::read(c"/proc/self/cgroup")?;
    let path = own.after("0::")?;
    let of = |file: &str| {
        let mut room = Room::new()?;
        let place = room.all_mut();
        let mut used = 0;
        for part in [b"/sys/fs/cgroup", path, b"/", file.as_bytes()] {
            place.get_mut(used..used + part.len())?.copy_from_slice(part);
            used += part.len();
        }
        place.get(used)?;
        let text = Short::read(CStr::from_bytes_until_nul(place).ok()?)?;
        number(text.bytes())
    };
    Some(of("memory.max")?.saturating_sub(of("memory.current")?))
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
