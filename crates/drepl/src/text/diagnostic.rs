//! Mistakes in a text, shown where they are.

use std::{fmt, sync::Arc};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use super::source::{Sources, Span};

/// Mistakes that are kept of one text; whoever wrote it corrects these first.
pub const DIAGNOSTICS_MAX: usize = 64;

/// Lines longer than this are not shown: nobody would find the marker.
const SHOWN_BYTES_MAX: usize = 1 << 14;

/// What kind of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The text does not follow the grammar.
    Syntax,
    /// A name has no number: it is neither a constant nor bound by the caller.
    Unbound,
    /// Nothing of this name is declared.
    Unknown,
    /// Two things have one name.
    Duplicate,
    /// Constants, types or texts that need each other.
    Cycle,
    /// A number that no 64-bit integer holds, or a division by zero.
    Arithmetic,
    /// An extent that is zero or negative.
    Extent,
    /// An index that leaves its object.
    Range,
    /// An index that is written wrongly: no variable, two of them, or one that is on one side only.
    Index,
    /// A type that is not that of the object.
    Mismatch,
    /// A view that holds one element twice and may be written to.
    Overlap,
    /// A slice without an element.
    Empty,
    /// A text that cannot be included.
    Include,
    /// More of something than is handled.
    Limit,
}

impl Code {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Syntax,
        Self::Unbound,
        Self::Unknown,
        Self::Duplicate,
        Self::Cycle,
        Self::Arithmetic,
        Self::Extent,
        Self::Range,
        Self::Index,
        Self::Mismatch,
        Self::Overlap,
        Self::Empty,
        Self::Include,
        Self::Limit,
    ];

    /// Its name, as diagnostics show it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::Unbound => "unbound",
            Self::Unknown => "unknown",
            Self::Duplicate => "duplicate",
            Self::Cycle => "cycle",
            Self::Arithmetic => "arithmetic",
            Self::Extent => "extent",
            Self::Range => "range",
            Self::Index => "index",
            Self::Mismatch => "mismatch",
            Self::Overlap => "overlap",
            Self::Empty => "empty",
            Self::Include => "include",
            Self::Limit => "limit",
        }
    }
}

/// A place in a text. Lines and columns count from 1, columns in characters; the end is the first column behind it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// Name of the text.
    pub file: Arc<str>,
    /// Its line.
    pub line: u32,
    /// The first character.
    pub column: u32,
    /// Line of its end.
    pub end_line: u32,
    /// The first character behind it.
    pub end_column: u32,
}

/// Another place that has to do with a mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// Where it is.
    pub place: Place,
    /// What it has to do with it.
    pub text: String,
}

/// One mistake. Displayed, it shows the line and marks the place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of mistake it is.
    pub code: Code,
    /// What is wrong, in one line.
    pub message: String,
    /// Where it is.
    pub place: Place,
    /// Other places that have to do with it.
    pub labels: Vec<Label>,
    /// What to do about it, if that can be told.
    pub help: Option<String>,
    rendered: String,
}

/// All mistakes of a text, in the order of their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
}

impl Diagnostics {
    pub(crate) fn new(sources: &Sources, mut problems: Vec<Problem>) -> Self {
        problems.sort_by_key(|problem| (problem.span.file, problem.span.start));
        problems.dedup();
        problems.truncate(DIAGNOSTICS_MAX);
        Self { list: problems.into_iter().map(|problem| problem.diagnostic(sources)).collect() }
    }

    /// All of them; there is at least one.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.rendered)
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, diagnostic) in self.list.iter().enumerate() {
            write!(out, "{}{diagnostic}", if position == 0 { "" } else { "\n\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}
impl std::error::Error for Diagnostics {}

/// A mistake while the texts are at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub code: Code,
    pub span: Span,
    pub message: String,
    /// What to say at the marker, where the message does not say it all.
    pub mark: String,
    pub labels: Vec<(Span, String)>,
    pub help: Option<String>,
}

impl Problem {
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        Self { code, span, message: line(message), mark: String::new(), labels: Vec::new(), help: None }
    }

    pub fn mark(mut self, text: impl Into<String>) -> Self {
        self.mark = line(text);
        self
    }

    pub fn label(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push((span, line(text)));
        self
    }

    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(line(text));
        self
    }

    /// Suggests the names that are most like what was written, if any are.
    pub fn suggest<'a>(self, written: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match &nearest(written, known)[..] {
            [] => self,
            [names @ .., last] if !names.is_empty() => {
                self.help(format!("did you mean `{}` or `{last}`?", names.join("`, `")))
            }
            [name, ..] => self.help(format!("did you mean `{name}`?")),
        }
    }

    fn diagnostic(self, sources: &Sources) -> Diagnostic {
        let rendered = self.render(sources);
        let labels = self.labels.into_iter().map(|(span, text)| Label { place: place(sources, span), text }).collect();
        let place = place(sources, self.span);
        Diagnostic { code: self.code, message: self.message, place, labels, help: self.help, rendered }
    }

    fn render(&self, sources: &Sources) -> String {
        let mark = Some(self.mark.as_str()).filter(|mark| !mark.is_empty());
        let mut marks = vec![(self.span, AnnotationKind::Primary, mark)];
        for (span, text) in &self.labels {
            marks.push((*span, AnnotationKind::Context, Some(text)));
        }
        let mut files: Vec<u32> = marks.iter().map(|(span, ..)| span.file).collect();
        files.sort_by_key(|file| (*file != self.span.file, *file));
        files.dedup();
        let title = Level::ERROR.primary_title(&self.message).id(self.code.name());
        let mut group = Group::with_title(title);
        for file in files {
            let source = &sources.files[file as usize];
            let here: Vec<_> = marks.iter().filter(|(span, ..)| span.file == file).collect();
            let first = here.iter().map(|(span, ..)| span.start).min().unwrap_or(0);
            let last = here.iter().map(|(span, ..)| span.end).max().unwrap_or(0);
            let (line, column) = sources.line_column(file, here[0].0.start);
            let start = source.text[..first as usize].rfind('\n').map_or(0, |newline| newline + 1);
            let end = source.text[last as usize..].find('\n').map_or(source.text.len(), |at| last as usize + at);
            let shown = &source.text[start..end];
            if shown.is_empty() || shown.len() > SHOWN_BYTES_MAX {
                let origin = annotate_snippets::Origin::path(&*source.name).line(line as usize);
                group = group.element(origin.char_column(column as usize));
                continue;
            }
            let line_start = sources.line_column(file, start as u32).0 as usize;
            let mut snippet = Snippet::source(shown).path(&*source.name).line_start(line_start);
            for (span, kind, text) in here {
                let range = span.start as usize - start..span.end as usize - start;
                snippet = snippet.annotation(kind.span(range).label(*text));
            }
            group = group.element(snippet);
        }
        if let Some(help) = &self.help {
            group = group.element(Level::HELP.message(help));
        }
        Renderer::plain().render(&[group])
    }
}

fn place(sources: &Sources, span: Span) -> Place {
    let (line, column) = sources.line_column(span.file, span.start);
    let (end_line, end_column) = sources.line_column(span.file, span.end);
    Place { file: sources.files[span.file as usize].name.clone(), line, column, end_line, end_column }
}

/// The known names that are most like the written one, at most three: every third character may be wrong.
fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Names are short; to compare long ones takes the product of their lengths.
    if written.len() > 64 {
        return Vec::new();
    }
    let lower = written.to_lowercase();
    let allowed = (written.chars().count() / 3).max(1);
    let known = known.into_iter().take(1024).filter(|name| name.len() <= 64 && *name != written);
    let mut near: Vec<(usize, &str)> = known
        .map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= allowed && *distance < name.chars().count())
        .collect();
    near.sort_unstable();
    near.dedup();
    let least = near.first().map_or(0, |(distance, _)| *distance);
    near.into_iter().take_while(|(distance, _)| *distance == least).map(|(_, name)| name).take(3).collect()
}

/// At most so much that it can be read: names, types and paths are as long as somebody made them.
fn line(text: impl Into<String>) -> String {
    const SHOWN_MAX: usize = 600;
    let mut text = text.into();
    if let Some((end, _)) = text.char_indices().nth(SHOWN_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// At most so much of a word that a message stays one line.
pub(crate) fn clip(word: &str) -> &str {
    match word.char_indices().nth(40) {
        Some((end, _)) => &word[..end],
        None => word,
    }
}
