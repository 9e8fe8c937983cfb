//! A text that has been read, its names still without numbers.

use std::path::Path;

use crate::{
    bindings::Bindings,
    schema::Schema,
    text::{
        diagnostic::Diagnostics,
        loader::{Folder, Loader},
        parser,
        syntax::Syntax,
        token::{Kind, tokens},
    },
};

/// A parsed text. Parsing needs no numbers, so that one text serves many bindings: the ranks of a program, say.
///
/// ```
/// use drepl::{Bindings, Program};
///
/// let program = Program::parse("var grid [length,height] float64")?;
/// let schema = program.bind(&Bindings::from([("length", 64), ("height", 128)]))?;
/// let ghost = schema.fragment("{ var ghost[x:1,y:32] = grid[x+47,y+96] }", &Bindings::new())?;
/// assert_eq!(ghost.size_bytes(), 32 * 8);
/// # Ok::<(), drepl::Diagnostics>(())
/// ```
#[derive(Debug, Clone)]
pub struct Program {
    pub(crate) syntax: Syntax,
}

impl Program {
    /// Reads a text; all its mistakes come back together. It can include no other.
    pub fn parse(text: &str) -> Result<Self, Diagnostics> {
        Self::parse_with("<text>", text, &mut crate::text::loader::Nothing)
    }

    /// Reads a file. It can include files of its own folder and of folders therein.
    pub fn parse_file(path: impl AsRef<Path>) -> Result<Self, Diagnostics> {
        let (mut folder, name, text) = Folder::open(path.as_ref())?;
        Self::parse_with(&name, &text, &mut folder)
    }

    /// Reads a text of this name, which diagnostics show; what it includes comes from the loader.
    pub fn parse_with(name: &str, text: &str, loader: &mut dyn Loader) -> Result<Self, Diagnostics> {
        parser::parse(name, text, loader).map(|syntax| Self { syntax })
    }

    /// Whether a name stands somewhere in the text, or in one that it includes.
    pub fn has_name(&self, name: &str) -> bool {
        let texts = self.syntax.sources.files.iter().enumerate();
        texts.into_iter().any(|(file, source)| {
            let found = tokens(file as u32, &source.text, &mut Vec::new());
            found.iter().any(|token| token.kind == Kind::Name && self.syntax.sources.text(token.span) == name)
        })
    }

    /// Gives the names their numbers. Names that the text does not use are ignored: the fragments of a program may have them.
    pub fn bind(&self, bindings: &Bindings) -> Result<Schema, Diagnostics> {
        crate::resolve::schema(&self.syntax, bindings)
    }
}
