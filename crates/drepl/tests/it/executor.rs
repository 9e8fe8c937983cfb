//! The executor against a program that moves byte by byte, and converts number by number.

use crate::numbers;
use crate::tier::by_tier;

use std::{fs::File, io::Write as _, path::Path};

use drepl::{
    clip::part,
    executor::{Destination, ExecuteError, Executor, FileRange, Source},
    transfer::{Axes, Axis, Conversion, Float, Move, Number, Side, Transfer, TransferError},
    types::ByteOrder,
};
use proptest::{prelude::*, sample::select};

/// Where a byte that no move names has to stay.
const UNTOUCHED: u8 = 0xEE;

/// Calls `each` with the place of every byte that a move reads and where it writes it to.
fn bytes_of(one: &Move, each: &mut impl FnMut(i64, i64)) {
    fn axes(one: &Move, at: usize, from: i64, to: i64, each: &mut impl FnMut(i64, i64)) {
        let Some(axis) = one.axes.get(at) else {
            let number = i64::from(one.swap_bytes);
            for byte in 0..one.run_bytes as i64 {
                let reversed = byte / number * number + (number - 1 - byte % number);
                each(from + reversed, to + byte);
            }
            return;
        };
        for index in 0..axis.count as i64 {
            axes(one, at + 1, from + index * axis.from_bytes, to + index * axis.to_bytes, each);
        }
    }
    axes(one, 0, one.from as i64, one.to as i64, each);
}

/// What a program does that looks at each byte and each number by itself.
fn execute(transfer: &Transfer, source: &[u8], destination: &mut [u8]) {
    naive(transfer.moves(), source, destination);
    numbers::interpret(transfer.conversions(), source, destination);
}

fn naive(moves: &[Move], source: &[u8], destination: &mut [u8]) {
    for one in moves {
        bytes_of(one, &mut |from, to| destination[to as usize] = source[from as usize]);
    }
}

/// Bytes of which none looks untouched.
fn pattern(bytes: usize, seed: u64) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some((state >> 56) as u8).filter(|byte| *byte != UNTOUCHED).unwrap_or(0)
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

/// A box of records in an array on each side: as an array of structures or of arrays, axes in any order, with gaps,
/// and against the other side along some axes.
#[derive(Debug, Clone)]
struct Case {
    moves: Vec<Move>,
    conversions: Vec<Conversion>,
    source_bytes: usize,
    destination_bytes: usize,
}

impl Case {
    fn transfer(&self) -> Transfer {
        Transfer::converting(self.moves.clone(), self.conversions.clone()).unwrap()
    }

    /// What a program does that looks at each byte and each number by itself.
    fn execute(&self, source: &[u8], destination: &mut [u8]) {
        naive(&self.moves, source, destination);
        numbers::interpret(&self.conversions, source, destination);
    }
}

/// What the numbers of a field are, and become.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Bytes of each, and of those that are reversed.
    Moved(u64, u8),
    Converted(Number, Number),
}

impl Kind {
    fn bytes(self, is_source: bool) -> u64 {
        match self {
            Kind::Moved(bytes, _) => bytes,
            Kind::Converted(source, destination) => if is_source { source } else { destination }.float.size_bytes(),
        }
    }
}

fn number() -> impl Strategy<Value = Number> {
    let float = select(vec![Float::Float16, Float::Bfloat16, Float::Float32, Float::Float64]);
    let byte_order = select(vec![ByteOrder::LittleEndian, ByteOrder::BigEndian]);
    (float, byte_order).prop_map(|(float, byte_order)| Number { float, byte_order })
}

fn kind() -> impl Strategy<Value = Kind> {
    let moved = select(vec![(1u64, 1u8), (1, 1), (2, 2), (4, 4), (8, 8), (8, 1), (4, 1), (2, 1)]);
    let moved = moved.prop_map(|(bytes, swap_bytes)| Kind::Moved(bytes, swap_bytes));
    let converted = (number(), number()).prop_map(|(source, destination)| match source.float == destination.float {
        true => Kind::Moved(source.float.size_bytes(), 1),
        false => Kind::Converted(source, destination),
    });
    prop_oneof![2 => moved, 1 => converted]
}

fn case() -> impl Strategy<Value = Case> {
    let rank = prop_oneof![1 => Just(0usize), 4 => Just(1), 6 => Just(2), 4 => Just(3), 1 => Just(5)];
    rank.prop_flat_map(|rank| {
        let largest: u64 = [1, 700, 40, 12, 4, 4][rank];
        let axis = (1..=largest, 0..3u64, 0..3u64, any::<bool>(), any::<bool>());
        let field = (kind(), prop_oneof![6 => 1..=4u64, 1 => 5..=20u64]);
        (
            prop::collection::vec(axis, rank),
            Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
            Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
            prop::collection::vec(field, 1..5),
            [any::<bool>(), any::<bool>()],
            [0..70u64, 0..70u64],
            0..5u64,
        )
            .prop_map(|(axes, from_order, to_order, fields, records, offsets, padding)| {
                // Offsets of the fields and strides of the axes, for one side.
                let side = |order: &[usize], records: bool, offset: u64, source: bool| {
                    let sizes: Vec<u64> = fields.iter().map(|(kind, count)| kind.bytes(source) * count).collect();
                    let record_bytes = sizes.iter().sum::<u64>() + padding;
                    let mut places = Vec::new();
                    let mut begin = offset;
                    for (at, size) in sizes.iter().enumerate() {
                        let element = if records { record_bytes } else { *size };
                        let mut block = element;
                        let mut strides = vec![0i64; order.len()];
                        let mut first = if records { offset + sizes[..at].iter().sum::<u64>() } else { begin };
                        for axis in order {
                            let (count, from_gap, to_gap, from_down, to_down) = axes[*axis];
                            let (gap, down) = if source { (from_gap, from_down) } else { (to_gap, to_down) };
                            let stride = if gap == 2 { block * 2 } else { block + gap * 3 };
                            strides[*axis] = if down { -(stride as i64) } else { stride as i64 };
                            first += if down { (count - 1) * stride } else { 0 };
                            block = stride * count;
                        }
                        places.push((first, strides));
                        begin += block;
                    }
                    places
                };
                let from = side(&from_order, records[0], offsets[0], true);
                let to = side(&to_order, records[1], offsets[1], false);
                let (mut moves, mut conversions) = (Vec::new(), Vec::new());
                for (at, (kind, count)) in fields.iter().enumerate() {
                    let ((from, from_strides), (to, to_strides)) = (&from[at], &to[at]);
                    let strides = from_strides.iter().zip(to_strides).zip(&axes);
                    let mut axes: Axes = strides
                        .map(|((from_bytes, to_bytes), axis)| Axis {
                            count: axis.0,
                            from_bytes: *from_bytes,
                            to_bytes: *to_bytes,
                        })
                        .collect();
                    let (from, to) = (*from, *to);
                    match *kind {
                        Kind::Moved(bytes, swap_bytes) => {
                            moves.push(Move { from, to, run_bytes: bytes * count, swap_bytes, axes });
                        }
                        Kind::Converted(source, destination) => {
                            let (from_bytes, to_bytes) = (kind.bytes(true) as i64, kind.bytes(false) as i64);
                            axes.push(Axis { count: *count, from_bytes, to_bytes });
                            let written = 0..to_bytes as u8;
                            conversions.push(Conversion { from, to, source, destination, written, axes });
                        }
                    }
                }
                let mut ends = (0, 0);
                for one in &moves {
                    bytes_of(one, &mut |from, to| ends = (ends.0.max(from + 1), ends.1.max(to + 1)));
                }
                for one in &conversions {
                    let above = |reach: &dyn Fn(&Axis) -> i64| {
                        one.axes.iter().map(|axis| (axis.count as i64 - 1) * reach(axis).max(0)).sum::<i64>()
                    };
                    let from = one.from as i64 + above(&|axis| axis.from_bytes) + one.source.float.size_bytes() as i64;
                    let to = one.to as i64 + above(&|axis| axis.to_bytes) + i64::from(one.written.end);
                    ends = (ends.0.max(from), ends.1.max(to));
                }
                Case { moves, conversions, source_bytes: ends.0 as usize, destination_bytes: ends.1 as usize }
            })
    })
}

/// The case several times behind each other, so that there is enough for several threads.
fn repeated(case: &Case, times: usize) -> Case {
    let (from, to) = (case.source_bytes + 5, case.destination_bytes + 3);
    let places = |time: usize| ((time * from) as u64, (time * to) as u64);
    let moves = (0..times).map(places).flat_map(|(from, to)| {
        case.moves.iter().map(move |one| Move { from: one.from + from, to: one.to + to, ..one.clone() })
    });
    let conversions = (0..times).map(places).flat_map(|(from, to)| {
        case.conversions.iter().map(move |one| Conversion { from: one.from + from, to: one.to + to, ..one.clone() })
    });
    Case {
        moves: moves.collect(),
        conversions: conversions.collect(),
        source_bytes: from * times - 5,
        destination_bytes: to * times - 3,
    }
}

fn range<'a>(file: &'a File, offset: u64, bytes: usize) -> FileRange<'a> {
    FileRange { file, path: Path::new("test file"), offset, bytes: bytes as u64 }
}

fn file_of(bytes: &[&[u8]]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    bytes.iter().for_each(|part| file.write_all(part).unwrap());
    file
}

fn read_back(file: &File, offset: u64, bytes: usize) -> Vec<u8> {
    let mut back = vec![0; bytes];
    std::os::unix::fs::FileExt::read_exact_at(file, &mut back, offset).unwrap();
    back
}

/// Executes a case every way there is and compares.
fn check(case: &Case, seed: u64, threads: usize) {
    let source = pattern(case.source_bytes, seed);
    let mut expected = vec![UNTOUCHED; case.destination_bytes + 9];
    case.execute(&source, &mut expected);
    let transfer = case.transfer();
    assert_eq!(transfer.source_bytes(), case.source_bytes as u64);
    assert_eq!(transfer.destination_bytes(), case.destination_bytes as u64);
    let executor = Executor::new(threads).staging_bytes(64 << 10);

    let mut direct = vec![UNTOUCHED; expected.len()];
    executor.run(&transfer, &source, &mut direct).unwrap();
    assert!(direct == expected, "run");

    let decoded = Transfer::decode(&transfer.encode()).unwrap();
    assert_eq!(decoded.moved_bytes(), transfer.moved_bytes());
    let mut again = vec![UNTOUCHED; expected.len()];
    executor.run(&decoded, &source, &mut again).unwrap();
    assert!(again == expected, "encoded");

    let (pack, unpack) = (transfer.pack(), transfer.unpack());
    assert_eq!(pack.destination_bytes(), transfer.moved_bytes());
    assert_eq!(unpack.source_bytes(), transfer.moved_bytes());
    let mut compact = vec![UNTOUCHED; transfer.moved_bytes() as usize];
    executor.run(&pack, &source, &mut compact).unwrap();
    let mut unpacked = vec![UNTOUCHED; expected.len()];
    executor.run(&unpack, &compact, &mut unpacked).unwrap();
    assert!(unpacked == expected, "packed");

    let input = file_of(&[b"head", &source, b"tail"]);
    let stored = Source::File(range(&input, 4, source.len()));
    let mut read = vec![UNTOUCHED; expected.len()];
    executor.run_stored(&[(&transfer, stored)], Destination::Memory(&mut read)).unwrap();
    assert!(read == expected, "from a file");

    for source in [stored, Source::Memory(&source)] {
        let output = file_of(&[b"some head", &vec![UNTOUCHED; expected.len()]]);
        let destination = range(&output, 9, expected.len());
        executor.run_stored(&[(&transfer, source)], Destination::File(destination)).unwrap();
        assert!(read_back(&output, 9, expected.len()) == expected, "into a file");
        assert_eq!(read_back(&output, 0, 9), b"some head");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(100, 400), ..ProptestConfig::default() })]

    #[test]
    fn every_byte_is_where_a_naive_program_puts_it(case in case(), seed: u64) {
        check(&case, seed, 1);
    }

    #[test]
    fn several_moves_of_one_shape_are_executed_like_each(case in case(), seed: u64) {
        check(&repeated(&case, 3), seed, 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(50, 200), ..ProptestConfig::default() })]

    #[test]
    fn moves_of_several_sources_are_executed_like_those_of_one(case in case(), seed: u64, of in prop::collection::vec(0..3usize, 12)) {
        let case = repeated(&case, 3);
        let mut expected = vec![UNTOUCHED; case.destination_bytes + 9];
        let mut destination = expected.clone();
        let mut parts: [(Vec<Move>, Vec<Conversion>); 3] = Default::default();
        for (one, of) in case.moves.into_iter().zip(&of) {
            parts[*of].0.push(one);
        }
        for (one, of) in case.conversions.into_iter().zip(of.iter().rev()) {
            parts[*of].1.push(one);
        }
        let parts = parts.map(|(moves, conversions)| Transfer::converting(moves, conversions).unwrap());
        let sources: Vec<Vec<u8>> =
            (0..).zip(&parts).map(|(at, part)| pattern(part.source_bytes() as usize, seed ^ at << 40)).collect();
        for (part, source) in parts.iter().zip(&sources) {
            execute(part, source, &mut expected);
        }
        let work: Vec<(&Transfer, &[u8])> = parts.iter().zip(&sources).map(|(part, source)| (part, &source[..])).collect();
        Executor::new(1).run_all(&work, &mut destination).unwrap();
        prop_assert!(destination == expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(10, 40), ..ProptestConfig::default() })]

    #[test]
    fn several_threads_write_what_one_writes(case in case(), seed: u64, threads in 2..=4usize, misaligned in 0..64usize, joined: bool) {
        let bytes: u64 = case.transfer().moved_bytes();
        let mut case = repeated(&case, ((3 << 20) / bytes as usize).clamp(1, 3000));
        if joined {
            // An array that is cut among the threads, within numbers whose bytes are reversed.
            let run_bytes = 3 << 20;
            let (from, to) = (case.source_bytes as u64, case.destination_bytes as u64);
            let axes = [Axis { count: run_bytes / 8, from_bytes: -8, to_bytes: 8 }].into_iter().collect();
            case.moves.push(Move { from: from + run_bytes - 8, to: to + 1, run_bytes: 8, swap_bytes: 8, axes });
            case.source_bytes += run_bytes as usize;
            case.destination_bytes += run_bytes as usize + 1;
            // And one within numbers that are converted.
            let (from, to) = (case.source_bytes as u64, case.destination_bytes as u64);
            let [source, destination] = [Float::Float32, Float::Float64].map(|float| Number { float, byte_order: ByteOrder::NATIVE });
            let axes = [Axis { count: run_bytes / 8, from_bytes: 4, to_bytes: 8 }].into_iter().collect();
            case.conversions.push(Conversion { from, to: to + 3, source, destination, written: 0..8, axes });
            case.source_bytes += run_bytes as usize / 2;
            case.destination_bytes += run_bytes as usize + 3;
        }
        let source = pattern(case.source_bytes, seed);
        let mut expected = vec![UNTOUCHED; case.destination_bytes + 200];
        case.execute(&source, &mut expected[misaligned..]);
        let transfer = case.transfer();
        let mut threaded = vec![UNTOUCHED; expected.len()];
        Executor::new(threads).run(&transfer, &source, &mut threaded[misaligned..]).unwrap();
        prop_assert!(threaded == expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(500, 2000), ..ProptestConfig::default() })]

    #[test]
    fn the_parts_of_a_transfer_are_the_whole(
        case in case(),
        window_bytes in 1..200u64,
        side in select(vec![Side::Source, Side::Destination]),
        seed in any::<u64>(),
    ) {
        let source = pattern(case.source_bytes, seed);
        let mut expected = vec![UNTOUCHED; case.destination_bytes];
        case.execute(&source, &mut expected);
        let transfer = case.transfer();
        let mut joined = vec![UNTOUCHED; expected.len()];
        let (bytes, mut moved) = (if side == Side::Source { source.len() } else { joined.len() } as u64, 0);
        for begin in (0..bytes).step_by(window_bytes as usize) {
            let end = bytes.min(begin + window_bytes);
            let (window, one) = (begin as usize..end as usize, part(&transfer, side, begin..end));
            moved += one.moved_bytes();
            // What is packed of it comes to the same places.
            let mut packed = vec![0; one.moved_bytes() as usize];
            let (from, to) = match side {
                // A number that begins in a window is read whole.
                Side::Source => (&source[window.start..window.end.max(window.start + one.source_bytes() as usize)], &mut joined[..]),
                Side::Destination => (&source[..], &mut joined[window]),
            };
            Executor::new(1).run(&one.pack(), from, &mut packed).unwrap();
            Executor::new(1).run(&one.unpack(), &packed, to).unwrap();
        }
        prop_assert_eq!(moved, transfer.moved_bytes());
        prop_assert!(joined == expected);
    }
}

/// A transfer has no more bytes than its destination has room, but some of its moves may write the same bytes, as those of one from
/// elsewhere do.
#[test]
fn parts_in_which_more_is_written_than_there_is_room_are_no_less() {
    let run = |from, to, run_bytes| Move { from, to, run_bytes, swap_bytes: 1, axes: Default::default() };
    let transfer = Transfer::new(vec![run(0, 0, 8), run(8, 4, 8), run(16, 100, 4)]).unwrap();
    let one = part(&transfer, Side::Destination, 0..12);
    assert_eq!((one.moved_bytes(), one.destination_bytes()), (16, 12));
    assert_eq!((one.pack().moved_bytes(), one.unpack().moved_bytes()), (16, 16));
    assert_eq!(part(&transfer, Side::Source, 0..16).moved_bytes(), 16);
}

fn any_move() -> impl Strategy<Value = Move> {
    let offset = prop_oneof![0..300u64, any::<u64>()];
    let stride = prop_oneof![4 => -40..80i64, 1 => any::<i64>()];
    let count = prop_oneof![8 => 0..9u64, 1 => any::<u64>()];
    let axis =
        (count, stride.clone(), stride).prop_map(|(count, from_bytes, to_bytes)| Axis { count, from_bytes, to_bytes });
    let run = prop_oneof![8 => 0..33u64, 1 => any::<u64>()];
    let swap = prop_oneof![4 => Just(1u8), 2 => Just(8), 1 => any::<u8>()];
    (offset.clone(), offset, run, swap, prop::collection::vec(axis, 0..4))
        .prop_map(|(from, to, run_bytes, swap_bytes, axes)| Move { from, to, run_bytes, swap_bytes, axes: axes.into() })
}

fn any_conversion() -> impl Strategy<Value = Conversion> {
    let written = prop_oneof![4 => Just((0u8, 2u8)), 2 => (0..9u8, 0..9u8), 1 => any::<(u8, u8)>()];
    (any_move(), number(), number(), written).prop_map(|(place, source, destination, (begin, end))| Conversion {
        from: place.from,
        to: place.to,
        source,
        destination,
        written: begin..end,
        axes: place.axes,
    })
}

/// Executes a transfer that may say anything, between guards.
fn execute_hostile(transfer: &Transfer, threads: usize) {
    let (source_bytes, destination_bytes) = (transfer.source_bytes(), transfer.destination_bytes());
    if source_bytes > 4 << 20 || destination_bytes > 4 << 20 {
        let result = Executor::new(threads).run(transfer, &[0; 64], &mut [0; 64]);
        assert!(matches!(result, Err(ExecuteError::SourceLength { .. } | ExecuteError::DestinationLength { .. })));
        return;
    }
    let source = pattern(source_bytes as usize, 1);
    let guard = 4096;
    let mut buffer = vec![UNTOUCHED; destination_bytes as usize + 2 * guard];
    let end = guard + destination_bytes as usize;
    Executor::new(threads).run(transfer, &source, &mut buffer[guard..end]).unwrap();
    assert!(buffer[..guard].iter().chain(&buffer[end..]).all(|byte| *byte == UNTOUCHED));
    let mut named = vec![UNTOUCHED; destination_bytes as usize];
    execute(transfer, &source, &mut named);
    let overlap = transfer.moves().len() + transfer.conversions().len() > 1;
    for (at, (is, should)) in buffer[guard..end].iter().zip(&named).enumerate() {
        assert!(is == should || overlap && *should != UNTOUCHED, "byte {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(750, 3000), ..ProptestConfig::default() })]

    #[test]
    fn moves_from_anywhere_are_refused_or_stay_inside(
        moves in prop::collection::vec(any_move(), 0..4),
        conversions in prop::collection::vec(any_conversion(), 0..3),
    ) {
        if let Ok(transfer) = Transfer::converting(moves, conversions) {
            execute_hostile(&transfer, 1);
        }
    }

    #[test]
    fn bytes_from_anywhere_are_refused_or_stay_inside(
        case in case(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        length in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = case.transfer().encode();
        if let Some(length) = length {
            bytes.truncate(length.index(bytes.len()));
        }
        for (at, value) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
        }
        if let Ok(transfer) = Transfer::decode(&bytes) {
            execute_hostile(&transfer, 1);
        }
    }

    #[test]
    fn random_bytes_are_refused_or_stay_inside(mut bytes in prop::collection::vec(any::<u8>(), 1..60)) {
        bytes[0] = 2;
        if let Ok(transfer) = Transfer::decode(&bytes) {
            execute_hostile(&transfer, 1);
        }
    }
}

/// Records of fields of 4 and 8 bytes, in any order and some with their bytes reversed, and an array for each field.
fn records() -> impl Strategy<Value = Case> {
    let field = select(vec![(8u64, 1u8), (8, 8), (8, 1), (4, 1), (4, 4)]);
    (prop::collection::vec(field, 2..12), 1..200u64, prop_oneof![3 => Just(0u64), 1 => 0..9u64], any::<bool>(), 0..9u64)
        .prop_map(|(fields, count, padding, into, offset)| {
            let record_bytes = fields.iter().map(|(bytes, _)| bytes).sum::<u64>() + padding;
            let (mut within, mut array) = (offset, 0);
            let mut moves = Vec::new();
            for (bytes, swap_bytes) in fields {
                let (record, numbers) = ((within, record_bytes as i64), (array, bytes as i64));
                let (from, to) = if into { (numbers, record) } else { (record, numbers) };
                let axis = Axis { count, from_bytes: from.1, to_bytes: to.1 };
                let axes = [axis].into_iter().collect();
                moves.push(Move { from: from.0, to: to.0, run_bytes: bytes, swap_bytes, axes });
                within += bytes;
                array += bytes * count;
            }
            let records_bytes = (offset + record_bytes * count - padding) as usize;
            let (source_bytes, destination_bytes) =
                if into { (array as usize, records_bytes) } else { (records_bytes, array as usize) };
            Case { moves, conversions: Vec::new(), source_bytes, destination_bytes }
        })
}

/// A transpose of some axes of numbers without gaps.
fn transposes() -> impl Strategy<Value = Case> {
    let number = select(vec![(1u64, 1u8), (2, 1), (4, 1), (8, 1), (16, 1), (4, 4), (8, 8), (24, 1)]);
    (number, [1..90u64, 1..9u64, 1..90u64], Just(vec![0usize, 1, 2]).prop_shuffle()).prop_map(
        |((run_bytes, swap_bytes), counts, order)| {
            let strides = |order: &[usize]| {
                let mut block = run_bytes;
                let mut strides = [0; 3];
                for axis in order {
                    strides[*axis] = block as i64;
                    block *= counts[*axis];
                }
                strides
            };
            let (from, to) = (strides(&[0, 1, 2]), strides(&order));
            let axes = (0..3).map(|at| Axis { count: counts[at], from_bytes: from[at], to_bytes: to[at] }).collect();
            let bytes = (run_bytes * counts.iter().product::<u64>()) as usize;
            let moves = vec![Move { from: 0, to: 0, run_bytes, swap_bytes, axes }];
            Case { moves, conversions: Vec::new(), source_bytes: bytes, destination_bytes: bytes }
        },
    )
}

/// A transpose of many axes of which most have few indices.
fn transposes_of_few() -> impl Strategy<Value = Case> {
    let count = prop_oneof![4 => 2..4u64, 1 => 5..20u64];
    let number = select(vec![(1u64, 1u8), (2, 1), (4, 1), (8, 1), (12, 1), (4, 4), (8, 8)]);
    let order = || Just(vec![0usize, 1, 2, 3, 4, 5]).prop_shuffle();
    (number, prop::collection::vec(count, 6), order(), order(), 0..3u64).prop_map(
        |((run_bytes, swap_bytes), counts, from_order, to_order, gap)| {
            let strides = |order: &[usize], gap: u64| {
                let mut block = run_bytes * (1 + gap);
                let mut strides = [0; 6];
                for axis in order {
                    strides[*axis] = block as i64;
                    block *= counts[*axis];
                }
                strides
            };
            let (from, to) = (strides(&from_order, 0), strides(&to_order, gap));
            let axes = (0..6).map(|at| Axis { count: counts[at], from_bytes: from[at], to_bytes: to[at] }).collect();
            let runs = counts.iter().product::<u64>();
            let source_bytes = (run_bytes * runs) as usize;
            let destination_bytes = (run_bytes * (1 + gap) * (runs - 1) + run_bytes) as usize;
            let moves = vec![Move { from: 0, to: 0, run_bytes, swap_bytes, axes }];
            Case { moves, conversions: Vec::new(), source_bytes, destination_bytes }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(75, 300), ..ProptestConfig::default() })]

    #[test]
    fn axes_of_few_indices_are_transposed(case in transposes_of_few(), seed: u64) {
        check(&case, seed, 1);
    }

    #[test]
    fn records_and_arrays_are_made_of_each_other(case in records(), seed: u64, threads in 1..=2usize) {
        check(&case, seed, threads);
    }

    #[test]
    fn axes_are_transposed(case in transposes(), seed: u64) {
        check(&case, seed, 1);
    }
}

#[test]
fn what_does_not_fit_the_caches_is_moved_like_the_rest() {
    // Rows of several lines from two sources into one array, which begins anywhere in a line.
    // Threads cut the destination in the midst of rows.
    let rows = 9211u64;
    let part = |to: u64, run_bytes: u64| {
        let axis = Axis { count: rows, from_bytes: run_bytes as i64 + 3, to_bytes: 1700 };
        let axes = [axis].into_iter().collect();
        Transfer::new(vec![Move { from: 1, to, run_bytes, swap_bytes: 1, axes }]).unwrap()
    };
    let (left, right) = (part(0, 1000), part(1000, 500));
    let sources = [&left, &right].map(|half| pattern(half.source_bytes() as usize, half.moved_bytes()));
    let mut expected = vec![UNTOUCHED; 1700 * rows as usize + 100];
    for begin in [0, 13, 64] {
        expected.fill(UNTOUCHED);
        naive(left.moves(), &sources[0], &mut expected[begin..]);
        naive(right.moves(), &sources[1], &mut expected[begin..]);
        for threads in [1, 3, 4] {
            let mut destination = vec![UNTOUCHED; expected.len()];
            let work = [(&left, &sources[0][..]), (&right, &sources[1][..])];
            Executor::new(threads).run_all(&work, &mut destination[begin..]).unwrap();
            assert!(destination == expected, "{begin} {threads}");
        }
    }
}

#[test]
fn transposes_that_do_not_fit_the_caches_are_like_small_ones() {
    // Numbers of all kinds, in rows that begin anywhere in a line and have gaps on both sides; 9 MiB and 1 MiB.
    for (run_bytes, swap_bytes) in [(1u64, 1u8), (2, 1), (4, 1), (4, 4), (8, 1), (8, 8), (12, 1), (24, 8), (7, 1)] {
        for (moved_bytes, backwards) in [(9u64 << 20, false), (1 << 20, true)] {
            let (rows, columns) = (173u64, moved_bytes / run_bytes / 173 + 1);
            let (row, column) = ((columns * run_bytes + 5) as i64, (rows * run_bytes + 3) as i64);
            // The source may run against the destination along both axes.
            let (from, sign) = if backwards { ((columns - 1) * column as u64 + rows * run_bytes, -1) } else { (0, 1) };
            let axes = [
                Axis { count: rows, from_bytes: sign * run_bytes as i64, to_bytes: row },
                Axis { count: columns, from_bytes: sign * column, to_bytes: run_bytes as i64 },
            ];
            let one = Move { from, to: 0, run_bytes, swap_bytes, axes: axes.into_iter().collect() };
            let transfer = Transfer::new(vec![one]).unwrap();
            let source = pattern(transfer.source_bytes() as usize, run_bytes);
            for begin in [0, 29] {
                let mut expected = vec![UNTOUCHED; transfer.destination_bytes() as usize + 100];
                let mut destination = expected.clone();
                naive(transfer.moves(), &source, &mut expected[begin..]);
                Executor::new(1).run(&transfer, &source, &mut destination[begin..]).unwrap();
                assert!(destination == expected, "{run_bytes} {swap_bytes} {moved_bytes} {begin}");
            }
        }
    }
}

#[test]
fn transposes_whose_lines_crowd_the_cache_are_like_others() {
    // Lines that lie a multiple of 2048 bytes apart on one side, in planes of few rows and of more, with gaps in them.
    for (run_bytes, swap_bytes) in [(1u64, 1u8), (4, 1), (4, 4), (8, 1), (8, 8), (12, 1), (7, 1)] {
        for (rows, columns) in [(8u64, 32u64), (9, 33), (31, 70), (33, 129)] {
            for (from_gap, to_gap) in [(0, 0), (run_bytes, 0), (0, 3)] {
                for crowds in [Side::Source, Side::Destination] {
                    let (row, column) = (run_bytes + from_gap, run_bytes + to_gap);
                    let line = |side, bytes: u64| if side == crowds { bytes.next_multiple_of(2048) } else { bytes + 5 };
                    let (from, to) = (line(Side::Source, rows * row), line(Side::Destination, columns * column));
                    let axes = [
                        Axis { count: rows, from_bytes: row as i64, to_bytes: to as i64 },
                        Axis { count: columns, from_bytes: from as i64, to_bytes: column as i64 },
                    ];
                    let one = Move { from: 0, to: 3, run_bytes, swap_bytes, axes: axes.into_iter().collect() };
                    let transfer = Transfer::new(vec![one]).unwrap();
                    let source = pattern(transfer.source_bytes() as usize, rows);
                    let mut expected = vec![UNTOUCHED; transfer.destination_bytes() as usize + 64];
                    let mut destination = expected.clone();
                    naive(transfer.moves(), &source, &mut expected);
                    Executor::new(1).run(&transfer, &source, &mut destination).unwrap();
                    let gaps = (from_gap, to_gap);
                    assert!(destination == expected, "{run_bytes} {swap_bytes} {rows} {columns} {gaps:?} {crowds}");
                }
            }
        }
    }
}

#[test]
fn transposes_of_few_rows_are_moved_to_the_last_of_many_columns() {
    for few in 1..8u64 {
        for many in [16u64, 17, 255, 1000, 4099] {
            for run_bytes in [1u64, 4, 8, 12] {
                // Gaps, so that they are no records.
                let (line, gap) = (few * run_bytes + 1, many * run_bytes + 2);
                let across = Axis { count: few, from_bytes: run_bytes as i64, to_bytes: gap as i64 };
                let along = Axis { count: many, from_bytes: line as i64, to_bytes: run_bytes as i64 };
                for turned in [false, true] {
                    let turn = |axis: Axis| match turned {
                        true => Axis { from_bytes: axis.to_bytes, to_bytes: axis.from_bytes, ..axis },
                        false => axis,
                    };
                    let axes = [turn(across), turn(along)].into_iter().collect();
                    let one = Move { from: 0, to: 0, run_bytes, swap_bytes: 1, axes };
                    let transfer = Transfer::new(vec![one]).unwrap();
                    let source = pattern(transfer.source_bytes() as usize, many);
                    let mut expected = vec![UNTOUCHED; transfer.destination_bytes() as usize + 64];
                    let mut destination = expected.clone();
                    naive(transfer.moves(), &source, &mut expected);
                    Executor::new(1).run(&transfer, &source, &mut destination).unwrap();
                    assert!(destination == expected, "{few} {many} {run_bytes} {turned}");
                }
            }
        }
    }
}

#[test]
fn rows_without_gaps_are_joined_of_the_pieces_that_several_sources_have() {
    let (planes, rows) = (3u64, 2311u64);
    let all = [&[128u64, 1100, 132][..], &[1368], &[4, 700, 660], &[3000, 1096]];
    // Planes may begin anywhere in a word.
    for (lengths, gap) in all.into_iter().flat_map(|lengths| [(lengths, 20), (lengths, 21)]) {
        let row = lengths.iter().sum::<u64>();
        let mut to = 0;
        let mut parts = Vec::new();
        for run_bytes in lengths {
            let axes = [
                Axis {
                    count: planes,
                    from_bytes: (rows * (run_bytes + 12)) as i64,
                    to_bytes: (rows * row + gap) as i64,
                },
                Axis { count: rows, from_bytes: *run_bytes as i64 + 12, to_bytes: row as i64 },
            ];
            let one = Move { from: 5, to, run_bytes: *run_bytes, swap_bytes: 1, axes: axes.into_iter().collect() };
            parts.push(Transfer::new(vec![one]).unwrap());
            to += run_bytes;
        }
        let source = |part: &Transfer| pattern(part.source_bytes() as usize, part.moved_bytes());
        let sources: Vec<Vec<u8>> = parts.iter().map(source).collect();
        let bytes = parts.iter().map(|part| part.destination_bytes() as usize).max().unwrap() + 100;
        for begin in [0, 7, 36] {
            let mut expected = vec![UNTOUCHED; bytes];
            for (part, source) in parts.iter().zip(&sources) {
                naive(part.moves(), source, &mut expected[begin..]);
            }
            for threads in [1, 3] {
                let mut destination = vec![UNTOUCHED; bytes];
                let work: Vec<(&Transfer, &[u8])> =
                    parts.iter().zip(&sources).map(|(part, source)| (part, &source[..])).collect();
                Executor::new(threads).run_all(&work, &mut destination[begin..]).unwrap();
                assert!(destination == expected, "{lengths:?} {gap} {begin} {threads}");
            }
        }
    }
}

#[test]
fn bytes_between_fields_stay_also_where_fields_of_two_records_meet() {
    // Fields of one record at 0, 4 and 12, of the next at 12, 16 and 24: none has the bytes 8 to 12.
    let field = |to: u64| {
        let axes = [Axis { count: 50, from_bytes: 4, to_bytes: 12 }].into_iter().collect();
        Move { from: to * 100, to, run_bytes: 4, swap_bytes: 1, axes }
    };
    let transfer = Transfer::new([0, 4, 12].map(field).into()).unwrap();
    execute_hostile(&transfer, 1);
}

#[test]
fn faces_of_which_each_line_holds_one_run_are_moved_together() {
    for (run_bytes, swap_bytes) in [(8u64, 1u8), (8, 8), (12, 4), (40, 1), (5, 1)] {
        for faces in 1..=3u64 {
            let axes = [(3, 21_000, 21_300), (7, 3000, 3030), (19, 150, 151)]
                .map(|(count, from_bytes, to_bytes)| Axis { count, from_bytes, to_bytes });
            let face = |at: u64| {
                let axes = axes.into_iter().collect();
                Move { from: 3 + 50 * (faces - 1 - at), to: 50 * at, run_bytes, swap_bytes, axes }
            };
            let transfer = Transfer::new((0..faces).map(face).collect()).unwrap();
            let source = pattern(transfer.source_bytes() as usize, faces);
            let mut expected = vec![UNTOUCHED; transfer.destination_bytes() as usize + 64];
            let mut destination = expected.clone();
            naive(transfer.moves(), &source, &mut expected);
            Executor::new(1).run(&transfer, &source, &mut destination).unwrap();
            assert!(destination == expected, "{run_bytes} {swap_bytes} {faces}");
        }
    }
}

fn bytes_into(to: u64, run_bytes: u64) -> Move {
    Move { from: 0, to, run_bytes, swap_bytes: 1, axes: Default::default() }
}

#[test]
fn wrong_lengths_are_refused_before_a_byte_is_moved() {
    let transfer = Transfer::new(vec![bytes_into(0, 4), bytes_into(6, 4)]).unwrap();
    let mut destination = [UNTOUCHED; 10];
    let executor = Executor::new(1);
    let error = executor.run(&transfer, &[1; 3], &mut destination).unwrap_err();
    assert!(matches!(error, ExecuteError::SourceLength { position: 0, bytes: 3, needed_bytes: 4 }), "{error}");
    let error = executor.run(&transfer, &[1; 4], &mut destination[..9]).unwrap_err();
    assert!(matches!(error, ExecuteError::DestinationLength { bytes: 9, needed_bytes: 10 }), "{error}");
    let short = file_of(&[&[1; 20]]);
    let source = Source::File(range(&short, 18, 4));
    let error = executor.run_stored(&[(&transfer, source)], Destination::Memory(&mut destination)).unwrap_err();
    assert!(matches!(error, ExecuteError::FileLength { file_bytes: 20, end: 22, .. }), "{error}");
    assert_eq!(destination, [UNTOUCHED; 10]);
    let error = executor
        .run_stored(&[(&transfer, Source::Memory(&[1; 4]))], Destination::File(range(&short, 18, 10)))
        .unwrap_err();
    assert!(error.to_string().contains("extend it first"), "{error}");
    assert_eq!(read_back(&short, 0, 20), [1; 20]);
}

#[test]
fn a_file_that_is_not_open_for_writing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wanted.raw");
    std::fs::write(&path, [UNTOUCHED; 10]).unwrap();
    let file = File::open(&path).unwrap();
    let transfer = Transfer::new(vec![bytes_into(2, 4)]).unwrap();
    let destination = Destination::File(FileRange { file: &file, path: &path, offset: 0, bytes: 10 });
    let error = Executor::new(1).run_stored(&[(&transfer, Source::Memory(&[1; 4]))], destination).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("wanted.raw: pwrite at byte 2, 4 bytes"), "{text}");
    assert!(text.ends_with("open the file for writing"), "{text}");
}

#[test]
fn a_file_is_not_written_among_the_bytes_that_are_read_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("both.raw");
    let before = pattern(300, 3);
    std::fs::write(&path, &before).unwrap();
    let [read, write] = [File::open(&path).unwrap(), File::options().write(true).open(&path).unwrap()];
    let axes = [Axis { count: 100, from_bytes: 1, to_bytes: -1 }].into_iter().collect();
    let reversed = Transfer::new(vec![Move { from: 0, to: 99, run_bytes: 1, swap_bytes: 1, axes }]).unwrap();
    let run = |offset: u64| {
        let source = Source::File(FileRange { file: &read, path: &path, offset: 50, bytes: 100 });
        let destination = FileRange { file: &write, path: &path, offset, bytes: 100 };
        Executor::new(1).run_stored(&[(&reversed, source)], Destination::File(destination))
    };
    for (offset, (begin, end)) in [(0, (50, 100)), (50, (50, 150)), (149, (149, 150))] {
        let error = run(offset).unwrap_err();
        let expected = format!("both.raw: bytes {begin} to {end} of it are to be read as well as written");
        assert!(error.to_string().contains(&expected), "{error}");
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
    run(150).unwrap();
    let mut expected = before;
    expected.copy_within(50..150, 150);
    expected[150..250].reverse();
    assert_eq!(std::fs::read(&path).unwrap(), expected);
}

#[test]
#[ignore = "is run by the test below, where no thread can be started"]
fn without_threads() {
    assert!(std::thread::Builder::new().spawn(|| ()).is_err());
    let axes = [Axis { count: 1 << 19, from_bytes: 16, to_bytes: 8 }].into_iter().collect();
    let moves = vec![Move { from: 0, to: 0, run_bytes: 8, swap_bytes: 1, axes }];
    let transfer = Transfer::new(moves).unwrap();
    let source = pattern(transfer.source_bytes() as usize, 1);
    let [mut expected, mut destination] = [(); 2].map(|()| vec![UNTOUCHED; transfer.destination_bytes() as usize]);
    naive(transfer.moves(), &source, &mut expected);
    Executor::new(4).run(&transfer, &source, &mut destination).unwrap();
    assert!(destination == expected);
}

#[test]
fn a_system_that_has_no_thread_left_is_no_reason_to_stop() {
    // Threads cannot be started with a stack that is larger than the address space.
    let inner = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "executor::without_threads", "--ignored", "--test-threads=1"])
        .env("RUST_MIN_STACK", (1u64 << 47).to_string())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&inner.stdout);
    assert!(inner.status.success() && told.contains("1 passed"), "{told}");
}

#[test]
fn moves_that_are_no_transfer_are_named() {
    let axis = |count, from_bytes, to_bytes| Axis { count, from_bytes, to_bytes };
    let moves = |axes: &[Axis]| vec![Move { axes: axes.into(), ..bytes_into(0, 8) }];
    let refused = |moves| Transfer::new(moves).unwrap_err();
    assert_eq!(refused(moves(&[axis(2, 8, 7)])), TransferError::Overlap { position: 0 });
    assert_eq!(refused(moves(&[axis(2, 8, 0)])), TransferError::Overlap { position: 0 });
    assert_eq!(refused(moves(&[axis(2, -8, 8)])), TransferError::Range { position: 0, side: Side::Source });
    assert_eq!(
        refused(moves(&[axis(1 << 40, 8, 1 << 40)])),
        TransferError::Range { position: 0, side: Side::Destination }
    );
    let swap = vec![Move { swap_bytes: 3, ..bytes_into(0, 9) }];
    assert_eq!(refused(swap), TransferError::Swap { position: 0, swap_bytes: 3, run_bytes: 9 });
    let twice = vec![bytes_into(0, 8), bytes_into(4, 8), bytes_into(2, 2)];
    assert_eq!(refused(twice), TransferError::Overlaps { moved_bytes: 18, destination_bytes: 12 });
    assert!(
        Transfer::decode(&[]).is_err()
            && Transfer::decode(&[1, 0, 0]).is_err()
            && Transfer::decode(&[2, 0, 0, 0]).is_err()
    );
    assert!(Transfer::decode(&[2, 0, 0]).unwrap().is_empty());
}

#[test]
fn fields_and_axes_that_continue_each_other_become_one_run() {
    // All fields of records of 20 bytes, from records to records.
    let field = |offset: u64, run_bytes: u64| Move {
        from: 3 + offset,
        to: 7 + offset,
        run_bytes,
        swap_bytes: 1,
        axes: [Axis { count: 5, from_bytes: 200, to_bytes: 200 }, Axis { count: 10, from_bytes: 20, to_bytes: 20 }]
            .into_iter()
            .collect(),
    };
    let transfer = Transfer::new(vec![field(16, 4), field(0, 8), field(8, 8)]).unwrap();
    let whole = Move { from: 3, ..bytes_into(7, 1000) };
    assert_eq!(transfer.moves(), &[whole]);
}
