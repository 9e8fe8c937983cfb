use super::*;
use crate::map::Mapping;
use std::os::fd::FromRawFd;

const PAGES: usize = 1500;

/// Two memories and the pieces that copy one to the other: pages in runs of several lengths, and parts of pages.
fn make() -> (Mapping, Mapping, Vec<Piece>) {
    let (from, to) = (Mapping::private(PAGES * PAGE_BYTES, false), Mapping::private(PAGES * PAGE_BYTES, false));
    let (from, to) = (from.unwrap(), to.unwrap());
    (0..PAGES).for_each(|page| from.write(page * PAGE_BYTES, &[page as u8 | 1; PAGE_BYTES]));
    let (mut pieces, mut at, mut length) = (Vec::new(), 0, 8);
    while at < PAGES * PAGE_BYTES {
        let bytes = length.min(PAGES * PAGE_BYTES - at);
        pieces.push(Piece { from: from.address() + at, to: to.address() + at, bytes });
        at += bytes;
        length = if length > 100 * PAGE_BYTES { 8 } else { length * 3 };
    }
    (from, to, pieces)
}

fn is_copied(map: &Mapping) -> bool {
    let mut found = vec![0; PAGE_BYTES];
    (0..PAGES).all(|page| {
        map.read(page * PAGE_BYTES, &mut found);
        found.iter().all(|byte| *byte == page as u8 | 1)
    })
}

#[test]
fn what_is_in_the_rest_was_not_touched_and_all_else_is_copied() {
    for threads in [0, 1, 3] {
        let background = Background::new(threads);
        for wait_us in [0, 20, 200, 5000] {
            let (_from, to, pieces) = make();
            let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
            // SAFETY: the targets lie in a mapping that nobody else uses.
            let mut transfer = unsafe { background.start(pieces) }.unwrap();
            std::thread::sleep(Duration::from_micros(wait_us));
            let rest = transfer.take_rest().unwrap();
            for piece in &rest {
                let mut found = vec![0; piece.bytes];
                to.read(piece.to - to.address(), &mut found);
                assert!(found.iter().all(|byte| *byte == 0), "a piece of the rest was copied");
                // SAFETY: as above, and no thread writes any more.
                unsafe { crate::copy::copy_bytes(piece.from, piece.to, piece.bytes) };
            }
            assert!(threads > 0 || rest.iter().map(|piece| piece.bytes).sum::<usize>() == bytes);
            assert!(is_copied(&to), "{threads} threads, after {wait_us} us");
        }
    }
}

#[test]
fn after_the_rest_was_taken_nothing_is_written() {
    let background = Background::new(2);
    for _ in 0..50 {
        let (_from, to, pieces) = make();
        // SAFETY: the targets lie in a mapping that nobody else uses.
        let mut transfer = unsafe { background.start(pieces) }.unwrap();
        transfer.take_rest().unwrap();
        let end = PAGES * PAGE_BYTES;
        to.write(0, &vec![0; end]);
        std::thread::sleep(Duration::from_micros(300));
        let mut found = vec![1; end];
        to.read(0, &mut found);
        assert!(found.iter().all(|byte| *byte == 0));
    }
}

#[test]
fn without_pieces_it_is_done_at_once() {
    let background = Background::new(1);
    // SAFETY: there is no target.
    let mut transfer = unsafe { background.start(Vec::new()) }.unwrap();
    assert!(transfer.test() && transfer.take_rest().unwrap().is_empty());
}

#[test]
fn memory_that_is_gone_is_part_of_the_rest_and_no_signal() {
    let background = Background::new(1);
    let (from, _to, pieces) = make();
    let bytes: usize = pieces.iter().map(|piece| piece.bytes).sum();
    // Nobody else is to get its addresses meanwhile, so it stays and may not be read.
    // SAFETY: the mapping is the test's own, and nobody reads it but the kernel.
    assert_eq!(unsafe { libc::mprotect(from.address() as *mut libc::c_void, from.bytes(), libc::PROT_NONE) }, 0);
    // SAFETY: the targets lie in a mapping that nobody else uses.
    let mut transfer = unsafe { background.start(pieces) }.unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !transfer.test() {
        assert!(Instant::now() < deadline, "the thread is gone");
        std::thread::yield_now();
    }
    assert_eq!(transfer.take_rest().unwrap().iter().map(|piece| piece.bytes).sum::<usize>(), bytes);
}

/// A child that is gone.
fn gone() -> Arc<OwnedFd> {
    let mut child = std::process::Command::new("true").spawn().unwrap();
    // SAFETY: the call takes numbers.
    let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id(), 0) };
    assert!(descriptor >= 0);
    child.wait().unwrap();
    // SAFETY: the descriptor was made just now, and nobody else has it.
    Arc::new(unsafe { OwnedFd::from_raw_fd(descriptor as i32) })
}

#[test]
fn pages_are_taken_back_and_those_that_are_not_there_get_no_memory() {
    let background = Background::new(1);
    let (from, _to, pieces) = make();
    // As if the program had freed an array, and got other memory there, of which it has written one page and read another.
    let hole = 300 * PAGE_BYTES;
    from.replace(hole, Mapping::private(100 * PAGE_BYTES, false).unwrap()).unwrap();
    from.write(hole + 50 * PAGE_BYTES, &[1]);
    from.read(hole + 60 * PAGE_BYTES, &mut [0]);
    let transfer = background.own_after(gone(), pieces).unwrap();
    transfer.help();
    drop(transfer);
    let mut own = Vec::new();
    let note = |page, entry| own.extend(Some(page).filter(|_| is_exclusive(entry)));
    Pagemap::open().unwrap().entries(from.address(), PAGES, note).unwrap();
    assert_eq!(own, (0..300).chain([350]).chain(400..PAGES).collect::<Vec<_>>());
}
