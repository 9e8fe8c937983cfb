//! Layouts of a reader and of the writers that it reads from.

use clap::ValueEnum;

/// What a reader wants of what the writers have.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// All, as one array: each writer has a slab of it
    Contiguous,
    /// Every fourth number
    EveryFourth,
    /// Arrays out of records of four numbers
    RecordsToArrays,
    /// The array in the other order
    Transpose,
    /// All, and one writer has it so
    OneBlock,
}

/// All of them.
pub const LAYOUTS: [Layout; 5] =
    [Layout::Contiguous, Layout::EveryFourth, Layout::RecordsToArrays, Layout::Transpose, Layout::OneBlock];

/// Writers, but for [`Layout::OneBlock`].
const WRITERS: usize = 8;

impl Layout {
    /// What it is called.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// How many writers there are.
    pub fn writers(self) -> usize {
        if self == Layout::OneBlock { 1 } else { WRITERS }
    }

    /// The object's text.
    pub fn object(self) -> &'static str {
        match self {
            Layout::Contiguous | Layout::EveryFourth | Layout::OneBlock => "var u [n] float64",
            Layout::RecordsToArrays => "type Cell struct { a, b, c, d float64 }\nvar u [n]Cell",
            Layout::Transpose => "var u [n,n] float64",
        }
    }

    /// The number `n` of the object's text for which the reader's fragment has about so many bytes, and each writer as much as
    /// any other.
    pub fn extent(self, bytes: usize) -> usize {
        let n = match self {
            Layout::Contiguous | Layout::OneBlock => bytes / 8,
            Layout::EveryFourth => bytes / 2,
            Layout::RecordsToArrays => bytes / 32,
            Layout::Transpose => ((bytes / 8) as f64).sqrt() as usize,
        };
        (n / (4 * WRITERS)).max(1) * 4 * WRITERS
    }

    /// A writer's fragment, with `rows` places of the first axis from `first` on.
    pub fn written(self) -> &'static str {
        match self {
            Layout::Transpose => "{ var u [x:rows,y:n] = u[x+first,y] }",
            _ => "{ var u [x:rows] = u[x+first] }",
        }
    }

    /// The reader's fragment.
    pub fn wanted(self) -> &'static str {
        match self {
            Layout::Contiguous | Layout::OneBlock => "{ var u = u }",
            Layout::EveryFourth => "{ var u [x] = u[4*x] }",
            Layout::RecordsToArrays => "{ var a [] = u[].a; var b [] = u[].b; var c [] = u[].c; var d [] = u[].d }",
            Layout::Transpose => "view v columnmajor { var u [x,y] = u[x,y] }",
        }
    }
}
