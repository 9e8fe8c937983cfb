//! Which of some pages have memory, by one call for many of them: `move_pages(2)`, which moves none where it is given no nodes.

use crate::Failure;
use std::ffi::{c_int, c_long, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// Most pages of one call.
pub const PAGES_MOST: usize = 512;

/// Says of each page, by an address in it, whether it has memory of its own in RAM. `false` where it has none, where it was swapped out, and
/// where it is the page of zeros that many share. An error where there is no such call: a kernel without migration of pages, and containers
/// whose filter leaves it out (that of Docker does).
pub fn are_resident(addresses: &[usize], resident: &mut [bool; PAGES_MOST]) -> Result<(), Failure> {
    static IS_REFUSED: AtomicBool = AtomicBool::new(false);
    let count = addresses.len().min(PAGES_MOST);
    let mut nodes = [0 as c_int; PAGES_MOST];
    let refused = || format!("{count} pages of this process");
    if IS_REFUSED.load(Ordering::Relaxed) {
        let source = std::io::Error::from_raw_os_error(libc::EPERM);
        return Err(Failure { call: "move_pages", detail: refused(), source });
    }
    let none = std::ptr::null::<c_int>();
    let pages = addresses.as_ptr().cast::<*const c_void>();
    // SAFETY: the kernel reads `count` addresses, which it checks, and writes as many numbers. Without nodes it moves no page.
    let done: c_long =
        unsafe { libc::syscall(libc::SYS_move_pages, 0, count, pages, none, nodes.as_mut_ptr(), 0 as c_int) };
    if done < 0 {
        let failure = Failure::last("move_pages", refused());
        if matches!(failure.errno(), libc::EPERM | libc::ENOSYS) {
            IS_REFUSED.store(true, Ordering::Relaxed);
        }
        return Err(failure);
    }
    for (is_resident, node) in resident.iter_mut().zip(&nodes[..count]) {
        *is_resident = *node >= 0;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use crate::map::Mapping;

    #[test]
    fn pages_that_were_written_are_resident_and_others_are_not() {
        let memory = Mapping::private(8 * PAGE_BYTES, false).unwrap();
        for page in [1, 2, 5] {
            memory.write(page * PAGE_BYTES, &[1]);
        }
        memory.read(6 * PAGE_BYTES, &mut [0]);
        let addresses: Vec<usize> = (0..8).map(|page| memory.address() + page * PAGE_BYTES).collect();
        let mut resident = [false; PAGES_MOST];
        if let Err(failure) = are_resident(&addresses, &mut resident) {
            eprintln!("skipped: {failure}");
            return;
        }
        assert_eq!(resident[..8], [false, true, true, false, false, true, false, false]);
    }
}
