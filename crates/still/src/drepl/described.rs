//! The text that a command is about, and the numbers that go with it.

use crate::failure::{Failure, MISUSE, PROBLEM};
use ::drepl::text::loader::Nothing;
use ::drepl::{Bindings, Diagnostics, Program, Schema};
use std::io::Read;
use std::path::{Path, PathBuf};

/// What all these commands are told.
#[derive(Debug, clap::Args)]
pub struct Described {
    /// The text that describes objects and views; `-` is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Bind a name of the text to a number
    #[arg(short = 'D', value_name = "NAME=NUMBER", value_parser = parse_binding)]
    bindings: Vec<(String, i64)>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Texts longer than this are refused, as those in files are.
const TEXT_BYTES_MAX: u64 = 16 << 20;

impl Described {
    /// What the text describes. `texts` are those of the command that may have names of their own.
    pub fn read<'t>(&self, texts: impl IntoIterator<Item = &'t String>) -> Result<Schema, Failure> {
        let program = self.parse()?.map_err(mistakes)?;
        let texts: Vec<&String> = texts.into_iter().collect();
        let is_used =
            |name: &str| program.has_name(name) || texts.iter().any(|text| words(text).any(|word| word == name));
        if let Some((name, _)) = self.bindings.iter().find(|(name, _)| !is_used(name)) {
            let text = format!("-D {name}: nothing here has this name: correct it, or leave it out");
            return Err(Failure::Misuse(text));
        }
        program.bind(&self.bindings()).map_err(mistakes)
    }

    /// The text's syntax, or its mistakes.
    fn parse(&self) -> Result<Result<Program, Diagnostics>, Failure> {
        if self.is_standard_input() {
            let mut text = String::new();
            let read = std::io::stdin().lock().take(TEXT_BYTES_MAX + 1).read_to_string(&mut text);
            read.map_err(|error| Failure::Problem(format!("cannot read standard input: {error}")))?;
            return Ok(Program::parse_with("<stdin>", &text, &mut Nothing));
        }
        // A name that is wrong is no mistake in a text.
        match std::fs::metadata(&self.file) {
            Err(error) => Err(Failure::Problem(format!("cannot read {}: {error}", self.file.display()))),
            Ok(about) if !about.is_file() => {
                let path = self.file.display();
                Err(Failure::Problem(format!("cannot read {path}: it is no regular file; `-` is standard input")))
            }
            Ok(_) => Ok(Program::parse_file(&self.file)),
        }
    }

    fn is_standard_input(&self) -> bool {
        self.file == Path::new("-")
    }

    /// What it is called.
    pub fn name(&self) -> String {
        if self.is_standard_input() { "standard input".into() } else { self.file.display().to_string() }
    }

    /// The folder that names of files in the text are relative to.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new(""))
    }

    /// The numbers given beside it.
    pub fn bindings(&self) -> Bindings {
        self.bindings.iter().cloned().collect()
    }
}

/// Mistakes in the text that the command looks at.
fn mistakes(diagnostics: Diagnostics) -> Failure {
    Failure::Mistakes { diagnostics, exit_code: PROBLEM }
}

/// Mistakes in a text that is part of the command.
pub fn misuse(diagnostics: Diagnostics) -> Failure {
    Failure::Mistakes { diagnostics, exit_code: MISUSE }
}

/// Names in a text of the language.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_')
}

fn parse_binding(text: &str) -> Result<(String, i64), String> {
    let wrong = || "give a name and a whole number, such as -D N=1000".to_string();
    let (name, number) = text.split_once('=').ok_or_else(wrong)?;
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    if !is_name(name.trim()) {
        return Err(wrong());
    }
    let number = number.trim().replace('_', "").parse().map_err(|_| wrong())?;
    Ok((name.trim().into(), number))
}
