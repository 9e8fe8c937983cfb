use super::*;
use drepl::transfer::Axis;
use stillframe_roster::writer::Node;

fn way(moves: Vec<Move>) -> Way {
    let writer = Writer { node: Node(1), process: 1, serial: 1 };
    Way { writer, variable: "v".into(), transfer: Transfer::new(moves).unwrap() }
}

/// A field of each of many records goes where it lies beside the same of the others.
fn fields(fields: u64, records: u64) -> Vec<Move> {
    let stride = |bytes: u64| bytes as i64;
    let field = |number| Move {
        from: number * 4,
        to: number * records * 4,
        run_bytes: 4,
        swap_bytes: 1,
        axes: [Axis { count: records, from_bytes: stride(fields * 4), to_bytes: 4 }].into_iter().collect(),
    };
    (0..fields).map(field).collect()
}

#[test]
fn what_is_told_of_where_pieces_go_does_not_grow_with_the_bytes() {
    for records in [1 << 10, 1 << 18, 1 << 24] {
        let planned = Planned::new(vec![way(fields(64, records))]);
        let cargo = &planned.cargo[0];
        let (moves, bytes) = (cargo.share.transfer.moves().len(), 64 * 4 * records);
        assert!(moves <= 2 * MOVES_WANTED, "{moves} moves for {records} records");
        assert_eq!((cargo.share.bytes, cargo.share.transfer.moved_bytes()), (bytes, bytes));
        assert_eq!(cargo.pieces.iter().map(|piece| piece.bytes).sum::<u64>(), bytes);
        assert!(cargo.pieces.iter().all(|piece| piece.bytes <= PIECE_BYTES_MOST));
        assert!(!planned.is_too_long);
    }
}

/// A list may name each row many times.
#[test]
fn pieces_of_what_goes_to_many_places_are_no_larger() {
    let repeats = 64;
    let rows = Move {
        from: 0,
        to: 0,
        run_bytes: 1 << 10,
        swap_bytes: 1,
        axes: [
            Axis { count: 1 << 12, from_bytes: 1 << 10, to_bytes: repeats << 10 },
            Axis { count: repeats as u64, from_bytes: 0, to_bytes: 1 << 10 },
        ]
        .into_iter()
        .collect(),
    };
    let planned = Planned::new(vec![way(vec![rows])]);
    let cargo = &planned.cargo[0];
    assert_eq!(cargo.share.bytes, (repeats as u64) << 22);
    let largest = cargo.pieces.iter().map(|piece| piece.bytes).max().unwrap();
    assert!(largest <= 2 * PIECE_BYTES, "{largest}");
}

#[test]
fn what_no_message_can_say_is_found_before_it_is_sent() {
    let byte =
        |number| Move { from: number * 3, to: number * 2, run_bytes: 1, swap_bytes: 1, axes: Default::default() };
    // One after the other, but for gaps of which no two are alike.
    let gaps = |number: u64| number * 3 + number % 7 * (number % 5);
    let moves = |count: u64| (0..count).map(|number| Move { from: gaps(number) * 50, ..byte(number) }).collect();
    assert!(!Planned::new(vec![way(moves(1000))]).is_too_long);
    assert!(Planned::new(vec![way(moves(700_000))]).is_too_long);
}
