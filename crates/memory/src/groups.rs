//! Control groups (version 2) that a process is in, and what they leave it.

use crate::files::{Room, Short, number};
use std::ffi::CStr;

/// Where groups are mounted: alone, or beside those of the first version.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// What is left to the process's group and to those that it is in, where one bounds them. Batch systems bound one further up.
/// The arguments: names of the files that say how much there may be, and how much there is.
pub fn left(most: &str, now: &str) -> Option<usize> {
    let own = Short::read(c"/proc/self/cgroup")?;
    let path = own.after("0::")?;
    let ends = (0..=path.len()).filter(|end| *end == path.len() || path[*end] == b'/');
    ends.flat_map(|end| ROOTS.map(|root| left_of(root, &path[..end], most, now))).flatten().min()
}

/// What is left to one group.
fn left_of(root: &str, group: &[u8], most: &str, now: &str) -> Option<usize> {
    let of = |file: &str| {
        let mut room = Room::new()?;
        let place = room.all_mut();
        let mut used = 0;
        for part in [root.as_bytes(), group, b"/", file.as_bytes()] {
            place.get_mut(used..used + part.len())?.copy_from_slice(part);
            used += part.len();
        }
        place.get(used)?;
        let text = Short::read(CStr::from_bytes_until_nul(place).ok()?)?;
        number(text.bytes())
    };
    Some(of(most)?.saturating_sub(of(now)?))
}
