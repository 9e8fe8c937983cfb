//! Columns of text.

use std::io::{self, Write};

/// On which side a column's entries are flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows under a heading, each column as wide as its widest entry.
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// A table of these columns without rows.
    pub fn new(columns: &[(&str, Align)]) -> Table {
        Table {
            columns: columns.iter().map(|(name, align)| (name.to_string(), *align)).collect(),
            rows: Vec::new(),
            indent: 0,
        }
    }

    /// The same table moved to the right.
    pub fn indented(self, indent: usize) -> Table {
        Table { indent, ..self }
    }

    /// Adds a row; entries beyond the last column are dropped.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Writes heading and rows. No line ends in blanks.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let heading: Vec<String> = self.columns.iter().map(|column| column.0.clone()).collect();
        let mut widths: Vec<usize> = heading.iter().map(|text| width(text)).collect();
        for row in &self.rows {
            for (widest, text) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(text));
            }
        }
        let with_heading = heading.iter().any(|text| !text.is_empty());
        for row in with_heading.then_some(&heading).into_iter().chain(&self.rows) {
            let mut line = " ".repeat(self.indent);
            for (place, (text, (_, align))) in row.iter().zip(&self.columns).enumerate() {
                if place > 0 {
                    line.push_str("  ");
                }
                let blanks = " ".repeat(widths[place] - width(text));
                match align {
                    Align::Left => line.extend([text.as_str(), &blanks]),
                    Align::Right => line.extend([&blanks, text.as_str()]),
                }
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text without anything that could steer a terminal: names and commands come from other programs.
pub fn sanitize(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_end_without_blanks() {
        let mut table = Table::new(&[("NAME", Align::Left), ("SIZE", Align::Right), ("NOTE", Align::Left)]);
        table.push(vec!["µ".into(), "12".into(), "".into()]);
        table.push(vec!["longer".into(), "3".into(), "x".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "NAME    SIZE  NOTE\nµ         12\nlonger     3  x\n");
    }

    #[test]
    fn escape_sequences_do_not_reach_the_terminal() {
        assert_eq!(sanitize("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
