//! The table of address ranges against a plain list of whose each address is.

use table::Ranges;

#[path = "../../src/ranges.rs"]
mod table;

#[test]
fn each_address_belongs_to_whom_it_was_given_last() {
    const ADDRESSES: usize = 64;
    let mut number = 1u64;
    let mut below = |limit: usize| {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (number >> 33) as usize % limit
    };
    let mut ranges = Ranges::new();
    let mut owners: Vec<Option<usize>> = vec![None; ADDRESSES];
    for value in 0..20_000 {
        let start = below(ADDRESSES);
        let end = start + below(ADDRESSES - start + 1);
        if below(2) == 0 {
            ranges.insert(start, end, value);
            owners[start..end].fill(Some(value));
        } else {
            let mut removed = ranges.remove(start, end);
            let mut expected: Vec<usize> = owners[start..end].iter().copied().flatten().collect();
            for values in [&mut removed, &mut expected] {
                values.sort_unstable();
                values.dedup();
            }
            assert_eq!(removed, expected);
            owners[start..end].fill(None);
        }
        let (from, to) = (below(ADDRESSES), below(ADDRESSES + 1));
        let found = ranges.overlapping(from, to.max(from));
        assert_eq!(ranges.has_any(from, to.max(from)), !found.is_empty());
        for (address, owner) in owners.iter().enumerate().take(to).skip(from) {
            let of = found.iter().find(|(start, end, _)| (*start..*end).contains(&address));
            assert_eq!(of.map(|(_, _, value)| *value), *owner, "address {address}");
        }
        assert_eq!(ranges.any(|owner| *owner == value), owners.contains(&Some(value)));
        let first = owners.iter().position(Option::is_some);
        let last = owners.iter().rposition(Option::is_some);
        assert_eq!(ranges.bounds(), first.zip(last).map(|(first, last)| (first, last + 1)));
    }
}
