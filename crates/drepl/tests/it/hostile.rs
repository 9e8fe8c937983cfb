//! Plans from elsewhere that hold together and name what cannot be: numbers at the ends of their ranges, buffers that nobody
//! has. They are refused, or told, drawn and carried out like others, with an error where they leave the buffers.

use crate::dice::Dice;
use drepl::{
    Bindings, Fragment, IndexBox, IndexSet, Missing, Piece, Plan, Program, Progression, Schema, Share, Source, Wanted,
    dataset::LeafId,
    executor::{ExecuteError, Executor},
    picture::Picture,
    transfer::{Axis, Move, Transfer},
};
use proptest::prelude::*;

/// A number that is small, or near the end of 32, 63 or 64 bits.
fn number(dice: &mut Dice) -> u64 {
    let base = *dice.pick(&[0, 1, 2, 7, 1 << 20, u64::from(u32::MAX), i64::MAX as u64, u64::MAX]);
    match dice.roll(0, 2) {
        0 => base,
        1 => base.saturating_add(dice.roll(0, 3)),
        _ => base.saturating_sub(dice.roll(0, 3)),
    }
}

fn elements(dice: &mut Dice, rank: u64) -> Option<IndexBox> {
    let axes: Option<Vec<Progression>> =
        (0..rank).map(|_| Progression::new(number(dice), number(dice), number(dice).min(1 << 33))).collect();
    IndexBox::new(axes?)
}

fn boxes(dice: &mut Dice, rank: u64) -> Vec<IndexBox> {
    (0..dice.roll(0, 4)).filter_map(|_| elements(dice, rank)).collect()
}

fn any_move(dice: &mut Dice) -> Move {
    let axis = |dice: &mut Dice| {
        let signed =
            |dice: &mut Dice| if dice.one_in(4) { -(number(dice) as i64 >> 1) } else { number(dice) as i64 >> 1 };
        Axis { count: number(dice), from_bytes: signed(dice), to_bytes: signed(dice) }
    };
    let axes = (0..dice.roll(0, 2)).map(|_| axis(dice)).collect();
    Move { from: number(dice), to: number(dice), run_bytes: number(dice), swap_bytes: 1, axes }
}

/// A plan whose parts belong together, and that no planner made.
fn plan(dice: &mut Dice) -> Plan {
    let leaves = dice.roll(1, 3) as u32;
    let names = (0..leaves).map(|leaf| (LeafId(leaf), format!("x{leaf}"))).collect();
    let mut plan = Plan { names, ..Plan::default() };
    let mut source = dice.roll(0, 2) as usize;
    for _ in 0..dice.roll(0, 4) {
        let moves = (0..dice.roll(0, 3)).map(|_| any_move(dice)).collect();
        let Ok(transfer) = Transfer::new(moves) else { continue };
        plan.transfers.push((source, transfer));
        let leaf = LeafId(dice.roll(0, 3) as u32);
        let rank = dice.roll(0, 3);
        let piece = |elements| Piece { source, version: 1, leaf, elements, part: 0 };
        plan.pieces.extend(boxes(dice, rank).into_iter().map(piece));
        source += 1 + number(dice).min(1 << 40) as usize;
    }
    for leaf in 0..leaves {
        let rank = dice.roll(0, 3);
        if let Ok(elements) = IndexSet::of(boxes(dice, rank)) {
            plan.missing.push(Missing { leaf: LeafId(leaf), name: format!("x{leaf}"), elements });
        }
    }
    plan
}

/// Does all that can be done with a plan from elsewhere.
fn use_all(plan: &Plan) {
    let moved: u128 = plan.transfers.iter().map(|(_, transfer)| u128::from(transfer.moved_bytes())).sum();
    assert_eq!(u128::from(plan.moved_bytes()), moved.min(u64::MAX.into()));
    assert!(plan.to_string().contains(&format!("{} byte", plan.moved_bytes())), "{plan}");
    let picture = Picture::new(plan);
    assert!(!picture.text().is_empty() && !picture.svg().is_empty());
    let source = [1; 64];
    let mut destination = [0; 64];
    let work: Vec<_> = plan.transfers.iter().map(|(_, transfer)| (transfer, &source[..])).collect();
    let fits = |transfer: &Transfer| transfer.source_bytes() <= 64 && transfer.destination_bytes() <= 64;
    match Executor::new(2).run_all(&work, &mut destination) {
        Ok(()) => assert!(work.iter().all(|(transfer, _)| fits(transfer))),
        Err(ExecuteError::SourceLength { position, .. }) => assert!(!fits(work[position].0)),
        Err(error) => assert!(matches!(error, ExecuteError::DestinationLength { .. }), "{error}"),
    }
    for share in plan.clone().split() {
        let (packed, unpacked) = (share.transfer.pack(), share.transfer.unpack());
        assert_eq!(packed.moved_bytes(), share.transfer.moved_bytes());
        assert_eq!(unpacked.source_bytes(), packed.destination_bytes());
        if let Ok(read) = Share::decode(&share.encode()) {
            assert_eq!(read, share);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn plans_from_anywhere_are_refused_or_used_like_others(seed: u64) {
        let plan = plan(&mut Dice(seed));
        if let Ok(read) = Plan::decode(&plan.encode()) {
            prop_assert_eq!(&read, &plan);
            use_all(&read);
        }
    }
}

#[test]
fn a_plan_of_more_bytes_than_64_bits_count_says_so_and_moves_none() {
    let run = Move { from: 0, to: 0, run_bytes: i64::MAX as u64, swap_bytes: 1, axes: [].into_iter().collect() };
    let transfer = Transfer::new(vec![run]).unwrap();
    let transfers = (0..3).map(|source| (source, transfer.clone())).collect();
    let plan = Plan::decode(&Plan { transfers, ..Plan::default() }.encode()).unwrap();
    assert_eq!(plan.moved_bytes(), u64::MAX);
    use_all(&plan);
}

#[test]
fn fragments_and_schemas_from_anywhere_are_refused_or_used_like_others() {
    let text = "type Cell struct { rho float64; flux [3]float32 } var mesh [4,5]Cell var line [40]int16
        view all { var mesh = mesh } view part aligned clipped { var m [i:4,j:4]{flux} = mesh[i-1,4-j]; var l = line }
        replica complete file \"file.raw\" { skip 3; view part }";
    let schema = Program::parse(text).unwrap().bind(&Bindings::new()).unwrap();
    let wanted = schema.replica("file").unwrap().fragment.clone();
    let (fragment, whole) = (wanted.encode(), schema.encode());
    let mut read = 0;
    for seed in 0..20_000 {
        let dice = &mut Dice(seed);
        let mut bytes = if dice.one_in(2) { fragment.clone() } else { whole.clone() };
        for _ in 0..dice.roll(1, 3) {
            let at = dice.roll(0, bytes.len() as u64 - 1) as usize;
            match dice.roll(0, 3) {
                0 => bytes[at] = number(dice) as u8,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, number(dice) as u8),
                _ => bytes[at] ^= 1 << dice.roll(0, 7),
            }
        }
        let views = Schema::decode(&bytes).into_iter().flat_map(|schema| schema.views().to_vec());
        let found = Fragment::decode(&bytes).into_iter().chain(views.map(|view| view.fragment));
        for fragment in found {
            read += 1;
            let _ = fragment.with_strides(&[24, -8]);
            let source = Source { fragment: fragment.clone(), version: 0, cost: 0, readable: true };
            if let Ok(plan) = drepl::plan(&Wanted::newest(&wanted), &[source]) {
                use_all(&plan);
            }
        }
    }
    assert!(read > 1000, "{read}");
}
