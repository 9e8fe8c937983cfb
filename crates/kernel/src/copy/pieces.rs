//! Copying many pieces of a few pages each, past the cache.
//!
//! # Safety
//!
//! The invariant is the crate's: addresses come from callers, who vouch for them. What is kept here besides is that what bypasses the
//! cache is written to addresses that are aligned to its vectors.

#[cfg(target_arch = "x86_64")]
use super::{LINE_BYTES, STEP};
use super::{Piece, copy_bytes};

/// Pieces interleaved by one loop.
#[cfg(target_arch = "x86_64")]
const LANES: usize = 8;

pub(super) type PiecesLoop = unsafe fn(&[Piece]);

/// The part of a piece that bypasses the cache: a number of steps, to an address at which a line of it begins.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Lane {
    from: usize,
    to: usize,
    bytes: usize,
}

#[cfg(target_arch = "x86_64")]
impl Lane {
    const NONE: Lane = Lane { from: 0, to: 0, bytes: 0 };

    /// That of a piece, of which the rest is copied.
    ///
    /// # Safety
    /// The piece is valid for reading and writing, and nobody else writes where it goes.
    unsafe fn begin(piece: &Piece) -> Lane {
        let Piece { from, to, bytes } = *piece;
        let head = (to.next_multiple_of(LINE_BYTES) - to).min(bytes);
        let middle = (bytes - head) / STEP * STEP;
        let tail = head + middle;
        // SAFETY: both are parts of the piece.
        unsafe {
            copy_bytes(from, to, head);
            copy_bytes(from + tail, to + tail, bytes - tail);
        }
        Lane { from: from + head, to: to + head, bytes: middle }
    }
}

#[cfg(target_arch = "x86_64")]
macro_rules! pieces_loop {
    ($name:ident, $feature:literal, $vector:ty, $load:ident, $store:ident) => {
        /// # Safety
        /// All pieces are valid for reading, and for writing where they go, which nobody else writes; no byte is written twice; and
        /// the processor has the instructions.
        #[target_feature(enable = $feature)]
        pub(super) unsafe fn $name(pieces: &[Piece]) {
            use std::arch::x86_64::*;
            let mut groups = pieces.chunks(LANES).peekable();
            while let Some(group) = groups.next() {
                let next = groups.peek().copied().unwrap_or(&[]);
                for Piece { from, to, bytes } in next.iter().filter(|piece| piece.bytes > 0) {
                    // What is written through the cache has to be there, and where a page is has to be found out first.
                    _mm_prefetch::<_MM_HINT_T0>(*to as *const i8);
                    _mm_prefetch::<_MM_HINT_T0>((to + bytes - 1) as *const i8);
                    _mm_prefetch::<_MM_HINT_T0>((from + bytes - 1) as *const i8);
                }
                let mut lanes = [Lane::NONE; LANES];
                let mut most = 0;
                for (lane, piece) in lanes.iter_mut().zip(group) {
                    // SAFETY: as the caller vouches.
                    *lane = unsafe { Lane::begin(piece) };
                    most = most.max(lane.bytes);
                }
                for offset in (0..most).step_by(STEP) {
                    for piece in next.iter().filter(|piece| offset < piece.bytes) {
                        _mm_prefetch::<_MM_HINT_T0>((piece.from + offset) as *const i8);
                        _mm_prefetch::<_MM_HINT_T0>((piece.from + offset + LINE_BYTES) as *const i8);
                    }
                    for lane in lanes.iter().filter(|lane| offset < lane.bytes) {
                        // SAFETY: both are valid by the caller's word, for a lane is whole steps long, and its target is aligned.
                        unsafe { stream_step!($vector, $load, $store, lane.from + offset, lane.to + offset) };
                    }
                }
            }
            // Streaming stores are weakly ordered: the fence makes them visible before the commit that follows.
            _mm_sfence();
        }
    };
}
#[cfg(target_arch = "x86_64")]
pieces_loop!(pieces_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512);
#[cfg(target_arch = "x86_64")]
pieces_loop!(pieces_avx, "avx", __m256i, _mm256_loadu_si256, _mm256_stream_si256);
#[cfg(target_arch = "x86_64")]
pieces_loop!(pieces_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128);

/// Copies through the cache, as other processors than x86-64 always do.
///
/// # Safety
/// As for the loops that bypass it.
pub(super) unsafe fn pieces_cached(pieces: &[Piece]) {
    for piece in pieces {
        // SAFETY: as the caller vouches.
        unsafe { copy_bytes(piece.from, piece.to, piece.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PAGE_BYTES;
    use crate::copy::Copier;
    use crate::map::Mapping;

    /// Numbers below a bound (splitmix64).
    fn below(seed: &mut u64, bound: usize) -> usize {
        *seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        ((mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 33) as usize % bound
    }

    fn loops() -> Vec<PiecesLoop> {
        let mut loops: Vec<PiecesLoop> = vec![pieces_cached];
        #[cfg(target_arch = "x86_64")]
        {
            loops.push(pieces_sse2);
            if std::arch::is_x86_feature_detected!("avx") {
                loops.push(pieces_avx);
            }
            if std::arch::is_x86_feature_detected!("avx512f") {
                loops.push(pieces_avx512);
            }
        }
        loops
    }

    /// Pieces of all lengths, one behind the other with gaps, that go to any place in a line of the cache.
    #[test]
    fn all_bytes_of_pieces_arrive_and_none_beside_them() {
        let copiers = [1, 3].map(Copier::new);
        for round in 0..60 {
            let mut seed = round;
            // Few that are copied through the cache, some, and many of which several threads have a part.
            let count = [3, 40, 2500][round as usize % 3] * below(&mut seed, 100) / 100;
            let lengths: Vec<[usize; 3]> =
                (0..count).map(|_| [3 * PAGE_BYTES, 200, 200].map(|bound| below(&mut seed, bound))).collect();
            let bytes = lengths.iter().flatten().sum::<usize>() + PAGE_BYTES;
            let bytes = bytes.next_multiple_of(PAGE_BYTES);
            let from = Mapping::private(bytes, false).unwrap();
            let content: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8 + 1).collect();
            from.write(0, &content);
            let (mut places, mut expected, mut at, mut target) = (Vec::new(), vec![0; bytes], 0, 0);
            for [length, before, gap] in lengths {
                (at, target) = (at + before, target + gap);
                expected[target..target + length].copy_from_slice(&content[at..at + length]);
                places.push((at, target, length));
                (at, target) = (at + length, target + length);
            }
            let check = |copy: &dyn Fn(&[Piece])| {
                let to = Mapping::private(bytes, false).unwrap();
                let piece = |(at, target, bytes): &(usize, usize, usize)| Piece {
                    from: from.address() + at,
                    to: to.address() + target,
                    bytes: *bytes,
                };
                copy(&places.iter().map(piece).collect::<Vec<_>>());
                let mut found = vec![0; bytes];
                to.read(0, &mut found);
                assert!(found == expected, "{count} pieces");
            };
            for run in loops() {
                // SAFETY: all pieces lie in the two mappings, which nobody else uses.
                check(&|pieces| unsafe { run(pieces) });
            }
            for copier in &copiers {
                // SAFETY: as above.
                check(&|pieces| unsafe { copier.copy_pieces(pieces) });
            }
        }
    }
}
