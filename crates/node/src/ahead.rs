//! Memory that one thread fills while another one uses what was filled before.

use std::sync::mpsc;
use std::thread;

/// For fewer items no thread is started.
const ITEMS_MIN: usize = 4;

/// Fills memory for each of these items, in order, and one item ahead of `work`. That gets the next by giving back what it had before,
/// at first anything.
pub(crate) fn ahead<T: Sync, M: Default + Send, E: Send>(
    items: &[T],
    fill: impl Fn(&T, &mut M) -> Result<(), E> + Sync,
    work: impl FnOnce(&mut dyn FnMut(M) -> Option<Result<M, E>>) -> Result<(), E>,
) -> Result<(), E> {
    let fill = |item: &T, mut memory: M| fill(item, &mut memory).map(|()| memory);
    thread::scope(|scope| {
        let (give, given) = mpsc::channel();
        let (filled, take) = mpsc::channel();
        let fill_all = move || {
            for item in items {
                // Whoever has ended early takes and gives no more.
                let Ok(memory) = given.recv() else { return };
                let Ok(()) = filled.send(fill(item, memory)) else { return };
            }
        };
        let named = || thread::Builder::new().name("stillframe-pack".into()).stack_size(512 << 10);
        if items.len() < ITEMS_MIN || named().spawn_scoped(scope, fill_all).is_err() {
            let mut left = items.iter();
            return work(&mut |memory| left.next().map(|item| fill(item, memory)));
        }
        let _ = give.send(M::default());
        work(&mut |memory| {
            let _ = give.send(memory);
            take.recv().ok()
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_come_in_order_and_each_memory_is_used_again() {
        for count in [0, 1, 3, 4, 5, 100] {
            let items: Vec<usize> = (0..count).collect();
            let fill = |item: &usize, memory: &mut Vec<usize>| {
                memory.clear();
                memory.extend([*item; 10]);
                Ok::<(), String>(())
            };
            let work = |next: &mut dyn FnMut(Vec<usize>) -> Option<Result<Vec<usize>, String>>| {
                let mut memory = Vec::new();
                for item in 0..count {
                    memory = next(memory).ok_or("there are too few")??;
                    assert_eq!(memory, [item; 10]);
                }
                assert_eq!(next(memory), None);
                Ok(())
            };
            assert_eq!(ahead(&items, fill, work), Ok(()));
        }
    }

    #[test]
    fn a_failure_comes_in_its_place() {
        let items: Vec<usize> = (0..20).collect();
        let fill = |item: &usize, _: &mut ()| if *item == 10 { Err(*item) } else { Ok(()) };
        let mut took = 0;
        let done = ahead(&items, fill, |next| {
            while let Some(one) = next(()) {
                one?;
                took += 1;
            }
            Ok(())
        });
        assert_eq!((done, took), (Err(10), 10));
    }

    #[test]
    fn who_ends_early_leaves_the_rest() {
        let items: Vec<usize> = (0..1000).collect();
        let work = |next: &mut dyn FnMut(()) -> Option<Result<(), &'static str>>| {
            next(()).ok_or("none")??;
            Err("ended")
        };
        assert_eq!(ahead(&items, |_: &usize, (): &mut ()| Ok(()), work), Err("ended"));
    }
}
