//! The syntax tree. Names are places in the text.

use std::sync::Arc;

use smallvec::SmallVec;

use super::source::{Sources, Span};
use crate::{
    fill::Fill,
    types::{AxisOrder, ByteOrder, Packing},
};

/// Everything that a text and what it includes declare.
#[derive(Debug, Clone, Default)]
pub struct Syntax {
    pub sources: Arc<Sources>,
    pub constants: Vec<ConstantDeclaration>,
    pub types: Vec<TypeDeclaration>,
    pub objects: Vec<ObjectDeclaration>,
    pub views: Vec<ViewDeclaration>,
    pub replicas: Vec<ReplicaDeclaration>,
}

/// `const N = 1000`, or `const at = [3, 7, 19]`
#[derive(Debug, Clone)]
pub struct ConstantDeclaration {
    pub name: Span,
    pub value: ConstantValue,
}

#[derive(Debug, Clone)]
pub enum ConstantValue {
    Number(Expression),
    List(Vec<Expression>),
}

/// `type Cell struct { rho, e float64 }`
#[derive(Debug, Clone)]
pub struct TypeDeclaration {
    pub name: Span,
    pub kind: TypeExpression,
}

/// `var mesh [N,N]Cell`
#[derive(Debug, Clone)]
pub struct ObjectDeclaration {
    pub names: Vec<Span>,
    pub kind: TypeExpression,
}

#[derive(Debug, Clone)]
pub enum TypeExpression {
    Name(Span),
    Array { extents: Vec<Expression>, element: Box<Self>, span: Span },
    Record { fields: Vec<FieldDeclaration>, span: Span },
}

#[derive(Debug, Clone)]
pub struct FieldDeclaration {
    pub names: Vec<Span>,
    pub kind: TypeExpression,
}

/// An integer expression in postfix order: it can be as long as it likes without anything being recursive.
#[derive(Debug, Clone)]
pub struct Expression {
    pub steps: SmallVec<[Step; 3]>,
    pub span: Span,
}

/// A number or name to put on the stack, or an operation on what is on top of it, which names the list that it looks into.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub kind: StepKind,
    /// The number or name, or the whole operation with its operands.
    pub span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    Number(i64),
    Name,
    /// The number of a list, whose name this is, at the place that is on top.
    Element,
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
}

/// `view soa readonly { var … }`
#[derive(Debug, Clone)]
pub struct ViewDeclaration {
    pub name: Option<Span>,
    pub attributes: Attributes,
    pub variables: Vec<VariableDeclaration>,
    pub span: Span,
}

/// What stands between a view's or replica's name and its brace, with the place where it says so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes {
    pub order: Option<(AxisOrder, Span)>,
    pub byte_order: Option<(ByteOrder, Span)>,
    pub packing: Option<(Packing, Span)>,
    pub default: Option<Span>,
    pub readonly: Option<Span>,
    pub clipped: Option<Span>,
    pub fill: Option<(Fill, Span)>,
    pub complete: Option<Span>,
}

/// `var m [i,j]{rho} = mesh[i*4,j*4]`
#[derive(Debug, Clone)]
pub struct VariableDeclaration {
    pub name: Span,
    pub left: Pattern,
    pub object: Span,
    pub right: Pattern,
    pub span: Span,
}

/// What is written behind a name in a view: brackets, fields and braces, in this order from the outside in.
#[derive(Debug, Clone, Default)]
pub struct Pattern {
    pub parts: Vec<PatternPart>,
    /// Where it stands; where it is empty, the place behind the name.
    pub span: Span,
}

#[derive(Debug, Clone)]
pub enum PatternPart {
    /// `[i,j:16]`
    Indices(Vec<Index>),
    /// `.rho`
    Field(Span),
    /// `{ rho; flux [k] }`; always the last but for a type.
    Fields { fields: Vec<PatternField>, span: Span },
    /// `float64`; always the last.
    Type(Span),
}

/// `i*4+1:16`; nothing at all is a wildcard.
#[derive(Debug, Clone)]
pub struct Index {
    pub expression: Option<Expression>,
    pub extent: Option<Expression>,
    pub span: Span,
}

/// `rho, e [i]`, or `skip 4`, which has no names.
#[derive(Debug, Clone)]
pub struct PatternField {
    pub names: Vec<Span>,
    pub pattern: Pattern,
    /// Bytes that are left out. Where there are names, too, `skip N` stands here: it is a field if `N` is a type.
    pub skip: Option<Expression>,
}

/// `replica complete main "main.dat" { view sim; view soa }`
#[derive(Debug, Clone)]
pub struct ReplicaDeclaration {
    pub name: Span,
    pub attributes: Attributes,
    pub file: Option<String>,
    pub entries: Vec<ReplicaEntry>,
    pub span: Span,
}

#[derive(Debug, Clone)]
pub enum ReplicaEntry {
    View(Span),
    Skip(Expression),
}
