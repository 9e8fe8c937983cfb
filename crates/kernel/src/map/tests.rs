use super::*;
use crate::pagemap::{ENTRY_FILE, ENTRY_POPULATED, Pagemap};

/// Sizes around those of pages, large pages and pieces.
const SIZES: [usize; 7] = [
    1,
    PAGE_BYTES,
    LARGE_BYTES + 3 * PAGE_BYTES,
    PIECE_BYTES_MIN - PAGE_BYTES,
    PIECE_BYTES_MIN,
    PIECE_BYTES_MIN + 1,
    3 * PIECE_BYTES_MIN + 5 * PAGE_BYTES,
];

/// A file in memory, with one byte of each page written.
fn file(bytes: usize) -> File {
    // SAFETY: the name is a string that lives through the call, and the descriptor is nobody else's.
    let file = unsafe {
        let descriptor = libc::memfd_create(c"stillframe-test".as_ptr(), libc::MFD_CLOEXEC);
        assert!(descriptor >= 0);
        <File as std::os::fd::FromRawFd>::from_raw_fd(descriptor)
    };
    let whole = bytes.next_multiple_of(PAGE_BYTES);
    file.set_len(whole as u64).unwrap();
    let map = Mapping::shared(&file, 0, whole, true).unwrap();
    (0..whole).step_by(PAGE_BYTES).for_each(|at| map.write(at, &[1 + (at / PAGE_BYTES) as u8 % 251]));
    file
}

fn check(map: &Mapping) {
    for at in (0..map.bytes()).step_by(PAGE_BYTES) {
        let mut byte = [0];
        map.read(at, &mut byte);
        assert_eq!(byte[0], 1 + (at / PAGE_BYTES) as u8 % 251, "page {}", at / PAGE_BYTES);
    }
}

/// Pages of a mapping that have page-table entries.
fn entered(map: &Mapping) -> usize {
    let mut pagemap = Pagemap::open().unwrap();
    let pages = map.bytes().div_ceil(PAGE_BYTES);
    let mut count = 0;
    pagemap.entries(map.address(), pages, |_, entry| count += usize::from(entry & ENTRY_POPULATED != 0)).unwrap();
    count
}

#[test]
fn threads_enter_every_page_and_leave_the_file_as_it_is() {
    for threads in [1, 3] {
        let workers = Arc::new(Workers::new(threads));
        for bytes in SIZES {
            let file = file(bytes);
            for writable in [false, true] {
                let mut map = Mapping::shared(&file, 0, bytes, writable).unwrap();
                assert_eq!(entered(&map), 0);
                match writable {
                    true => map.populate_for_writing_by(0, bytes, &workers),
                    false => map.populate_by(0, bytes, &workers),
                }
                assert_eq!(entered(&map), bytes.div_ceil(PAGE_BYTES), "of {bytes} bytes by {threads} threads");
                map.unmap_by(&workers);
                check(&map);
            }
            check(&Mapping::shared(&file, 0, bytes, false).unwrap());
        }
    }
}

#[test]
fn a_range_without_memory_behind_it_is_entered_as_far_as_there_is_some() {
    let workers = Workers::new(3);
    let file = file(PAGE_BYTES);
    let map = Mapping::shared(&file, 0, 2 * PIECE_BYTES_MIN, true).unwrap();
    // All but one page lie behind the end of the file.
    map.populate_by(0, map.bytes(), &workers);
    map.populate_for_writing_by(0, map.bytes(), &workers);
    assert_eq!(entered(&map), 1);
}

/// The pages of a mapping that are copies of this process's own.
fn own_pages(map: &Mapping) -> Vec<usize> {
    let mut own = Vec::new();
    let of_file = |entry| entry & ENTRY_POPULATED == 0 || entry & ENTRY_FILE != 0;
    Pagemap::open()
        .unwrap()
        .entries(map.address(), map.bytes() / PAGE_BYTES, |page, entry| own.extend((!of_file(entry)).then_some(page)))
        .unwrap();
    own
}

/// Ways to touch that must do the same.
type Touch = fn(&Mapping, usize, usize) -> Result<(), Failure>;
const TOUCHES: [Touch; 2] = [Mapping::touch, Mapping::touch_each];

#[test]
fn touched_pages_become_the_process_s_own_with_the_content_of_the_file() {
    for touch in TOUCHES {
        let file = file(40 * PAGE_BYTES);
        let map = Mapping::copy_on_write(&file, 0, 40 * PAGE_BYTES).unwrap();
        assert_eq!(own_pages(&map), []);
        touch(&map, 3 * PAGE_BYTES, 5 * PAGE_BYTES).unwrap();
        map.write(9 * PAGE_BYTES, &[77]);
        touch(&map, 9 * PAGE_BYTES, PAGE_BYTES).unwrap();
        assert_eq!(own_pages(&map), [3, 4, 5, 6, 7, 9]);
        let mut byte = [0];
        map.read(9 * PAGE_BYTES, &mut byte);
        assert_eq!(byte, [77]);
        map.write(9 * PAGE_BYTES, &[10]);
        check(&map);
        touch(&map, 0, map.bytes()).unwrap();
        crate::space::give_back(&file, 0, map.bytes() as u64).unwrap();
        check(&map);
    }
}

#[test]
fn pages_without_memory_behind_them_cannot_be_touched_which_is_an_error() {
    for touch in TOUCHES {
        let file = file(PAGE_BYTES);
        let map = Mapping::copy_on_write(&file, 0, 3 * PAGE_BYTES).unwrap();
        assert_eq!(touch(&map, 0, 3 * PAGE_BYTES).unwrap_err().errno(), libc::EFAULT);
        assert_eq!(own_pages(&map), [0]);
        let map = Mapping::shared(&file, 0, PAGE_BYTES, false).unwrap();
        assert_eq!(touch(&map, 0, PAGE_BYTES).unwrap_err().errno(), libc::EFAULT);
    }
}

#[test]
fn a_forked_child_unmaps_without_the_threads_that_it_does_not_have() {
    let workers = Arc::new(Workers::new(3));
    let file = file(3 * PIECE_BYTES_MIN);
    let mut map = Mapping::shared(&file, 0, 3 * PIECE_BYTES_MIN, true).unwrap();
    map.unmap_by(&workers);
    map.populate_by(0, map.bytes(), &workers);
    // SAFETY: the child makes system calls only, and ends without running anything of the parent's.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop((map, workers));
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    // SAFETY: the pointer is to a live number, and the process is this one's child.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if std::time::Instant::now() > deadline {
            // SAFETY: the child was not waited for yet, so the number is still its.
            unsafe { libc::kill(child, libc::SIGKILL) };
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    assert_eq!(status, 0, "the child hangs or died");
    check(&map);
}

#[test]
fn parts_of_several_files_come_together_or_one_after_the_other() {
    let bytes = 3 * LARGE_BYTES + PAGE_BYTES;
    let files = [0, 1, 2, 3].map(|_| file(LARGE_BYTES));
    for step in [None, Some(LARGE_BYTES)] {
        let map = Mapping::private(bytes + PAGE_BYTES, false).unwrap();
        let other = Mapping::private(bytes, false).unwrap();
        for (number, file) in files.iter().enumerate() {
            let at = number * LARGE_BYTES;
            other.lay_copy_on_write(at, file, 0, LARGE_BYTES.min(bytes - at)).unwrap();
        }
        other.write(5 * PAGE_BYTES, &[200]);
        map.write(0, &[201]);
        match step {
            None => map.replace(PAGE_BYTES, other).unwrap(),
            Some(step) => {
                map.take_from(PAGE_BYTES, &other, step).unwrap();
                std::mem::forget(other);
            }
        }
        let mut byte = [0];
        let mut at = |page: usize| {
            map.read(page * PAGE_BYTES, &mut byte);
            byte[0]
        };
        assert_eq!((at(0), at(1), at(6)), (201, at(1 + 512), 200));
        assert_eq!(at(2), at(2 + 1024));
    }
}
