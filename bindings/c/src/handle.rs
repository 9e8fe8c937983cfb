//! Handles: numbers in the shape of pointers, looked up in a table each time.
//!
//! A handle is never an address, so one that is NULL, has ended, or never was one is told apart without touching memory. A
//! look-up takes no lock but that of what the handle stands for, so that a thread that dies or forks inside another call
//! keeps nobody else from theirs. From the highest bit down: 1, which no address of a program has; 4 bits of kind; 32 of
//! generation, odd while the handle lives; 27 of index.

use crate::failure::Failure;
use crate::kind::{Got, Kind};
use once_cell::race::OnceBox;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, compiler_fence};
use std::sync::{Mutex, MutexGuard};

const MARK: u64 = 1 << 63;
const KIND_SHIFT: u32 = 59;
const GENERATION_SHIFT: u32 = 27;
const INDEX_MASK: u64 = (1 << GENERATION_SHIFT) - 1;

const _: () = assert!(usize::BITS == 64, "a handle needs the bits of a pointer of 64");

/// Something that C programs have handles of.
pub trait Handled: Send + Sized + 'static {
    /// The type that a handle pretends to point to.
    type Opaque;
    const KIND: Kind;
    fn table() -> &'static Table<Self>;
}

struct Slot<T> {
    generation: AtomicU32,
    /// The number of the process, counted in forks, that made the handle.
    birth: AtomicU32,
    /// Index of the next free slot plus 1.
    next_free: AtomicU32,
    value: Mutex<Option<T>>,
}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot {
            generation: AtomicU32::new(0),
            birth: AtomicU32::new(0),
            next_free: AtomicU32::new(0),
            value: Mutex::new(None),
        }
    }
}

/// Slots of the first chunk; each further one has twice as many.
const FIRST: usize = 64;
const CHUNKS: usize = 21;

/// All handles of a kind.
pub struct Table<T> {
    /// Chunks stay for ever, so that a look-up needs no protection.
    chunks: [OnceBox<Box<[Slot<T>]>>; CHUNKS],
    /// Slots that were ever in use.
    used: AtomicU32,
    /// Index of the first free slot plus 1, below a count of changes that keeps a late exchange from succeeding.
    free: AtomicU64,
}

impl<T> Table<T> {
    pub const fn new() -> Table<T> {
        Table { chunks: [const { OnceBox::new() }; CHUNKS], used: AtomicU32::new(0), free: AtomicU64::new(0) }
    }

    fn place(index: usize) -> (usize, usize) {
        let chunk = ((index + FIRST) / FIRST).ilog2() as usize;
        (chunk, index + FIRST - (FIRST << chunk))
    }

    fn slot(&self, index: usize) -> Option<&Slot<T>> {
        let (chunk, offset) = Self::place(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    fn take_free(&self) -> Option<usize> {
        loop {
            let free = self.free.load(Ordering::Acquire);
            let index = (free as u32).checked_sub(1)? as usize;
            let next = self.slot(index)?.next_free.load(Ordering::Relaxed);
            let new = (free >> 32).wrapping_add(1) << 32 | u64::from(next);
            if self.free.compare_exchange(free, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return Some(index);
            }
        }
    }

    fn give_free(&self, index: usize, slot: &Slot<T>) {
        loop {
            let free = self.free.load(Ordering::Acquire);
            slot.next_free.store(free as u32, Ordering::Relaxed);
            let new = (free >> 32).wrapping_add(1) << 32 | (index as u64 + 1);
            if self.free.compare_exchange(free, new, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    fn take_fresh(&self) -> usize {
        let index = self.used.fetch_add(1, Ordering::Relaxed) as usize;
        let (chunk, _) = Self::place(index);
        self.chunks[chunk].get_or_init(|| Box::new((0..FIRST << chunk).map(|_| Slot::new()).collect()));
        index
    }
}

thread_local! {
    /// The handles that this thread is using right now, one within the other: a signal handler that gets at one of them
    /// must not wait for what it interrupted.
    static ENTERED: [Cell<u64>; 8] = const { [const { Cell::new(0) }; 8] };
}

/// A handle in use by this thread.
struct Entered<'a>(&'a Cell<u64>);

impl Entered<'_> {
    fn enter(entered: &[Cell<u64>], handle: u64) -> Option<Entered<'_>> {
        if entered.iter().any(|other| other.get() == handle) {
            return None;
        }
        let place = entered.iter().find(|place| place.get() == 0)?;
        place.set(handle);
        // The signal handler that comes right after the lock was taken finds it.
        compiler_fence(Ordering::SeqCst);
        Some(Entered(place))
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        self.0.set(0);
    }
}

/// Makes a handle of a value.
pub fn insert<T: Handled>(value: T) -> *mut T::Opaque {
    let table = T::table();
    let index = table.take_free().unwrap_or_else(|| table.take_fresh());
    let Some(slot) = table.slot(index) else { unreachable!("a slot that was taken exists") };
    let mut place = slot.value.lock().unwrap_or_else(|poison| {
        slot.value.clear_poison();
        poison.into_inner()
    });
    *place = Some(value);
    slot.birth.store(engine::fork_generation(), Ordering::Relaxed);
    let generation = slot.generation.fetch_add(1, Ordering::Release).wrapping_add(1);
    let bits = MARK | (T::KIND as u64) << KIND_SHIFT | u64::from(generation) << GENERATION_SHIFT | index as u64;
    bits as usize as *mut T::Opaque
}

/// The bits of a handle above its generation.
fn top(kind: Kind) -> u64 {
    MARK >> KIND_SHIFT | kind as u64
}

/// What was given that is no handle of the kind asked for.
#[cold]
fn what_else(bits: u64) -> Got {
    let kinds = [
        Kind::Region,
        Kind::Loan,
        Kind::Kept,
        Kind::Observer,
        Kind::Snapshot,
        Kind::Group,
        Kind::Checkpointer,
        Kind::Schema,
        Kind::Fragment,
        Kind::Plan,
        Kind::Arena,
        Kind::Object,
        Kind::Attached,
    ];
    match kinds.into_iter().find(|kind| bits >> KIND_SHIFT == top(*kind)) {
        Some(other) => Got::Other(other),
        None if bits == 0 => Got::Null,
        None => Got::Foreign(bits),
    }
}

/// Finds the slot of a handle and has it to itself.
fn enter<T: Handled, R>(
    handle: *mut T::Opaque,
    work: impl FnOnce(usize, &Slot<T>, MutexGuard<'_, Option<T>>) -> Result<R, Failure>,
) -> Result<R, Failure> {
    let kind = T::KIND;
    let fail = |got| Err(Failure::Handle { kind, got });
    let bits = handle as usize as u64;
    if bits >> KIND_SHIFT != top(kind) {
        return fail(what_else(bits));
    }
    let index = (bits & INDEX_MASK) as usize;
    let generation = (bits >> GENERATION_SHIFT) as u32;
    let Some(slot) = T::table().slot(index) else { return fail(Got::Foreign(bits)) };
    if slot.generation.load(Ordering::Acquire) != generation {
        return fail(Got::Ended);
    }
    if slot.birth.load(Ordering::Relaxed) != engine::fork_generation() {
        return Err(Failure::Forked { kind });
    }
    ENTERED.with(|entered| {
        // Before the lock, so that there is no instant in which a signal handler would wait for this very thread.
        let Some(_entered) = Entered::enter(entered, bits) else { return Err(Failure::Busy { kind }) };
        let value = slot.value.lock().unwrap_or_else(|poison| poison.into_inner());
        // It may have ended while this call waited for another thread's.
        if slot.generation.load(Ordering::Acquire) != generation {
            return fail(Got::Ended);
        }
        work(index, slot, value)
    })
}

/// Works with what a handle stands for. Other threads wait meanwhile.
pub fn with<T: Handled, R>(
    handle: *mut T::Opaque,
    work: impl FnOnce(&mut T) -> Result<R, Failure>,
) -> Result<R, Failure> {
    enter::<T, R>(handle, |_, slot, mut value| {
        if slot.value.is_poisoned() {
            let text = format!("an earlier call with this {} failed that way; it can only be given up", T::KIND);
            return Err(Failure::Panic(text.into()));
        }
        match value.as_mut() {
            Some(value) => work(value),
            None => Err(Failure::Handle { kind: T::KIND, got: Got::Ended }),
        }
    })
}

/// Ends a handle, and hands out what it stood for.
pub fn remove<T: Handled>(handle: *mut T::Opaque) -> Result<T, Failure> {
    enter::<T, T>(handle, |index, slot, mut guard| {
        let value = guard.take().ok_or(Failure::Handle { kind: T::KIND, got: Got::Ended })?;
        slot.generation.fetch_add(1, Ordering::Release);
        drop(guard);
        T::table().give_free(index, slot);
        Ok(value)
    })
}

/// As [`remove`], for functions to whom NULL is nothing to do.
pub fn remove_or_null<T: Handled>(handle: *mut T::Opaque) -> Result<Option<T>, Failure> {
    if handle.is_null() { Ok(None) } else { remove(handle).map(Some) }
}

/// Whether a handle is that of something that has not ended.
pub fn is_living<T: Handled>(handle: *mut T::Opaque) -> bool {
    let bits = handle as usize as u64;
    let slot = T::table().slot((bits & INDEX_MASK) as usize);
    slot.is_some_and(|slot| slot.generation.load(Ordering::Acquire) == (bits >> GENERATION_SHIFT) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::run;
    use crate::status::*;
    use crate::text::error_string as text;

    struct Thing(#[allow(dead_code)] Box<u32>);
    struct Opaque;

    impl Handled for Thing {
        type Opaque = Opaque;
        const KIND: Kind = Kind::Observer;
        fn table() -> &'static Table<Thing> {
            static TABLE: Table<Thing> = Table::new();
            &TABLE
        }
    }

    fn panic_inside(handle: *mut Opaque) -> stillframe_status {
        run("a_function", |_| with::<Thing, ()>(handle, |_| panic!("on purpose")))
    }

    #[test]
    fn a_panic_is_a_status_and_its_handle_can_only_be_given_up() {
        let handle = insert(Thing(Box::new(1)));
        assert_eq!(panic_inside(handle), STILLFRAME_INTERNAL as i32);
        assert_eq!(text(), "a_function: a defect of Stillframe, please report it: on purpose");
        assert_eq!(run("another", |_| with::<Thing, ()>(handle, |_| Ok(()))), STILLFRAME_INTERNAL as i32);
        assert!(text().contains("it can only be given up"), "{}", text());
        assert_eq!(run("the_end", |_| remove::<Thing>(handle).map(drop)), STILLFRAME_OK as i32);
        assert_eq!(run("late", |_| remove::<Thing>(handle).map(drop)), STILLFRAME_BAD_HANDLE as i32);
        // The place is as good as new.
        let next = insert(Thing(Box::new(2)));
        assert_ne!(next, handle);
        assert_eq!(run("next", |_| with::<Thing, ()>(next, |_| Ok(()))), STILLFRAME_OK as i32);
        assert!(remove::<Thing>(next).is_ok());
    }

    #[test]
    fn a_call_inside_a_call_with_the_same_handle_is_refused() {
        let (handle, other) = (insert(Thing(Box::new(1))), insert(Thing(Box::new(2))));
        let outcome = with::<Thing, ()>(handle, |_| {
            assert!(matches!(with::<Thing, ()>(handle, |_| Ok(())), Err(Failure::Busy { .. })));
            assert!(matches!(remove::<Thing>(handle), Err(Failure::Busy { .. })));
            with::<Thing, ()>(other, |_| Ok(()))
        });
        assert!(outcome.is_ok());
        assert!(remove::<Thing>(handle).is_ok() && remove::<Thing>(other).is_ok());
    }

    #[test]
    fn handles_of_many_threads_are_never_the_same() {
        let mut threads = Vec::new();
        for _ in 0..4 {
            threads.push(std::thread::spawn(|| {
                let mut seen = Vec::new();
                for round in 0..2000 {
                    let handles: Vec<usize> = (0..3).map(|n| insert(Thing(Box::new(n))) as usize).collect();
                    for handle in &handles[..2 + round % 2] {
                        assert!(remove::<Thing>(*handle as *mut Opaque).is_ok());
                    }
                    seen.extend(handles);
                }
                seen
            }));
        }
        let mut all: Vec<usize> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
