//! Drawings in characters.

use std::fmt::Write;

use super::{
    Picture, amount, palette,
    panel::{Axis, Panel, Plane},
    raster::{Cell, cells},
    scale::{Direction, Scale},
};

const COLUMNS: f64 = 72.0;
const ROWS: f64 = 20.0;
/// Of planes that stand beside each other.
const PLANE_COLUMNS: f64 = 24.0;
const PLANE_ROWS: f64 = 12.0;
const LINE_COLUMNS: usize = 100;

const PANELS_MAX: usize = 16;
const PLANES_MAX: usize = 24;
/// Pieces that are listed below a panel.
const LISTED_MAX: usize = 100;

/// What no source has.
const MISSING: char = '/';
/// Several sources in one character.
const SEVERAL: char = '+';

pub fn draw(picture: &Picture) -> String {
    let mut text = heading(picture);
    text.push('\n');
    if picture.sources.len() > palette::LETTERS.len() {
        let _ = writeln!(text, "after {} sources, letters are used again", palette::LETTERS.len());
    }
    for panel in picture.panels.iter().take(PANELS_MAX) {
        text.push('\n');
        draw_panel(picture, panel, &mut text);
    }
    if picture.panels.len() > PANELS_MAX {
        let _ = writeln!(text, "\n… and {} fields more, which come from elsewhere", picture.panels.len() - PANELS_MAX);
    }
    text
}

/// `halo: 612 elements from 9 sources, 34 missing`.
pub fn heading(picture: &Picture) -> String {
    let mut text = String::new();
    if !picture.title.is_empty() {
        let _ = write!(text, "{}: ", picture.title);
    }
    let elements = amount(picture.elements(), "element");
    let sources = amount(picture.sources.len() as u128, "source");
    let _ = write!(text, "{elements} from {sources}");
    if picture.missing_elements > 0 {
        let _ = write!(text, ", {} missing", picture.missing_elements);
    }
    text
}

fn draw_panel(picture: &Picture, panel: &Panel, text: &mut String) {
    let _ = writeln!(text, "{}", panel.heading());
    text.push('\n');
    let alone = panel.planes.len() == 1;
    let (rows, columns) = panel.map_axes();
    let (rows_max, columns_max) = match (alone, panel.pieces.len()) {
        // All of it is one letter.
        (true, 1) => (4.0, COLUMNS),
        (true, _) => (ROWS, COLUMNS),
        _ => (PLANE_ROWS, PLANE_COLUMNS),
    };
    let down = Scale::new(rows, &panel.planes, Direction::Down, length(rows, rows_max, 6.0), &[1.0]).rounded();
    let right =
        Scale::new(columns, &panel.planes, Direction::Right, length(columns, columns_max, 32.0), &[1.0]).rounded();
    let blocks: Vec<Vec<String>> =
        panel.planes.iter().take(PLANES_MAX).map(|plane| block(plane, (rows, &down), (columns, &right))).collect();
    write_beside(&blocks, text);
    let left_out = panel.planes.len().saturating_sub(PLANES_MAX) + panel.planes_left_out;
    if left_out > 0 {
        let _ = writeln!(text, "… and {} more\n", amount(left_out as u128, "plane"));
    }
    if blocks.iter().flatten().any(|line| line.contains(SEVERAL)) {
        let _ = writeln!(text, "{SEVERAL}  several sources");
    }
    for note in text_notes(rows, &down, columns, &right) {
        let _ = writeln!(text, "{note}");
    }
    list(picture, panel, text);
}

fn text_notes(rows: Option<&Axis>, down: &Scale, columns: Option<&Axis>, right: &Scale) -> Vec<String> {
    let mut notes: Vec<String> = cropped(rows, down).into_iter().chain(cropped(columns, right)).collect();
    if !notes.is_empty() {
        notes.push(String::new());
    }
    notes
}

/// What is said where the beginning of an axis is drawn alone.
pub fn cropped(axis: Option<&Axis>, scale: &Scale) -> Option<String> {
    let axis = axis.filter(|axis| scale.shown() < axis.count)?;
    Some(format!("of index {}, the first {} of {} places are drawn", axis.number, scale.shown(), axis.count))
}

/// The characters an axis gets: several per place where there are few.
fn length(axis: Option<&Axis>, most: f64, enough: f64) -> f64 {
    let count = axis.map_or(1.0, |axis| axis.count as f64);
    if axis.is_none() {
        1.0
    } else if count >= most {
        most
    } else {
        count * (enough.min(most) / count).floor().clamp(1.0, 8.0)
    }
}

/// A plane with its indices, as lines of one length.
fn block(plane: &Plane, down: (Option<&Axis>, &Scale), right: (Option<&Axis>, &Scale)) -> Vec<String> {
    let cells = cells(plane, down.1, right.1);
    let mut labels = vec![String::new(); cells.len()];
    if let (Some(axis), scale) = down {
        let cuts = scale.cuts.iter().zip(&scale.marks);
        for (cut, mark) in cuts.take(scale.cuts.len() - 1) {
            labels[*mark as usize] = axis.index(*cut).to_string();
        }
    }
    let margin = labels.iter().map(String::len).max().unwrap_or(0);
    let mut lines = Vec::new();
    if !plane.label.is_empty() {
        lines.push(format!("{:margin$}  [{}, …]", "", plane.label));
    }
    if let (Some(axis), scale) = right {
        let (numbers, marks) = ruler(axis, scale);
        lines.extend([numbers, marks].map(|line| format!("{:margin$}  {line}", "")));
    }
    for (label, row) in labels.iter().zip(cells) {
        lines.push(format!("{label:>margin$}  {}", row.into_iter().map(letter).collect::<String>()));
    }
    lines
}

/// Indices above a map, where they fit, and a mark at each cut.
fn ruler(axis: &Axis, scale: &Scale) -> (String, String) {
    let (mut numbers, mut marks) = (String::new(), String::new());
    for (cut, mark) in scale.cuts.iter().zip(&scale.marks) {
        let mark = *mark as usize;
        // An index behind the last one is none where indices have steps.
        if *cut == axis.count && axis.step > 1 {
            continue;
        }
        marks = format!("{marks:<mark$}|");
        if numbers.is_empty() || numbers.len() < mark {
            numbers = format!("{numbers:<mark$}{}", axis.index(*cut));
        }
    }
    (numbers, marks)
}

fn letter(cell: Cell) -> char {
    match cell {
        Cell::Nothing => ' ',
        Cell::One(source) => source.map_or(MISSING, palette::letter),
        Cell::Several => SEVERAL,
    }
}

/// Blocks beside each other, as many as fit a line.
fn write_beside(blocks: &[Vec<String>], text: &mut String) {
    let width = |block: &Vec<String>| block.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let widest = blocks.iter().map(width).max().unwrap_or(0) + 3;
    for row in blocks.chunks((LINE_COLUMNS / widest).max(1)) {
        for line in 0..row.iter().map(Vec::len).max().unwrap_or(0) {
            let cells = row.iter().map(|block| format!("{:<widest$}", block.get(line).map_or("", |line| line)));
            let whole: String = cells.collect();
            let _ = writeln!(text, "{}", whole.trim_end());
        }
        text.push('\n');
    }
}

/// Letters, names and ranges of the pieces.
fn list(picture: &Picture, panel: &Panel, text: &mut String) {
    let rows = panel.pieces.iter().take(LISTED_MAX).map(|piece| {
        let (letter, name) = match piece.source {
            Some(source) => (palette::letter(source), &*picture.sources[source].name),
            None => (MISSING, "missing"),
        };
        let range = if piece.elements.rank() == 0 { String::new() } else { format!("[{}]", piece.elements) };
        (letter, name, range, amount(piece.elements.count().into(), "element"))
    });
    let rows: Vec<_> = rows.collect();
    let names = rows.iter().map(|row| row.1.chars().count()).max().unwrap_or(0);
    let ranges = rows.iter().map(|row| row.2.len()).max().unwrap_or(0);
    for (letter, name, range, count) in rows {
        let _ = writeln!(text, "{letter}  {name:<names$}  {range:<ranges$}  {count}");
    }
    if panel.pieces.len() > LISTED_MAX {
        let _ = writeln!(text, "… and {} more", amount((panel.pieces.len() - LISTED_MAX) as u128, "piece"));
    }
}
