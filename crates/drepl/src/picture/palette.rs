//! Colours and letters of sources.

use super::panel::Panel;

/// Light enough for dark text on them, and told apart by the colour-blind: Paul Tol's "light" scheme.
pub const COLOURS: [&str; 9] =
    ["#77aadd", "#ee8866", "#eedd88", "#44bb99", "#ffaabb", "#bbcc33", "#99ddff", "#aaaa00", "#ccaadd"];

pub const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The letter of a source. Where there are more sources, letters are used again.
pub fn letter(source: usize) -> char {
    LETTERS[source % LETTERS.len()].into()
}

/// One colour per source: of those that no touching source has, the one that is used least.
pub fn colours(sources: usize, panels: &[Panel]) -> Vec<usize> {
    let mut touching: Vec<Vec<usize>> = vec![Vec::new(); sources];
    for (a, b) in panels.iter().flat_map(Panel::touching) {
        touching[a.max(b)].push(a.min(b));
    }
    let mut colours: Vec<usize> = Vec::new();
    let mut used = [0_usize; COLOURS.len()];
    for (source, near) in touching.iter().enumerate() {
        let taken = |colour: usize| near.iter().any(|other| colours[*other] == colour);
        let free = (0..COLOURS.len()).filter(|colour| !taken(*colour)).min_by_key(|colour| used[*colour]);
        let colour = free.unwrap_or(source % COLOURS.len());
        used[colour] += 1;
        colours.push(colour);
    }
    colours
}
