//! `docs/wire.md` says what the code says.

use stillframe_wire::{Kind, bounds, hello::PROTOCOL};

const DOCUMENT: &str = include_str!("../../../../docs/wire.md");

/// The first two cells of the rows of the table under a comment, without backquotes.
fn rows(title: &str) -> Vec<(String, String)> {
    let (_, rest) = DOCUMENT.split_once(&format!("<!-- {title} -->")).expect("the document has the table");
    let lines = rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> (String, String) {
        let mut cells = line.split('|').skip(1).map(|cell| cell.trim().replace('`', ""));
        (cells.next().unwrap(), cells.next().unwrap())
    };
    lines.skip(2).map(cells).collect()
}

#[test]
fn its_kinds_are_those_of_the_code() {
    let kinds: Vec<_> = Kind::ALL.iter().map(|(kind, name)| (kind.0.to_string(), name.to_string())).collect();
    assert_eq!(rows("kinds"), kinds);
    assert!(DOCUMENT.contains(&format!("The present protocol is {PROTOCOL}.")));
}

#[test]
fn its_bounds_are_those_of_the_code() {
    let bounds = [
        ("BODY_BYTES_MAX", bounds::BODY_BYTES_MAX as u64),
        ("TEXT_BYTES_MAX", bounds::TEXT_BYTES_MAX as u64),
        ("NAME_BYTES_MAX", bounds::NAME_BYTES_MAX as u64),
        ("AXES_MAX", bounds::AXES_MAX as u64),
        ("RANKS_MAX", u64::from(bounds::RANKS_MAX)),
        ("COMPARISONS_MAX", bounds::COMPARISONS_MAX),
        ("MEMORY_FACTOR", bounds::MEMORY_FACTOR as u64),
    ];
    assert_eq!(rows("bounds"), bounds.map(|(name, bound)| (name.into(), bound.to_string())));
}

#[test]
fn its_bodies_are_all_that_are_named() {
    for (kind, name) in Kind::ALL {
        assert!(DOCUMENT.contains(&format!("| {} | `{name}` |", kind.0)));
    }
    for body in [
        "Hello",
        "ObjectReport",
        "ObjectChange",
        "ObjectDecision",
        "Subscribe",
        "Sources",
        "Piece",
        "Lost",
        "GroupRanks",
    ] {
        assert!(DOCUMENT.contains(&format!("\n| `{body}` | ")), "{body}");
    }
}
