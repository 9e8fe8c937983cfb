//! From characters to tokens.

use super::{
    diagnostic::{Code, DIAGNOSTICS_MAX, Problem, clip},
    source::Span,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Name,
    /// At most 2⁶³, which fits behind a minus sign.
    Number(u64),
    /// With its quotes.
    Text,
    Open(Bracket),
    Close(Bracket),
    Comma,
    Semicolon,
    Colon,
    Equals,
    Plus,
    Minus,
    Star,
    Slash,
    Percent,
    Dot,
    Var,
    Const,
    Type,
    Struct,
    Dataset,
    View,
    Replica,
    End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bracket {
    Round,
    Square,
    Brace,
}

#[derive(Debug, Clone, Copy)]
pub struct Token {
    pub kind: Kind,
    pub span: Span,
    /// Whether it is the first of its line.
    pub fresh_line: bool,
}

impl Kind {
    /// What people call it.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Name => "a name",
            Self::Number(_) => "a number",
            Self::Text => "a text in quotes",
            Self::Open(Bracket::Round) => "`(`",
            Self::Open(Bracket::Square) => "`[`",
            Self::Open(Bracket::Brace) => "`{`",
            Self::Close(Bracket::Round) => "`)`",
            Self::Close(Bracket::Square) => "`]`",
            Self::Close(Bracket::Brace) => "`}`",
            Self::Comma => "`,`",
            Self::Semicolon => "`;`",
            Self::Colon => "`:`",
            Self::Equals => "`=`",
            Self::Plus => "`+`",
            Self::Minus => "`-`",
            Self::Star => "`*`",
            Self::Slash => "`/`",
            Self::Percent => "`%`",
            Self::Dot => "`.`",
            Self::Var => "`var`",
            Self::Const => "`const`",
            Self::Type => "`type`",
            Self::Struct => "`struct`",
            Self::Dataset => "`dataset`",
            Self::View => "`view`",
            Self::Replica => "`replica`",
            Self::End => "the end of the text",
        }
    }

    /// Whether a declaration begins with it: a place to go on after a mistake.
    pub fn declares(self) -> bool {
        matches!(self, Self::Var | Self::Const | Self::Type | Self::Dataset | Self::View | Self::Replica)
    }
}

/// Words that cannot be names.
pub const KEYWORDS: [(&str, Kind); 7] = [
    ("var", Kind::Var),
    ("const", Kind::Const),
    ("type", Kind::Type),
    ("struct", Kind::Struct),
    ("dataset", Kind::Dataset),
    ("view", Kind::View),
    ("replica", Kind::Replica),
];

/// What the least number has behind its minus sign.
pub const LEAST: u64 = 1 << 63;

/// What is said of digits that are too many.
pub fn too_large(word: &str) -> String {
    format!("{} does not fit a 64-bit integer", clip(word))
}

/// All tokens of a text, the last of them [`Kind::End`].
pub fn tokens(file: u32, text: &str, problems: &mut Vec<Problem>) -> Vec<Token> {
    let mut lexer =
        Lexer { file, text, at: 0, fresh_line: true, tokens: Vec::with_capacity(text.len() / 2 + 1), problems };
    lexer.run();
    lexer.tokens
}

struct Lexer<'a> {
    file: u32,
    text: &'a str,
    at: usize,
    fresh_line: bool,
    tokens: Vec<Token>,
    problems: &'a mut Vec<Problem>,
}

impl Lexer<'_> {
    fn run(&mut self) {
        let bytes = self.text.as_bytes();
        // Some editors begin a file with a byte order mark.
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
        while let Some(&byte) = bytes.get(self.at) {
            let start = self.at;
            match byte {
                b'\n' => {
                    self.fresh_line = true;
                    self.at += 1;
                }
                b' ' | b'\t' | b'\r' => self.at += 1,
                b'#' => self.skip_line(),
                b'/' if bytes.get(start + 1) == Some(&b'/') => self.skip_line(),
                b'/' if bytes.get(start + 1) == Some(&b'*') => self.skip_comment(),
                b'0'..=b'9' => self.number(),
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.name(),
                b'"' => self.quoted(),
                b'[' => self.push(Kind::Open(Bracket::Square), 1),
                b']' => self.push(Kind::Close(Bracket::Square), 1),
                b'(' => self.push(Kind::Open(Bracket::Round), 1),
                b')' => self.push(Kind::Close(Bracket::Round), 1),
                b'{' => self.push(Kind::Open(Bracket::Brace), 1),
                b'}' => self.push(Kind::Close(Bracket::Brace), 1),
                b',' => self.push(Kind::Comma, 1),
                b';' => self.push(Kind::Semicolon, 1),
                b':' => self.push(Kind::Colon, 1),
                b'=' => self.push(Kind::Equals, 1),
                b'+' => self.push(Kind::Plus, 1),
                b'-' => self.push(Kind::Minus, 1),
                b'*' => self.push(Kind::Star, 1),
                b'/' => self.push(Kind::Slash, 1),
                b'%' => self.push(Kind::Percent, 1),
                b'.' => self.push(Kind::Dot, 1),
                _ if self.first().is_alphabetic() => self.name(),
                _ => self.strange(),
            }
            if self.problems.len() >= DIAGNOSTICS_MAX {
                break;
            }
        }
        self.push(Kind::End, 0);
    }

    /// The character at hand; there is one wherever this is asked.
    fn first(&self) -> char {
        self.text[self.at..].chars().next().unwrap_or(' ')
    }

    fn span(&self, start: usize, end: usize) -> Span {
        Span { file: self.file, start: start as u32, end: end as u32 }
    }

    fn push(&mut self, kind: Kind, bytes: usize) {
        let span = self.span(self.at, self.at + bytes);
        self.tokens.push(Token { kind, span, fresh_line: self.fresh_line });
        self.fresh_line = false;
        self.at += bytes;
    }

    fn skip_line(&mut self) {
        self.at = self.text[self.at..].find('\n').map_or(self.text.len(), |newline| self.at + newline);
    }

    fn skip_comment(&mut self) {
        let start = self.at;
        match self.text[start + 2..].find("*/") {
            Some(end) => {
                self.at = start + 2 + end + 2;
                self.fresh_line |= self.text[start..self.at].contains('\n');
            }
            None => {
                let problem = Problem::new(Code::Syntax, self.span(start, start + 2), "this comment has no end");
                self.problems.push(problem.help("close it with `*/`"));
                self.at = self.text.len();
            }
        }
    }

    fn word_bytes(&self) -> usize {
        let rest = &self.text[self.at..];
        let plain = rest.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || *byte == b'_').count();
        match rest.as_bytes().get(plain) {
            Some(byte) if !byte.is_ascii() => {
                rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
            }
            _ => plain,
        }
    }

    fn name(&mut self) {
        let bytes = self.word_bytes();
        let word = &self.text[self.at..self.at + bytes];
        let keyword = KEYWORDS.iter().find(|(keyword, _)| *keyword == word);
        self.push(keyword.map_or(Kind::Name, |(_, kind)| *kind), bytes);
    }

    fn number(&mut self) {
        let bytes = self.word_bytes();
        let word = &self.text[self.at..self.at + bytes];
        let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
        let value = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(&hex.replace('_', ""), 16).ok(),
            None if !word.contains('_') => word.parse().ok(),
            None => word.replace('_', "").parse().ok(),
        };
        let value = value.filter(|value| *value <= LEAST);
        if value.is_none() {
            let (code, message) = if digits(word) {
                (Code::Arithmetic, too_large(word))
            } else {
                (Code::Syntax, format!("`{}` is neither a number nor a name", clip(word)))
            };
            let problem = Problem::new(code, self.span(self.at, self.at + bytes), message);
            self.problems.push(match code {
                Code::Syntax => problem.help("names begin with a letter; numbers are whole: 1000, 1_000, 0x3e8"),
                _ => problem,
            });
        }
        self.push(Kind::Number(value.unwrap_or(1)), bytes);
    }

    fn quoted(&mut self) {
        let bytes = self.text.as_bytes();
        let mut end = self.at + 1;
        while let Some(byte) = bytes.get(end) {
            match byte {
                b'"' => return self.push(Kind::Text, end + 1 - self.at),
                b'\n' => break,
                _ => end += 1,
            }
        }
        let problem = Problem::new(Code::Syntax, self.span(self.at, end), "this text has no end");
        self.problems.push(problem.help("close it with `\"` on the same line"));
        self.push(Kind::Text, end - self.at);
    }

    fn strange(&mut self) {
        let (start, first) = (self.at, self.first());
        let rest = &self.text[start..];
        self.at += rest.find(|c| c != first).unwrap_or(rest.len());
        let message = format!("`{}` means nothing here", first.escape_debug());
        let problem = Problem::new(Code::Syntax, self.span(start, self.at), message);
        self.problems.push(match first {
            '\'' | '`' | '\u{201c}' | '\u{201d}' => problem.help("names of files stand in double quotes: \"main.dat\""),
            '−' | '–' => problem.help("a minus sign is `-`"),
            '×' | '·' => problem.help("multiply with `*`"),
            _ => problem,
        });
    }
}
