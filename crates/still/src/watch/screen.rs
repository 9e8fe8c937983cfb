//! The screen: all regions above, the chosen one in detail below.

use super::frame::{COLUMNS, describe, describe_holder, describe_memory};
use super::history::{Curves, History};
use super::sample::{RegionSample, Sample};
use super::traffic::{self, NodeSample};
use crate::units;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, RenderDirection, Row, Sparkline, Table, TableState};
use std::collections::VecDeque;
use std::path::Path;
use std::time::Duration;

const ACCENT: Color = Color::Cyan;
const ALARM: Color = Color::Red;
/// Blanks between two columns of the list.
const GAP: usize = 2;

/// What is shown and what was chosen.
pub struct Screen {
    title: String,
    interval: Duration,
    sample: Option<Sample>,
    history: History,
    chosen: Option<String>,
    paused: bool,
}

impl Screen {
    /// A screen that has seen nothing yet.
    pub fn new(dir: &Path, interval: Duration) -> Screen {
        let title = dir.display().to_string();
        Screen { title, interval, sample: None, history: History::default(), chosen: None, paused: false }
    }

    /// Takes note of a look. While the screen is paused it goes on counting but shows the old one.
    pub fn update(&mut self, sample: Sample) {
        self.history.add(&sample);
        if !self.paused {
            self.sample = Some(sample);
        }
    }

    /// Moves the choice by so many regions.
    pub fn choose(&mut self, by: isize) {
        let place = self.place().saturating_add_signed(by);
        if let Some(sample) = &self.sample {
            let last = sample.regions.len().saturating_sub(1);
            self.chosen = sample.regions.get(place.min(last)).map(|region| region.name.clone());
        }
    }

    /// Stops and resumes showing what is new.
    pub fn pause(&mut self) {
        self.paused = !self.paused;
    }

    /// Place of the chosen region; the first when it is gone or none was chosen.
    fn place(&self) -> usize {
        let (Some(sample), Some(chosen)) = (&self.sample, &self.chosen) else { return 0 };
        sample.regions.iter().position(|region| region.name == *chosen).unwrap_or(0)
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame) {
        let regions = self.sample.as_ref().map(|sample| sample.regions.as_slice()).unwrap_or_default();
        // The list leaves at least half of the screen to the chosen region.
        let list = (regions.len() as u16 + 2).min(frame.area().height / 2).max(3);
        let nodes = self.sample.as_ref().map(|sample| sample.nodes.as_slice()).unwrap_or_default();
        let nodes_height = if nodes.is_empty() { 0 } else { (nodes.len() as u16 + 2).min(frame.area().height / 4) };
        let [head, list, detail, others, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(list),
            Constraint::Min(0),
            Constraint::Length(nodes_height),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let count = units::count(regions.len(), "region");
        frame
            .render_widget(Line::from(vec![" still watch ".bold(), format!(" {count} in {}", self.title).dim()]), head);
        self.draw_list(frame, list, regions);
        match regions.get(self.place()) {
            Some(region) => {
                let now_ns = self.sample.as_ref().map_or(0, |sample| sample.time_ns);
                draw_region(frame, detail, region, &self.history.of(&region.name), now_ns)
            }
            None => {
                let text = "no regions here yet: start a producer";
                frame.render_widget(Paragraph::new(text).alignment(Alignment::Center).dim(), detail);
            }
        }
        draw_nodes(frame, others, nodes);
        let interval = units::format_ms(self.interval.as_secs_f64() * 1e3);
        let mut keys =
            vec![" q".bold(), " quit  ".dim(), "↑↓".bold(), " region  ".dim(), "space".bold(), " pause  ".dim()];
        keys.push(format!("every {interval}").dim());
        if self.paused {
            keys.push("  paused".fg(ALARM).bold());
        }
        frame.render_widget(Line::from(keys), foot);
    }

    fn draw_list(&self, frame: &mut Frame, area: Rect, regions: &[RegionSample]) {
        let texts: Vec<[String; COLUMNS.len()]> = regions.iter().map(describe).collect();
        let columns = fit_columns(&texts, area.width as usize);
        let align = |place: usize| if COLUMNS[place].1 { Alignment::Right } else { Alignment::Left };
        let cell =
            |(place, _): &(usize, usize), text: &str| Cell::from(Line::from(text.to_string()).alignment(align(*place)));
        let heading = columns.iter().map(|column| cell(column, COLUMNS[column.0].0));
        let rows = regions.iter().zip(&texts).map(|(region, texts)| {
            let style = match region.state_of_producer() {
                "waiting" | "skipping" => Style::new().fg(ALARM),
                "live" => Style::new(),
                "unreadable" => Style::new().fg(ALARM),
                _ => Style::new().add_modifier(Modifier::DIM),
            };
            Row::new(columns.iter().map(|column| cell(column, &texts[column.0]))).style(style)
        });
        let widths = columns.iter().map(|(place, width)| match place {
            0 => Constraint::Min(*width as u16),
            _ => Constraint::Length(*width as u16),
        });
        let table = Table::new(rows, widths)
            .header(Row::new(heading).style(Style::new().fg(ACCENT)))
            .column_spacing(GAP as u16)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected((!regions.is_empty()).then(|| self.place()));
        frame.render_stateful_widget(table, area, &mut state);
    }
}

/// The nodes of the job, and what goes between this one and each of them.
fn draw_nodes(frame: &mut Frame, area: Rect, nodes: &[NodeSample]) {
    let cell = |place: usize, text: &str| {
        let align = if traffic::COLUMNS[place].1 { Alignment::Right } else { Alignment::Left };
        Cell::from(Line::from(text.to_string()).alignment(align))
    };
    let heading = traffic::COLUMNS.iter().enumerate().map(|(place, (name, _))| cell(place, name));
    let rows = nodes.iter().map(|node| {
        let style = if node.is_own || node.is_connected { Style::new() } else { Style::new().fg(ALARM) };
        Row::new(traffic::describe(node).iter().enumerate().map(|(place, text)| cell(place, text))).style(style)
    });
    let widths = [
        Constraint::Length(5),
        Constraint::Min(8),
        Constraint::Length(9),
        Constraint::Length(12),
        Constraint::Length(12),
    ];
    let table = Table::new(rows, widths)
        .header(Row::new(heading).style(Style::new().fg(ACCENT)))
        .column_spacing(GAP as u16)
        .block(Block::new().borders(Borders::TOP).border_style(Style::new().add_modifier(Modifier::DIM)));
    frame.render_widget(table, area);
}

/// The columns of the list that fit beside each other, each with its width. In a narrow terminal the less telling ones
/// are left out.
fn fit_columns(texts: &[[String; COLUMNS.len()]], width: usize) -> Vec<(usize, usize)> {
    let widest = |place: usize| {
        let texts = texts.iter().map(|row| row[place].chars().count());
        // A little more than needed, so that columns do not wander with every digit.
        texts.max().unwrap_or(0).max(COLUMNS[place].0.len()).max(if place == 0 { 0 } else { 8 })
    };
    let mut columns: Vec<(usize, usize)> = (0..COLUMNS.len()).map(|place| (place, widest(place))).collect();
    for expendable in ["COPIED", "PUBLISH", "MEMORY", "DIRTY", "STATE", "HOLDERS", "RATE"] {
        if columns.iter().map(|column| column.1 + GAP).sum::<usize>() <= width + GAP {
            break;
        }
        columns.retain(|column| COLUMNS[column.0].0 != expendable);
    }
    columns
}

fn draw_region(frame: &mut Frame, area: Rect, region: &RegionSample, curves: &Curves, now_ns: u64) {
    let mut title = vec![Span::from(format!(" {} ", crate::table::sanitize(&region.name))).bold()];
    let state = region.state_of_producer();
    title.push(Span::from(format!("{state} ")).fg(if state == "live" { Color::Green } else { ALARM }));
    if let Some(pid) = region.producer_pid {
        title.push(Span::from(format!("producer {pid} ")));
    }
    if let Some(tracker) = &region.tracker {
        title.push(Span::from(format!("tracker {tracker} ")));
    }
    if let Some(skipped) = region.skipped.filter(|skipped| *skipped > 0) {
        title.push(Span::from(format!("{skipped} skipped ")).fg(ALARM));
    }
    let block = Block::new().borders(Borders::TOP).title(Line::from(title));
    let inner = block.inner(area);
    frame.render_widget(block, area);

    let planes = region.planes.len() as u16 + 1;
    let note = region.want.note(now_ns);
    let [noted, graphs, memory, holders] = Layout::vertical([
        Constraint::Length(u16::from(note.is_some())),
        Constraint::Length(if inner.height >= 16 { 6 } else { 4 }),
        Constraint::Length(planes.min(inner.height.saturating_sub(8)).max(1)),
        Constraint::Min(2),
    ])
    .areas(inner);
    frame.render_widget(Line::from(note.unwrap_or_default().fg(ALARM)), noted);
    let thirds = Layout::horizontal([Constraint::Fill(1); 3]).spacing(2).areas::<3>(graphs);
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let rate = or_dash(region.publish_rate_hz.map(units::format_rate));
    draw_curve(frame, thirds[0], "publish rate", rate, &curves.publish_rate_hz, units::format_rate);
    let dirty = or_dash(region.dirty_share.map(units::format_share));
    draw_curve(frame, thirds[1], "dirty", dirty, &curves.dirty_share, units::format_share);
    let time = or_dash(region.publish_ms.map(units::format_ms));
    draw_curve(frame, thirds[2], "publish time", time, &curves.publish_ms, units::format_ms);
    draw_memory(frame, memory, region);
    draw_holders(frame, holders, region);
}

fn draw_curve(
    frame: &mut Frame,
    area: Rect,
    name: &str,
    now: String,
    curve: &VecDeque<f64>,
    format: impl Fn(f64) -> String,
) {
    let shown = curve.iter().take(area.width as usize);
    let highest = shown.clone().fold(0.0, |highest: f64, value| highest.max(*value));
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(area);
    let top = if highest > 0.0 { format!("  at most {}", format(highest)) } else { String::new() };
    frame.render_widget(Line::from(vec![name.fg(ACCENT), format!(" {now}").bold(), top.dim()]), head);
    // Curves begin at zero, so that heights can be compared; a share of one fills the box only when all is dirty.
    let bars = shown.map(|value| if highest > 0.0 { (value / highest * 1000.0) as u64 } else { 0 });
    let sparkline = Sparkline::default()
        .data(bars)
        .max(1000)
        .direction(RenderDirection::RightToLeft)
        .style(Style::new().fg(ACCENT));
    frame.render_widget(sparkline, body);
}

fn draw_memory(frame: &mut Frame, area: Rect, region: &RegionSample) {
    let mut lines =
        vec![Line::from(vec!["memory".fg(ACCENT), describe_memory(region)["memory".len()..].to_string().into()])];
    // Bars compare planes with each other; how much of the bound is used stands above them.
    let whole = region.planes.iter().map(|plane| plane.allocated_bytes).max().unwrap_or(0).max(1);
    let width = area.width.saturating_sub(26) as f64;
    let room = area.height.saturating_sub(1) as usize;
    for (place, plane) in region.planes.iter().take(room).enumerate() {
        let left = region.planes.len() - place;
        if place + 1 == room && left > 1 {
            lines.push(Line::from(format!("  and {left} planes more")).dim());
            break;
        }
        let cells = (plane.allocated_bytes as f64 / whole as f64 * width).round() as usize;
        let label = format!("  plane {:<3} {:>9}  ", plane.index, units::format_bytes(plane.allocated_bytes));
        lines.push(Line::from(vec![label.into(), "█".repeat(cells).fg(ACCENT)]));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn draw_holders(frame: &mut Frame, area: Rect, region: &RegionSample) {
    if region.holders.is_empty() {
        frame.render_widget(Line::from(vec!["holders".fg(ACCENT), " nobody".into()]), area);
        return;
    }
    let heading = ["holders", "versions", "age", "", "command"].map(|name| Cell::from(name.fg(ACCENT)));
    let rows = region.holders.iter().map(|holder| {
        let style = if holder.stopped { Style::new().fg(ALARM) } else { Style::new() };
        Row::new(describe_holder(holder).map(Cell::from)).style(style)
    });
    let widths = [
        Constraint::Length(9),
        Constraint::Length(16),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Min(10),
    ];
    frame.render_widget(Table::new(rows, widths).header(Row::new(heading)), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::region::{HolderSample, Want};
    use crate::watch::sample::PlaneSample;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn region(name: &str, planes: usize) -> RegionSample {
        let holder = |pid, stopped| HolderSample {
            pid: Some(pid),
            enclave: None,
            command: Some("python3 plot.py".into()),
            state: if stopped { 'T' } else { 'S' },
            stopped,
            version: Some(41),
            versions: 2,
            age_ms: Some(90_000),
            text: format!("plot.py ({pid})"),
        };
        RegionSample {
            name: name.into(),
            state: "live",
            newest: Some(42),
            versions: 3,
            producer_pid: Some(17),
            tracker: Some("wp_async".into()),
            publish_rate_hz: Some(50.0),
            publish_ms: Some(3.2),
            skipped: Some(1),
            dirty_share: Some(0.25),
            copied_bytes_per_s: Some(1e9),
            memory_bytes: 4 << 20,
            plane_bytes: 3 << 20,
            working_bytes: 0,
            bound_bytes: None,
            planes: (0..planes).map(|index| PlaneSample { index, allocated_bytes: 1 << 20 }).collect(),
            holders: vec![holder(5, false), holder(6, true)],
            want: Want { waiting_ns: Some(1), skipping_ns: None, skipping: 0, blockers: vec![holder(6, true)] },
        }
    }

    fn show(width: u16, height: u16, regions: Vec<RegionSample>) -> String {
        let mut screen = Screen::new(Path::new("/dev/shm/x"), Duration::from_secs(1));
        for _ in 0..3 {
            screen.update(Sample {
                time_ns: 1,
                interval_ms: Some(1000.0),
                regions: regions.clone(),
                nodes: Vec::new(),
            });
        }
        screen.choose(1);
        screen.choose(-5);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn no_terminal_is_too_small() {
        for (width, height) in [(1, 1), (5, 3), (20, 8), (40, 12), (80, 24), (300, 100)] {
            for count in [0, 1, 40] {
                show(width, height, (0..count).map(|place| region(&format!("r{place}"), count)).collect());
            }
        }
    }

    #[test]
    fn the_screen_shows_rates_memory_and_stopped_holders() {
        let text = show(110, 30, vec![region("heat", 3), region("lattice", 1)]);
        for part in [
            "heat",
            "50.0/s",
            "25 %",
            "3.2 ms",
            "wp_async",
            "plane 2",
            "1 skipped",
            "stopped",
            "plot.py",
            "41 and 1 more",
            "waiting",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }
}
