//! Where a parser is in its texts: the token at hand, what may follow it, and where to go on after a mistake.

use std::{collections::HashSet, sync::Arc};

use super::{
    diagnostic::{Code, DIAGNOSTICS_MAX, Diagnostics, Problem, clip},
    loader::Loader,
    source::{Sources, Span, TEXT_BYTES_MAX},
    syntax::Syntax,
    token::{Bracket, Kind, Token, tokens},
};
use crate::types::DEPTH_MAX;

/// Bytes of all texts together that one program may include.
const ALL_BYTES_MAX: usize = 4 * TEXT_BYTES_MAX;

/// A mistake that has been noted down; whoever gets it looks for a place to go on.
pub struct Noted;

pub type Parsed<T> = Result<T, Noted>;

/// A text and what it includes, while it is read.
pub struct Parser<'a> {
    pub loader: &'a mut dyn Loader,
    pub sources: Sources,
    pub syntax: Syntax,
    pub problems: Vec<Problem>,
    /// Texts that are being read, each included by the one before.
    pub open: Vec<Arc<str>>,
    /// Texts that have been read.
    pub read: HashSet<Arc<str>>,
    pub bytes: usize,
    pub tokens: Vec<Token>,
    pub at: usize,
    pub depth: usize,
}

impl<'a> Parser<'a> {
    pub fn new(loader: &'a mut dyn Loader) -> Self {
        Self {
            loader,
            sources: Sources::default(),
            syntax: Syntax::default(),
            problems: Vec::new(),
            open: Vec::new(),
            read: HashSet::new(),
            bytes: 0,
            tokens: Vec::new(),
            at: 0,
            depth: 0,
        }
    }

    pub fn finish(mut self) -> Result<Syntax, Diagnostics> {
        if !self.problems.is_empty() {
            return Err(Diagnostics::new(&self.sources, self.problems));
        }
        self.syntax.sources = Arc::new(self.sources);
        Ok(self.syntax)
    }

    // Texts.

    /// Makes the tokens of a text those that are read; returns those of before, and where they were.
    pub fn begin(&mut self, name: &str, text: &str, asked: Option<Span>) -> Parsed<(Vec<Token>, usize)> {
        self.bytes = self.bytes.saturating_add(text.len());
        if text.len() > TEXT_BYTES_MAX || self.bytes > ALL_BYTES_MAX {
            let span = asked.unwrap_or_else(|| Span { file: self.sources.add(name, ""), start: 0, end: 0 });
            let message = format!("{name} is too long: {TEXT_BYTES_MAX} bytes at most");
            self.problems.push(Problem::new(Code::Limit, span, message));
            return Err(Noted);
        }
        let file = self.sources.add(name, text);
        self.open.push(self.sources.files[file as usize].name.clone());
        let tokens = tokens(file, text, &mut self.problems);
        Ok((std::mem::replace(&mut self.tokens, tokens), std::mem::take(&mut self.at)))
    }

    pub fn end(&mut self, (tokens, at): (Vec<Token>, usize)) {
        (self.tokens, self.at) = (tokens, at);
        self.read.extend(self.open.pop());
    }

    pub fn token(&self) -> Token {
        self.tokens[self.at]
    }

    pub fn peek(&self) -> Kind {
        self.tokens[self.at].kind
    }

    pub fn next(&mut self) -> Token {
        let token = self.tokens[self.at];
        if token.kind != Kind::End {
            self.at += 1;
        }
        token
    }

    /// Where the last token ended.
    pub fn behind(&self) -> Span {
        match self.at.checked_sub(1) {
            Some(last) => Span { start: self.tokens[last].span.end, ..self.tokens[last].span },
            None => Span { end: 0, start: 0, ..self.tokens[0].span },
        }
    }

    pub fn accept(&mut self, kind: Kind) -> Option<Span> {
        (self.peek() == kind).then(|| self.next().span)
    }

    pub fn expect(&mut self, kind: Kind, wanted: &str) -> Parsed<Span> {
        match self.accept(kind) {
            Some(span) => Ok(span),
            None => self.refuse(wanted),
        }
    }

    pub fn expect_name(&mut self, wanted: &str) -> Parsed<Span> {
        let token = self.token();
        if token.kind.declares() || token.kind == Kind::Struct {
            let word = self.sources.text(token.span);
            let problem = Problem::new(Code::Syntax, token.span, format!("expected {wanted}, found `{word}`"));
            self.problems.push(problem.help(format!("`{word}` is a word of the language and cannot be a name")));
            // In a line of its own it is more likely the next declaration.
            if !token.fresh_line {
                self.next();
            }
            return Err(Noted);
        }
        self.expect(Kind::Name, wanted)
    }

    pub fn refuse<T>(&mut self, wanted: &str) -> Parsed<T> {
        let problem = self.unexpected(wanted);
        self.problems.push(problem);
        Err(Noted)
    }

    pub fn unexpected(&self, wanted: &str) -> Problem {
        let token = self.token();
        let found = match token.kind {
            Kind::Name | Kind::Number(_) => format!("`{}`", clip(self.sources.text(token.span))),
            kind => kind.describe().to_string(),
        };
        Problem::new(Code::Syntax, token.span, format!("expected {wanted}, found {found}"))
    }

    pub fn enough(&self) -> bool {
        self.problems.len() >= DIAGNOSTICS_MAX
    }

    /// Goes on to where a declaration can begin or a block ends, behind where the failed one began.
    pub fn recover(&mut self, start: usize) {
        let mut open = 0;
        loop {
            let token = self.token();
            match token.kind {
                Kind::End => return,
                kind if kind.declares() && self.at > start && (open == 0 || token.fresh_line) => return,
                Kind::Open(Bracket::Brace) => open += 1,
                Kind::Close(Bracket::Brace) if open > 1 => open -= 1,
                Kind::Semicolon if open > 0 => {}
                Kind::Semicolon | Kind::Close(Bracket::Brace) => {
                    self.next();
                    return;
                }
                _ => {}
            }
            self.next();
        }
    }

    /// The same within braces, which are left for their owner to close. Braces in between are skipped.
    pub fn recover_inside(&mut self) {
        let mut open = 0;
        loop {
            match self.peek() {
                Kind::End => return,
                Kind::Open(Bracket::Brace) => open += 1,
                Kind::Close(Bracket::Brace) if open == 0 => return,
                Kind::Close(Bracket::Brace) => open -= 1,
                Kind::Semicolon if open == 0 => return,
                kind if kind.declares() => return,
                _ => {}
            }
            self.next();
        }
    }

    /// Refuses nesting that would exhaust the stack.
    pub fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= DEPTH_MAX {
            let message = format!("this is nested deeper than {DEPTH_MAX}");
            self.problems.push(Problem::new(Code::Limit, self.token().span, message));
            return Err(Noted);
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Whatever lies between braces, one after the other with or without semicolons; the opening brace is read.
    pub fn block(&mut self, opened: Span, entry: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<Span> {
        self.entries(opened, true, entry)
    }

    /// Fields between braces: where a declaration begins, the closing brace has been forgotten.
    pub fn fields_block(&mut self, opened: Span, entry: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<Span> {
        self.entries(opened, false, entry)
    }

    pub fn entries(
        &mut self,
        opened: Span,
        declares: bool,
        mut entry: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<Span> {
        loop {
            while self.accept(Kind::Semicolon).is_some() {}
            if let Some(close) = self.accept(Kind::Close(Bracket::Brace)) {
                return Ok(close);
            }
            if self.peek() == Kind::End || self.enough() || (!declares && self.peek().declares()) {
                let problem = self.unexpected("`}`").label(opened, "to close this");
                self.problems.push(problem);
                return Err(Noted);
            }
            let start = self.at;
            if entry(self).is_err() {
                self.recover_inside();
                // A declaration that cannot stand here would be found again and again.
                if self.at == start && self.peek() != Kind::Close(Bracket::Brace) {
                    return Err(Noted);
                }
            }
        }
    }

    /// One or more, with commas in between.
    pub fn list<T>(&mut self, mut entry: impl FnMut(&mut Self) -> Parsed<T>, mut add: impl FnMut(T)) -> Parsed<()> {
        loop {
            add(entry(self)?);
            if self.accept(Kind::Comma).is_none() {
                return Ok(());
            }
        }
    }

    pub fn names(&mut self, wanted: &str) -> Parsed<Vec<Span>> {
        let mut names = Vec::new();
        self.list(|parser| parser.expect_name(wanted), |name| names.push(name))?;
        Ok(names)
    }
}
