//! The texts of a program, and places in them.

use std::sync::Arc;

/// Bytes of a text that is read. Longer ones are refused: places in a text are 32 bits wide, and layouts are written by
/// hand or by small scripts.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// A range of bytes in one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Span {
    pub file: u32,
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// From the beginning of this to the end of the other.
    pub fn to(self, other: Self) -> Self {
        Self { end: other.end.max(self.start), ..self }
    }
}

/// One text and its name.
#[derive(Debug, Clone)]
pub struct Source {
    pub name: Arc<str>,
    pub text: Arc<str>,
}

/// All texts of one program.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    pub files: Vec<Source>,
}

impl Sources {
    /// Adds a text; returns its number.
    pub fn add(&mut self, name: &str, text: &str) -> u32 {
        self.files.push(Source { name: name.into(), text: text.into() });
        self.files.len() as u32 - 1
    }

    /// What stands at a place.
    pub fn text(&self, span: Span) -> &str {
        &self.files[span.file as usize].text[span.start as usize..span.end as usize]
    }

    /// Line and column of a byte, both from 1; columns count characters.
    pub fn line_column(&self, file: u32, byte: u32) -> (u32, u32) {
        let before = &self.files[file as usize].text[..byte as usize];
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() as u32 + 1;
        (line, before[start..].chars().count() as u32 + 1)
    }
}
