//! Drawings as SVG.

use std::fmt::Write;

use super::{
    Picture, amount, palette,
    panel::{Axis, Panel, Patch, Plane},
    raster::{Cell, cells},
    scale::{Direction, Scale},
    text,
};
use crate::progression::Progression;

const MARGIN: f64 = 24.0;
/// Where the maps are, and what there is for numbers of rows left of them.
const MAP_LEFT: f64 = 76.0;
const MAP_WIDTH: f64 = 560.0;
const MAP_HEIGHT: f64 = 400.0;
const BAR_HEIGHT: f64 = 44.0;
const PLANE_SIDE: f64 = 150.0;
/// Between planes, with the numbers of their rows.
const PLANE_GAP: f64 = 56.0;
const PLANES_ACROSS: usize = 3;
const LEGEND_LEFT: f64 = 690.0;
const WIDTH: f64 = 960.0;
const LINE: f64 = 22.0;

/// What one place gets at most.
const PLACE_MAX: f64 = 48.0;
/// From one cut to the next, the most that there is room for.
const LEASTS: [f64; 4] = [16.0, 10.0, 5.0, 2.5];
/// Where there are too many cuts or pieces to draw each: the side of a cell.
const CELL: f64 = 4.0;
const PATCHES_MAX: usize = 3000;

const PANELS_MAX: usize = 24;
const PLANES_MAX: usize = 24;
/// Sources that a legend beside the maps has room for, and one below them.
const BESIDE_MAX: usize = 16;
const LISTED_MAX: usize = 120;
const LIST_COLUMNS: usize = 3;

const INK: &str = "#1e1e22";
const MUTED: &str = "#64646c";

/// A document that grows downwards.
struct Sheet {
    text: String,
    y: f64,
}

pub fn draw(picture: &Picture) -> String {
    let mut sheet = Sheet { text: String::new(), y: MARGIN };
    sheet.line(MARGIN, 17, INK, "bold", &text::heading(picture));
    sheet.y += 10.0;
    let top = sheet.y;
    for panel in picture.panels.iter().take(PANELS_MAX) {
        draw_panel(&mut sheet, picture, panel);
    }
    if picture.panels.len() > PANELS_MAX {
        let left_out = amount((picture.panels.len() - PANELS_MAX) as u128, "more field");
        sheet.line(MARGIN, 13, MUTED, "normal", &format!("… and {left_out} or groups of fields"));
    }
    if picture.sources.len() > BESIDE_MAX {
        draw_list(&mut sheet, picture);
    } else {
        let bottom = sheet.y;
        sheet.y = top;
        draw_legend(&mut sheet, picture);
        sheet.y = sheet.y.max(bottom);
    }
    let height = sheet.y + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {WIDTH} {height:.0}\" font-family=\"Helvetica, Arial, 'Liberation Sans', sans-serif\">\n\
         <title>{}</title>\n\
         <defs><pattern id=\"missing\" width=\"8\" height=\"8\" patternUnits=\"userSpaceOnUse\" \
         patternTransform=\"rotate(45)\"><rect width=\"8\" height=\"8\" fill=\"#fff\"/>\
         <rect width=\"3\" height=\"8\" fill=\"#c0392b\"/></pattern>\n\
         <pattern id=\"several\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">\
         <rect width=\"6\" height=\"6\" fill=\"#ccc\"/><rect width=\"3\" height=\"3\" fill=\"#777\"/>\
         <rect x=\"3\" y=\"3\" width=\"3\" height=\"3\" fill=\"#777\"/></pattern></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
        escape(&text::heading(picture)),
        sheet.text,
    )
}

fn draw_panel(sheet: &mut Sheet, picture: &Picture, panel: &Panel) {
    sheet.line(MARGIN, 14, INK, "bold", &shorten(&panel.heading(), 78));
    sheet.y += 6.0;
    let (rows, columns) = panel.map_axes();
    let alone = panel.planes.len() == 1;
    let most = if alone { (MAP_HEIGHT, MAP_WIDTH) } else { (PLANE_SIDE, PLANE_SIDE) };
    let (height, width) = size(rows, columns, most, panel.pieces.len() == 1);
    let down = Scale::new(rows, &panel.planes, Direction::Down, height, &LEASTS);
    let right = Scale::new(columns, &panel.planes, Direction::Right, width, &LEASTS);
    let shown = &panel.planes[..panel.planes.len().min(PLANES_MAX)];
    for row in shown.chunks(if alone { 1 } else { PLANES_ACROSS }) {
        if !row[0].label.is_empty() {
            for (place, plane) in row.iter().enumerate() {
                let label = shorten(&format!("[{}, …]", plane.label), 28);
                sheet.text_at(plane_left(place), sheet.y + 12.0, 12, INK, "start", &label);
            }
            sheet.y += 18.0;
        }
        if columns.is_some() {
            sheet.y += 16.0;
        }
        for (place, plane) in row.iter().enumerate() {
            let origin = (plane_left(place), sheet.y);
            draw_plane(sheet, picture, plane, origin, (rows, &down), (columns, &right));
        }
        sheet.y += height + 10.0;
    }
    let left_out = panel.planes.len().saturating_sub(PLANES_MAX) + panel.planes_left_out;
    if left_out > 0 {
        sheet.line(MAP_LEFT, 12, MUTED, "normal", &format!("… and {}", amount(left_out as u128, "more plane")));
    }
    let mut notes = Vec::new();
    if let (Some(rows), Some(columns)) = (rows, columns) {
        notes.push(format!("index {} downwards, index {} to the right", rows.number, columns.number));
    }
    if !(down.is_even && right.is_even) {
        notes.push("narrow parts are drawn wider than they are".into());
    }
    if !(down.is_exact && right.is_exact) {
        notes.push("grey cells are of several sources".into());
    }
    notes.extend(text::cropped(rows, &down));
    notes.extend(text::cropped(columns, &right));
    if !notes.is_empty() {
        sheet.line(MAP_LEFT, 11, MUTED, "normal", &notes.join("; "));
    }
    sheet.y += 16.0;
}

fn plane_left(place: usize) -> f64 {
    MAP_LEFT + place as f64 * (PLANE_SIDE + PLANE_GAP)
}

/// Height and width of a map: as its places have them, if neither side is too short to be seen.
fn size(rows: Option<&Axis>, columns: Option<&Axis>, (height, width): (f64, f64), is_plain: bool) -> (f64, f64) {
    let least = height.min(120.0);
    let height = if is_plain { height / 3.0 } else { height };
    match (rows, columns) {
        (_, None) => (BAR_HEIGHT, BAR_HEIGHT),
        (None, Some(columns)) => (BAR_HEIGHT, width.min(columns.count as f64 * PLACE_MAX).max(least)),
        (Some(rows), Some(columns)) => {
            let (rows, columns) = (rows.count as f64, columns.count as f64);
            let place = (height / rows).min(width / columns).min(PLACE_MAX);
            ((rows * place).max(least).min(height), (columns * place).max(least).min(width))
        }
    }
}

fn draw_plane(
    sheet: &mut Sheet,
    picture: &Picture,
    plane: &Plane,
    origin: (f64, f64),
    (rows, down): (Option<&Axis>, &Scale),
    (columns, right): (Option<&Axis>, &Scale),
) {
    let _ = writeln!(sheet.text, "<g transform=\"translate({:.1} {:.1})\">", origin.0, origin.1);
    if down.is_exact && right.is_exact && plane.patches.len() <= PATCHES_MAX {
        for patch in &plane.patches {
            draw_patch(sheet, picture, patch, down, right);
        }
        draw_grid(sheet, (rows, down), (columns, right));
        // Names last, so that nothing covers them.
        for patch in &plane.patches {
            draw_name(sheet, picture, patch, down, right);
        }
    } else {
        draw_cells(sheet, picture, plane, down, right);
    }
    if let Some(axis) = columns {
        draw_ruler(sheet, axis, right, Direction::Right);
    }
    if let Some(axis) = rows {
        draw_ruler(sheet, axis, down, Direction::Down);
    }
    sheet.text.push_str("</g>\n");
}

fn fill(picture: &Picture, source: Option<usize>) -> &'static str {
    source.map_or("url(#missing)", |source| palette::COLOURS[picture.sources[source].colour])
}

fn draw_patch(sheet: &mut Sheet, picture: &Picture, patch: &Patch, down: &Scale, right: &Scale) {
    let mut path = String::new();
    for (top, bottom) in spans(&patch.rows, down) {
        for (left, end) in spans(&patch.columns, right) {
            let _ = write!(path, "M{left:.1} {top:.1}H{end:.1}V{bottom:.1}H{left:.1}Z");
        }
    }
    let fill = fill(picture, patch.source);
    let name = patch.source.map_or("missing", |source| &picture.sources[source].name);
    let title = escape(name);
    let _ = writeln!(
        sheet.text,
        "<path d=\"{path}\" fill=\"{fill}\" stroke=\"#fff\" stroke-width=\"1\"><title>{title}</title></path>"
    );
}

/// Where places are drawn; those without a gap are one span.
fn spans(places: &Progression, scale: &Scale) -> Vec<(f64, f64)> {
    let Some(places) = places.clip(0, scale.shown()) else { return Vec::new() };
    if places.step() == 1 {
        return vec![(scale.at(places.start()), scale.at(places.end()))];
    }
    places.iter().map(|place| (scale.at(place), scale.at(place + 1))).collect()
}

/// The elements, where there are few enough to see them.
fn draw_grid(sheet: &mut Sheet, down: (Option<&Axis>, &Scale), right: (Option<&Axis>, &Scale)) {
    let mut path = String::new();
    let (height, width) = (down.1.length(), right.1.length());
    let mut lines = |axis: Option<&Axis>, scale: &Scale, line: &dyn Fn(f64) -> String| {
        let Some(_) = axis.filter(|axis| scale.length() / axis.count.min(scale.shown()) as f64 >= 8.0) else { return };
        (1..scale.shown()).for_each(|place| path.push_str(&line(scale.at(place))));
    };
    lines(down.0, down.1, &|y| format!("M0 {y:.1}H{width:.1}"));
    lines(right.0, right.1, &|x| format!("M{x:.1} 0V{height:.1}"));
    if !path.is_empty() {
        let _ = writeln!(sheet.text, "<path d=\"{path}\" stroke=\"#fff\" stroke-opacity=\"0.45\" fill=\"none\"/>");
    }
}

/// The name of the source, if it fits into what it gives.
fn draw_name(sheet: &mut Sheet, picture: &Picture, patch: &Patch, down: &Scale, right: &Scale) {
    if patch.rows.step() > 1 || patch.columns.step() > 1 {
        return;
    }
    let name = patch.source.map_or("missing", |source| &picture.sources[source].name).to_owned();
    let number = patch.source.and_then(|source| number(picture, source));
    let Some(patch) = patch.within(down.shown(), right.shown()) else { return };
    let (top, bottom) = (down.at(patch.rows.start()), down.at(patch.rows.end()));
    let (left, end) = (right.at(patch.columns.start()), right.at(patch.columns.end()));
    let fitting = [Some(name), number].into_iter().flatten().find_map(|name| {
        let (size, turn) = fitting(&name, end - left, bottom - top)?;
        Some((name, size, turn))
    });
    let Some((name, size, turn)) = fitting else { return };
    let (x, y) = ((left + end) / 2.0, (top + bottom) / 2.0);
    // What is hatched would run through the letters.
    let halo = if patch.source.is_none() { " stroke=\"#fff\" stroke-width=\"4\" paint-order=\"stroke\"" } else { "" };
    let _ = writeln!(
        sheet.text,
        "<text transform=\"translate({x:.1} {y:.1}) {turn}\" dy=\"0.35em\" font-size=\"{size}\" fill=\"{INK}\" \
         text-anchor=\"middle\"{halo}>{}</text>",
        escape(&name)
    );
}

/// Size and direction in which a name fits into a width and a height.
fn fitting(name: &str, width: f64, height: f64) -> Option<(f64, &'static str)> {
    let letters = name.chars().count() as f64;
    let fits = |size: f64, along: f64, across: f64| letters * size * 0.56 + 6.0 <= along && size + 2.0 <= across;
    let largest = |along: f64, across: f64| [13.0, 11.0, 9.0].into_iter().find(|size| fits(*size, along, across));
    let flat = largest(width, height).map(|size| (size, ""));
    flat.or_else(|| largest(height, width).map(|size| (size, "rotate(-90)")))
}

/// A plane of more than can be told apart: cells of a few pixels, which say where several sources give something.
fn draw_cells(sheet: &mut Sheet, picture: &Picture, plane: &Plane, down: &Scale, right: &Scale) {
    let cells = cells(plane, &down.in_cells(CELL), &right.in_cells(CELL));
    let mut paths: Vec<(Cell, String)> = Vec::new();
    for (row, line) in cells.iter().enumerate() {
        let mut column = 0;
        for run in line.chunk_by(|a, b| a == b) {
            if run[0] != Cell::Nothing {
                let place = paths.iter().position(|path| path.0 == run[0]).unwrap_or_else(|| {
                    paths.push((run[0], String::new()));
                    paths.len() - 1
                });
                let (x, y, width) = (column as f64 * CELL, row as f64 * CELL, run.len() as f64 * CELL);
                let _ = write!(paths[place].1, "M{x} {y}h{width}v{CELL}h-{width}z");
            }
            column += run.len();
        }
    }
    for (cell, path) in paths {
        let fill = match cell {
            Cell::One(source) => fill(picture, source),
            _ => "url(#several)",
        };
        let _ = writeln!(sheet.text, "<path d=\"{path}\" fill=\"{fill}\"/>");
    }
}

/// Marks at the cuts, and indices where they fit.
fn draw_ruler(sheet: &mut Sheet, axis: &Axis, scale: &Scale, direction: Direction) {
    let mut free = f64::NEG_INFINITY;
    let last = scale.cuts.len() - 1;
    for (number, (cut, at)) in scale.cuts.iter().zip(&scale.marks).enumerate() {
        // An index behind the last one is none where indices have steps.
        if number == last && axis.step > 1 && *cut == axis.count {
            continue;
        }
        let label = axis.index(*cut).to_string();
        let room = match direction {
            Direction::Down => 12.0,
            Direction::Right => label.len() as f64 * 6.4 + 6.0,
        };
        let (x1, y1, x2, y2) = match direction {
            Direction::Down => (-5.0, *at, 0.0, *at),
            Direction::Right => (*at, -5.0, *at, 0.0),
        };
        let _ = writeln!(
            sheet.text,
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{MUTED}\"/>"
        );
        if *at - room / 2.0 < free {
            continue;
        }
        free = *at + room / 2.0;
        match direction {
            Direction::Down => sheet.text_at(-8.0, *at + 4.0, 11, MUTED, "end", &label),
            Direction::Right => sheet.text_at(*at, -8.0, 11, MUTED, "middle", &label),
        }
    }
}

/// Colours, names and amounts, beside the maps.
fn draw_legend(sheet: &mut Sheet, picture: &Picture) {
    for (fill, name, amount) in entries(picture) {
        draw_key(sheet, LEGEND_LEFT, sheet.y, 28.0, fill);
        let left = LEGEND_LEFT + 26.0;
        sheet.text_at(left, sheet.y + 11.0, 13, INK, "start", &shorten(&name, 32));
        sheet.text_at(left, sheet.y + 26.0, 11, MUTED, "start", &amount);
        sheet.y += 38.0;
    }
}

/// The same below them, in columns.
fn draw_list(sheet: &mut Sheet, picture: &Picture) {
    let entries: Vec<_> = entries(picture).take(LISTED_MAX).collect();
    let rows = entries.len().div_ceil(LIST_COLUMNS);
    for (number, (fill, name, amount)) in entries.iter().enumerate() {
        let left = MARGIN + (number / rows) as f64 * (WIDTH - 2.0 * MARGIN) / LIST_COLUMNS as f64;
        let y = sheet.y + (number % rows) as f64 * 17.0;
        draw_key(sheet, left, y, 13.0, fill);
        sheet.text_at(left + 26.0, y + 11.0, 11, INK, "start", &shorten(&format!("{name}, {amount}"), 46));
    }
    sheet.y += rows as f64 * 17.0;
    if picture.sources.len() > LISTED_MAX {
        let left_out = amount((picture.sources.len() - LISTED_MAX) as u128, "more source");
        sheet.line(MARGIN, 12, MUTED, "normal", &format!("… and {left_out}"));
    }
}

fn draw_key(sheet: &mut Sheet, x: f64, y: f64, height: f64, fill: &str) {
    let _ = writeln!(
        sheet.text,
        "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"18\" height=\"{height}\" fill=\"{fill}\" stroke=\"#888\" \
         stroke-width=\"0.5\"/>"
    );
}

/// What the legend says: first what is missing, then the sources, with numbers where colours do not tell them apart.
fn entries(picture: &Picture) -> impl Iterator<Item = (&'static str, String, String)> {
    let missing = (picture.missing_elements > 0)
        .then(|| (fill(picture, None), "missing".to_owned(), amount(picture.missing_elements, "element")));
    let sources = picture.sources.iter().enumerate().map(|(position, source)| {
        let amount = format!("{}, {}", amount(source.elements, "element"), amount(source.bytes.into(), "byte"));
        let name = match number(picture, position) {
            Some(number) => format!("{number}: {}", source.name),
            None => source.name.clone(),
        };
        (fill(picture, Some(position)), name, amount)
    });
    missing.into_iter().chain(sources)
}

/// What stands for a name that does not fit.
fn number(picture: &Picture, source: usize) -> Option<String> {
    (picture.sources.len() > palette::COLOURS.len()).then(|| (source + 1).to_string())
}

impl Sheet {
    /// A line of text at the bottom.
    fn line(&mut self, x: f64, size: u32, colour: &str, weight: &str, text: &str) {
        let y = self.y + f64::from(size);
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" font-weight=\"{weight}\">{}</text>",
            escape(text)
        );
        self.y += LINE;
    }

    fn text_at(&mut self, x: f64, y: f64, size: u32, colour: &str, anchor: &str, text: &str) {
        let _ = writeln!(
            self.text,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" fill=\"{colour}\" text-anchor=\"{anchor}\">{}</text>",
            escape(text)
        );
    }
}

/// Text between tags. What no document may hold is left out: names come from other programs.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => {}
            letter if letter.is_control() => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

fn shorten(text: &str, letters: usize) -> String {
    if text.chars().count() <= letters {
        return text.to_owned();
    }
    text.chars().take(letters - 1).chain(['…']).collect()
}
