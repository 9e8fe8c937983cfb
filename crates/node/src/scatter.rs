//! Bytes that are received straight to where they belong.

use drepl::transfer::Transfer;
use std::io::IoSliceMut;

/// Places that are filled with one call at most. The kernel takes 1024 (`IOV_MAX`); so many short ones are better copied.
const PLACES_MAX: usize = 64;

/// Bytes of a place at least, in the mean: to take shorter ones apart costs the kernel more than a copy costs here.
const PLACE_BYTES: u64 = 4096;

/// The places to which a transfer moves a piece of so many bytes, in the order of these: if all of them lie together there, and every
/// byte of the piece goes somewhere.
pub(crate) fn places<'m>(transfer: &Transfer, bytes: u64, memory: &'m mut [u8]) -> Option<Vec<IoSliceMut<'m>>> {
    let moves = transfer.moves();
    if !transfer.conversions().is_empty()
        || moves.is_empty()
        || moves.len() > PLACES_MAX
        || moves.len() as u64 * PLACE_BYTES > bytes.max(PLACE_BYTES)
    {
        return None;
    }
    let is_run = |(from, one): (u64, &drepl::transfer::Move)| {
        (one.from == from && one.axes.is_empty() && one.swap_bytes == 1).then(|| from + one.run_bytes)
    };
    let mut sorted: Vec<usize> = (0..moves.len()).collect();
    sorted.sort_by_key(|index| moves[*index].from);
    let end = sorted.iter().try_fold(0, |from, index| is_run((from, &moves[*index])))?;
    if end != bytes {
        return None;
    }
    let mut by_place = sorted.clone();
    by_place.sort_by_key(|index| moves[*index].to);
    let mut cut: Vec<Option<&mut [u8]>> = moves.iter().map(|_| None).collect();
    let (mut rest, mut at) = (memory, 0);
    for index in by_place {
        let (to, length) = (usize::try_from(moves[index].to).ok()?, usize::try_from(moves[index].run_bytes).ok()?);
        // A transfer writes no byte twice.
        let (_, behind) = rest.split_at_mut_checked(to.checked_sub(at)?)?;
        let (place, behind) = behind.split_at_mut_checked(length)?;
        cut[index] = Some(place);
        (rest, at) = (behind, to + length);
    }
    sorted.iter().map(|index| cut[*index].take().map(IoSliceMut::new)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use drepl::transfer::{Axis, Move};

    fn run(from: u64, to: u64, run_bytes: u64) -> Move {
        Move { from, to, run_bytes, swap_bytes: 1, axes: Default::default() }
    }

    /// Fills the places with a piece, as a connection does.
    fn fill(moves: Vec<Move>, piece: &[u8], memory: &mut [u8]) -> bool {
        let transfer = Transfer::new(moves).unwrap();
        let Some(places) = places(&transfer, piece.len() as u64, memory) else { return false };
        let mut at = 0;
        for mut place in places {
            let length = place.len();
            place.copy_from_slice(&piece[at..at + length]);
            at += length;
        }
        at == piece.len()
    }

    /// Numbers of which no two that are near each other are equal.
    fn piece(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn runs_go_to_their_places_in_any_order() {
        let piece = piece(3 * 4096);
        for order in [[0, 1, 2], [0, 2, 1], [2, 0, 1], [2, 1, 0], [1, 2, 0], [1, 0, 2]] {
            let to = |run: usize| 100 + 5000 * order[run] as u64;
            let mut memory = vec![0xff; 100 + 3 * 5000];
            assert!(fill((0..3).map(|at| run(4096 * at as u64, to(at), 4096)).collect(), &piece, &mut memory));
            let mut expected = vec![0xff; memory.len()];
            for at in 0..3 {
                let to = to(at) as usize;
                expected[to..to + 4096].copy_from_slice(&piece[4096 * at..4096 * (at + 1)]);
            }
            assert_eq!(memory, expected, "{order:?}");
        }
    }

    #[test]
    fn what_has_to_be_taken_apart_is_none() {
        let piece = piece(8192);
        let mut memory = vec![0; 20000];
        let strided = Move {
            axes: [Axis { count: 2, from_bytes: 4096, to_bytes: 8192 }].into_iter().collect(),
            ..run(0, 0, 4096)
        };
        let reversed = Move { swap_bytes: 8, ..run(0, 0, 8192) };
        let short: Vec<Move> = (0..16).map(|at| run(512 * at, 1024 * at, 512)).collect();
        for moves in [vec![strided], vec![reversed], short, Vec::new()] {
            assert!(!fill(moves.clone(), &piece, &mut memory), "{moves:?}");
        }
        // A hole before, between or behind what goes somewhere; and memory that is too short.
        assert!(!fill(vec![run(4096, 0, 4096)], &piece, &mut memory));
        assert!(!fill(vec![run(0, 0, 2048), run(4096, 8192, 4096)], &piece, &mut memory));
        assert!(!fill(vec![run(0, 0, 4096)], &piece, &mut memory));
        assert!(!fill(vec![run(0, 15000, 8192)], &piece, &mut memory));
        assert!(memory.iter().all(|byte| *byte == 0));
    }
}
