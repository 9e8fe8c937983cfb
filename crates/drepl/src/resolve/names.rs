//! Constants, bindings and types: whatever a name can stand for.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use smallvec::SmallVec;

use super::affine::{Affine, Overflow};
use crate::{
    bindings::Bindings,
    dataset::LEAVES_MAX,
    schema::{Constant, Schema},
    text::{
        diagnostic::{Code, Problem, clip},
        source::{Sources, Span},
        syntax::{ConstantValue, Expression, PatternField, StepKind, Syntax, TypeExpression},
    },
    types::{Array, DEPTH_MAX, Field, Packing, Placement, Primitive, Record, Type},
};

/// A mistake that has been noted down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Noted;

pub type Resolved<T> = Result<T, Noted>;

/// What an expression comes to.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    Constant(i64),
    Affine(Affine, Variable<'a>),
    /// What a division of the function by the positive number leaves.
    Wrapped(Affine, u64, Variable<'a>),
    Listed(Listed, Variable<'a>),
}

/// A function of numbers of a list, which stand there at places that are a function of the variable.
#[derive(Debug, Clone, Copy)]
pub struct Listed {
    pub inner: Affine,
    list: usize,
    pub outer: Affine,
}

/// An index variable, where it stands.
#[derive(Debug, Clone, Copy)]
pub struct Variable<'a> {
    pub name: &'a str,
    pub span: Span,
}

/// What names in an expression are.
#[derive(Clone, Copy)]
pub enum Context<'v, 'a> {
    /// Numbers, all of them.
    Number,
    /// Numbers or one index variable; these are known from the other side.
    Index(&'v [&'a str]),
}

/// A type with what is needed to say whether it may be part of another.
#[derive(Debug, Clone)]
struct Measured {
    kind: Type,
    depth: usize,
    leaves: u64,
    /// Of an aligned record, the largest that there is.
    size: u64,
    alignment: u64,
}

/// What a constant is.
#[derive(Debug, Clone, Copy)]
enum Number {
    One(i64),
    /// Which of the lists.
    List(usize),
}

enum State<T> {
    Waiting,
    Busy,
    Done(T),
    Failed,
}

/// A declaration and what has become of it.
struct Named<T> {
    declaration: usize,
    state: State<T>,
}

/// All names of a text, resolved when they are first asked for.
pub struct Names<'a> {
    pub syntax: &'a Syntax,
    pub sources: &'a Sources,
    pub problems: Vec<Problem>,
    /// Objects whose types have mistakes. Views of them cannot be looked at, and are no mistake.
    pub lost: BTreeSet<&'a str>,
    /// What the text is an addition to.
    outer: Option<&'a Schema>,
    bindings: &'a Bindings,
    constants: HashMap<&'a str, Named<Number>>,
    /// The numbers of all lists that were asked for.
    lists: Vec<Arc<[i64]>>,
    types: HashMap<&'a str, Named<Measured>>,
    /// Declarations that are being resolved, each needed by the one before.
    open: Vec<Span>,
    /// How deep the type at hand is nested, names included.
    depth: usize,
    /// Steps that are left until a text is refused as too large.
    work_left: u64,
}

/// Steps that the resolution of a text may take: less than a second.
const WORK_MAX: u64 = 1 << 24;

/// Steps that a name counts for which is compared with those that it may have meant.
pub const SUGGESTION_WORK: u64 = 1 << 14;

/// Steps that a leaf counts for, which takes memory, too.
pub const LEAF_WORK: u64 = 16;

/// What a place that is linked with an element by itself counts: it takes some 60 bytes.
pub const LINK_WORK: u64 = 2;

impl<'a> Names<'a> {
    pub fn new(syntax: &'a Syntax, bindings: &'a Bindings, outer: Option<&'a Schema>) -> Self {
        let mut names = Self {
            syntax,
            sources: &syntax.sources,
            problems: Vec::new(),
            lost: BTreeSet::new(),
            outer,
            bindings,
            constants: HashMap::new(),
            lists: Vec::new(),
            types: HashMap::new(),
            open: Vec::new(),
            depth: 0,
            work_left: WORK_MAX,
        };
        names.declare();
        names
    }

    pub fn text(&self, span: Span) -> &'a str {
        self.sources.text(span)
    }

    /// The name that an expression consists of, if it is one.
    pub fn lone_name(&self, expression: &Expression) -> Option<&'a str> {
        let written = self.text(expression.span);
        let is_name = expression.steps.len() == 1 && written.starts_with(|c: char| c.is_alphabetic() || c == '_');
        is_name.then_some(written)
    }

    /// The names in an expression that stand for numbers.
    pub fn names_in(&self, expression: &'a Expression) -> impl Iterator<Item = &'a str> + use<'a> {
        let sources = self.sources;
        let names = expression.steps.iter().filter(|step| step.kind == StepKind::Name);
        names.map(move |step| sources.text(step.span))
    }

    /// The number that a name was declared or bound to be, if that is known by now.
    pub fn named_number(&self, name: &str) -> Option<i64> {
        if let Some(constant) = self.constants.get(name) {
            return match constant.state {
                State::Done(Number::One(number)) => Some(number),
                _ => None,
            };
        }
        self.bindings.get(name).or_else(|| {
            let outer = self.outer?;
            outer.constant(name).or_else(|| outer.bindings.get(name))
        })
    }

    /// Whether a name is a number because somebody bound it, not because a text says so.
    pub fn is_bound(&self, name: &str) -> bool {
        let is_constant = self.constants.contains_key(name);
        let is_own = self.bindings.get(name).is_some();
        !is_constant && (is_own || self.outer.is_some_and(|outer| !outer.constants.contains_key(name)))
    }

    /// Who made a name a number, as [`declared`](Names::declared) looks for it.
    pub fn origin(&self, name: &str) -> &'static str {
        match self.outer {
            _ if self.constants.contains_key(name) => "it is a constant",
            _ if self.bindings.get(name).is_some() => "the caller binds it",
            Some(outer) if outer.constants.contains_key(name) => "it is a constant of the schema",
            _ => "it is bound for the schema",
        }
    }

    pub fn fail<T>(&mut self, problem: Problem) -> Resolved<T> {
        self.problems.push(problem);
        Err(Noted)
    }

    /// Counts steps, so that no text can keep anybody busy for long.
    pub fn work(&mut self, steps: u64, span: Span) -> Resolved<()> {
        match self.work_left.checked_sub(steps) {
            Some(left) => self.work_left = left,
            // Once is enough: what comes behind it is not looked at, and may be well.
            None if self.work_left == 0 => return Err(Noted),
            None => {
                self.work_left = 0;
                let message = "up to here the text describes too many parts for one";
                return self.fail(Problem::new(Code::Limit, span, message).help("split it"));
            }
        }
        Ok(())
    }

    fn declare(&mut self) {
        let syntax = self.syntax;
        for (declaration, constant) in syntax.constants.iter().enumerate() {
            let name = self.text(constant.name);
            if let Some(first) = self.constants.get(name) {
                let first = syntax.constants[first.declaration].name;
                self.problems.push(twice("constants", name, constant.name, first));
                continue;
            }
            let outer = self.outer.is_some_and(|outer| outer.constants.contains_key(name));
            let message = if self.bindings.get(name).is_some() {
                Some(format!("`{name}` is a constant, and the caller binds it, too"))
            } else if outer {
                Some(format!("`{name}` is a constant of the schema already"))
            } else {
                None
            };
            if let Some(message) = message {
                let help = "drop one of the two, or give one another name";
                self.problems.push(Problem::new(Code::Duplicate, constant.name, message).help(help));
            }
            self.constants.insert(name, Named { declaration, state: State::Waiting });
        }
        for (declaration, kind) in syntax.types.iter().enumerate() {
            let name = self.text(kind.name);
            if let Some(first) = self.types.get(name) {
                let first = syntax.types[first.declaration].name;
                self.problems.push(twice("types", name, kind.name, first));
                continue;
            }
            if Primitive::from_name(name).is_some() {
                let message = format!("`{name}` is a type of the language");
                self.problems.push(Problem::new(Code::Duplicate, kind.name, message).help("choose another name"));
            } else if self.outer.is_some_and(|outer| outer.types.contains_key(name)) {
                let message = format!("`{name}` is a type of the schema already");
                self.problems.push(Problem::new(Code::Duplicate, kind.name, message).help("choose another name"));
            }
            self.types.insert(name, Named { declaration, state: State::Waiting });
        }
        if let Some(outer) = self.outer {
            for (name, _) in self.bindings.iter().filter(|(name, _)| outer.constants.contains_key(*name)) {
                let message = format!("`{name}` is a constant of the schema, and the caller binds it, too");
                let problem = Problem::new(Code::Duplicate, Span::default(), message);
                self.problems.push(problem.help(format!("do not bind `{name}`")));
            }
        }
    }

    /// Resolves whatever has not been asked for, so that mistakes in it are found.
    pub fn resolve_all(&mut self) {
        let syntax = self.syntax;
        for constant in &syntax.constants {
            let _ = self.declared(self.text(constant.name), constant.name);
        }
        for kind in &syntax.types {
            let _ = self.type_named(self.text(kind.name), kind.name);
        }
    }

    /// All constants that have a value.
    pub fn constants(&self) -> HashMap<Arc<str>, Constant> {
        let done = self.constants.iter().filter_map(|(name, constant)| match constant.state {
            State::Done(Number::One(value)) => Some((Arc::from(*name), Constant::Number(value))),
            State::Done(Number::List(list)) => Some((Arc::from(*name), Constant::List(self.lists[list].clone()))),
            _ => None,
        });
        done.collect()
    }

    /// All types that are declared.
    pub fn types(&self) -> HashMap<Arc<str>, Type> {
        let done = self.types.iter().filter_map(|(name, kind)| match &kind.state {
            State::Done(measured) => Some((Arc::from(*name), measured.kind.clone())),
            _ => None,
        });
        done.collect()
    }

    // Numbers.

    /// The number of a name, if it has one.
    fn number(&mut self, name: &'a str, span: Span) -> Resolved<Option<i64>> {
        match self.declared(name, span)? {
            Some(Number::One(number)) => Ok(Some(number)),
            None => Ok(None),
            Some(Number::List(_)) => {
                let name = clip(name);
                let problem = Problem::new(Code::Index, span, format!("`{name}` is a list of numbers"));
                self.fail(problem.help(format!("choose one of them: `{name}[i]`")))
            }
        }
    }

    /// The list of a name.
    fn list(&mut self, name: &'a str, span: Span) -> Resolved<usize> {
        match self.declared(name, span)? {
            Some(Number::List(list)) => Ok(list),
            Some(Number::One(number)) => {
                let message = format!("`{}` is the number {number}, and no list", clip(name));
                self.fail(Problem::new(Code::Index, span, message).help("a list is `const at = [3, 7, 19]`"))
            }
            None => {
                let problem = Problem::new(Code::Unbound, span, format!("no list is named `{}`", clip(name)));
                self.fail(problem.help(format!("declare it: `const {} = [3, 7, 19]`", clip(name))))
            }
        }
    }

    /// The numbers of a list.
    pub fn numbers_of(&self, listed: &Listed) -> Arc<[i64]> {
        self.lists[listed.list].clone()
    }

    fn keep(&mut self, numbers: Arc<[i64]>) -> Number {
        self.lists.push(numbers);
        Number::List(self.lists.len() - 1)
    }

    /// What a name was declared or bound to be, if it was.
    fn declared(&mut self, name: &'a str, span: Span) -> Resolved<Option<Number>> {
        let Some(constant) = self.constants.get_mut(name) else {
            if let Some(bound) = self.bindings.get(name) {
                return Ok(Some(Number::One(bound)));
            }
            let Some(outer) = self.outer else { return Ok(None) };
            return Ok(match outer.constants.get(name) {
                Some(Constant::Number(number)) => Some(Number::One(*number)),
                Some(Constant::List(numbers)) => Some(self.keep(numbers.clone())),
                None => outer.bindings.get(name).map(Number::One),
            });
        };
        match constant.state {
            State::Done(value) => return Ok(Some(value)),
            State::Failed => return Err(Noted),
            State::Busy => return self.circle("constants need each other", span),
            State::Waiting => {}
        }
        constant.state = State::Busy;
        let syntax = self.syntax;
        let declaration = &syntax.constants[constant.declaration];
        let value = self.nested(declaration.name, |names| match &declaration.value {
            ConstantValue::Number(number) => names.constant(number).map(Number::One),
            ConstantValue::List(numbers) => {
                let mut list = Vec::with_capacity(numbers.len());
                for number in numbers {
                    names.work(1, number.span)?;
                    list.push(names.constant(number)?);
                }
                Ok(names.keep(list.into()))
            }
        });
        if let Some(constant) = self.constants.get_mut(name) {
            constant.state = value.map_or(State::Failed, State::Done);
        }
        value.map(Some)
    }

    /// Resolves what a declaration needs.
    fn nested<T>(&mut self, span: Span, resolve: impl FnOnce(&mut Self) -> Resolved<T>) -> Resolved<T> {
        if self.open.len() >= DEPTH_MAX {
            let message = format!("declarations need each other over more than {DEPTH_MAX} steps");
            let problem = Problem::new(Code::Limit, span, message);
            return self.fail(problem.help("declare what is needed before what needs it"));
        }
        self.open.push(span);
        let resolved = resolve(self);
        self.open.pop();
        resolved
    }

    fn circle<T>(&mut self, what: &str, span: Span) -> Resolved<T> {
        let name = self.text(span);
        let first = self.open.iter().position(|open| self.text(*open) == name).unwrap_or(0);
        let circle: Vec<&str> = self.open[first..].iter().map(|span| self.text(*span)).collect();
        let declared = self.open[first];
        let path = format!("{} → {name}", circle.join(" → "));
        self.fail(Problem::new(Code::Cycle, span, format!("{what}: {path}")).label(declared, "it begins here"))
    }

    /// The value of an expression of numbers.
    pub fn constant(&mut self, expression: &'a Expression) -> Resolved<i64> {
        match self.evaluate(expression, Context::Number)? {
            Value::Constant(value) => Ok(value),
            Value::Affine(_, variable) | Value::Wrapped(_, _, variable) | Value::Listed(_, variable) => {
                self.unbound(variable.name, variable.span)
            }
        }
    }

    /// The value of an extent, which is at least 1.
    pub fn extent(&mut self, expression: &'a Expression) -> Resolved<u64> {
        let value = self.constant(expression)?;
        match u64::try_from(value) {
            Ok(extent) if extent > 0 => Ok(extent),
            _ => {
                let problem = Problem::new(Code::Extent, expression.span, format!("an extent of {value}"));
                self.fail(problem.help("an extent is at least 1"))
            }
        }
    }

    /// What says how many bytes a field of the left side leaves out, if it is no field but that.
    pub fn skipped(&self, field: &'a PatternField) -> Option<&'a Expression> {
        let skip = field.skip.as_ref()?;
        (field.names.is_empty() || !self.is_type(self.text(skip.span))).then_some(skip)
    }

    /// Bytes to leave out, with those before them.
    pub fn gap(&mut self, expression: &'a Expression, before: u64) -> Resolved<u64> {
        let value = self.constant(expression)?;
        let Ok(bytes) = u64::try_from(value) else {
            let problem = Problem::new(Code::Range, expression.span, format!("{value} bytes cannot be left out"));
            return self.fail(problem.help("`skip` goes forward: write 0 or more"));
        };
        match before.checked_add(bytes).filter(|bytes| *bytes <= i64::MAX as u64) {
            Some(bytes) => Ok(bytes),
            None => self.overflow(expression.span),
        }
    }

    pub fn unbound<T>(&mut self, name: &str, span: Span) -> Resolved<T> {
        let message = format!("`{}` is neither a constant nor bound by the caller", clip(name));
        let problem = self.suggest_number(Problem::new(Code::Unbound, span, message), name);
        self.fail(problem)
    }

    /// Names a number that the written name may have meant, or says how to bind it.
    pub fn suggest_number(&self, problem: Problem, name: &str) -> Problem {
        let outer = self.outer.iter().flat_map(|outer| {
            outer.constants.keys().map(|name| &**name).chain(outer.bindings.iter().map(|(name, _)| name))
        });
        let known = self.constants.keys().copied().chain(self.bindings.iter().map(|(name, _)| name)).chain(outer);
        let problem = problem.suggest(name, known);
        match problem.help {
            Some(_) => problem,
            None => problem.help(format!("declare it, `const {0} = …`, or pass a number for `{0}`", clip(name))),
        }
    }

    /// The value of an expression.
    pub fn evaluate(&mut self, expression: &'a Expression, context: Context<'_, 'a>) -> Resolved<Value<'a>> {
        let mut stack: SmallVec<[Value<'a>; 4]> = SmallVec::new();
        for step in &expression.steps {
            let value = match step.kind {
                StepKind::Number(number) => Value::Constant(number),
                StepKind::Name => {
                    let name = self.text(step.span);
                    match (self.number(name, step.span)?, context) {
                        (Some(number), _) => Value::Constant(number),
                        (None, Context::Number) => return self.unbound(name, step.span),
                        (None, Context::Index(_)) => {
                            Value::Affine(Affine::VARIABLE, Variable { name, span: step.span })
                        }
                    }
                }
                StepKind::Element => {
                    let place = stack.pop().ok_or(Noted)?;
                    self.element(place, step.span)?
                }
                StepKind::Negate => match stack.pop() {
                    Some(Value::Constant(value)) => self.whole(value.checked_neg(), step.span)?,
                    Some(Value::Affine(affine, variable)) => Value::Affine(affine.negate(), variable),
                    Some(Value::Listed(listed, variable)) => {
                        Value::Listed(Listed { outer: listed.outer.negate(), ..listed }, variable)
                    }
                    Some(Value::Wrapped(..)) => return self.wrapped_within(step.span),
                    None => return Err(Noted),
                },
                operator => {
                    let (Some(right), Some(left)) = (stack.pop(), stack.pop()) else { return Err(Noted) };
                    self.operate(operator, left, right, step.span, context)?
                }
            };
            stack.push(value);
        }
        let value = stack.pop().ok_or(Noted)?;
        let cancelled = match value {
            Value::Affine(affine, variable) | Value::Wrapped(affine, _, variable) if !affine.varies() => Some(variable),
            Value::Listed(listed, variable) if !(listed.inner.varies() && listed.outer.varies()) => Some(variable),
            _ => None,
        };
        if let Some(variable) = cancelled {
            let message = format!("`{}` cancels out here", variable.name);
            let help = "write the number alone, or let the index depend on the variable";
            return self.fail(Problem::new(Code::Index, expression.span, message).help(help));
        }
        Ok(value)
    }

    /// The numbers of a list, whose name stands here, at a place.
    fn element(&mut self, place: Value<'a>, span: Span) -> Resolved<Value<'a>> {
        let list = self.list(self.text(span), span)?;
        match place {
            Value::Affine(inner, variable) => {
                Ok(Value::Listed(Listed { inner, list, outer: Affine::VARIABLE }, variable))
            }
            Value::Constant(place) => {
                let numbers = &self.lists[list];
                let found = usize::try_from(place).ok().and_then(|place| numbers.get(place));
                match found {
                    Some(number) => Ok(Value::Constant(*number)),
                    None => {
                        let message = format!("index {place} of a list of {} numbers", numbers.len());
                        self.fail(Problem::new(Code::Range, span, message))
                    }
                }
            }
            Value::Wrapped(..) | Value::Listed(..) => self.listed_within(span),
        }
    }

    fn listed_within<T>(&mut self, span: Span) -> Resolved<T> {
        let problem = Problem::new(Code::Index, span, "this is no straight line through the numbers of a list");
        self.fail(problem.help("an index by a list is (d*at[(a*x + b) / c] + e) / f, with numbers a to f"))
    }

    fn operate(
        &mut self,
        operator: StepKind,
        left: Value<'a>,
        right: Value<'a>,
        span: Span,
        context: Context<'_, 'a>,
    ) -> Resolved<Value<'a>> {
        use StepKind::{Add, Divide, Multiply, Remainder, Subtract};
        let divides = matches!(operator, Divide | Remainder);
        if let (true, Value::Constant(0)) = (divides, right) {
            return self.fail(Problem::new(Code::Arithmetic, span, "a division by zero"));
        }
        if let (Value::Listed(listed, variable), Value::Constant(_))
        | (Value::Constant(_), Value::Listed(listed, variable)) = (left, right)
        {
            let alone =
                |value| if let Value::Listed(..) = value { Value::Affine(listed.outer, variable) } else { value };
            return match self.operate(operator, alone(left), alone(right), span, context)? {
                Value::Affine(outer, _) => Ok(Value::Listed(Listed { outer, ..listed }, variable)),
                _ => self.listed_within(span),
            };
        }
        let (affine, variable) = match (operator, left, right) {
            (_, Value::Listed(..), _) | (_, _, Value::Listed(..)) => return self.listed_within(span),
            (_, Value::Constant(left), Value::Constant(right)) => {
                let value = match operator {
                    Add => left.checked_add(right),
                    Subtract => left.checked_sub(right),
                    Multiply => left.checked_mul(right),
                    Divide => floor(left, right),
                    _ => floor(left, right).and_then(|quotient| left.checked_sub(quotient.checked_mul(right)?)),
                };
                return self.whole(value, span);
            }
            (Add, Value::Affine(affine, variable), Value::Constant(constant))
            | (Add, Value::Constant(constant), Value::Affine(affine, variable)) => (affine.plus(constant), variable),
            (Subtract, Value::Affine(affine, variable), Value::Constant(constant)) => {
                (constant.checked_neg().ok_or(Overflow).and_then(|constant| affine.plus(constant)), variable)
            }
            (Subtract, Value::Constant(constant), Value::Affine(affine, variable)) => {
                (affine.negate().plus(constant), variable)
            }
            (Multiply, Value::Affine(affine, variable), Value::Constant(constant))
            | (Multiply, Value::Constant(constant), Value::Affine(affine, variable)) => {
                (affine.times(constant), variable)
            }
            (Divide, Value::Affine(affine, variable), Value::Constant(constant)) => (affine.over(constant), variable),
            (Add, Value::Affine(left, one), Value::Affine(right, other)) if one.name == other.name => {
                (left.sum(right), one)
            }
            (Subtract, Value::Affine(left, one), Value::Affine(right, other)) if one.name == other.name => {
                (left.sum(right.negate()), one)
            }
            (_, Value::Affine(_, one), Value::Affine(_, other)) if one.name != other.name => {
                return self.two_variables(one, other, span, context);
            }
            (Remainder, Value::Affine(affine, variable), Value::Constant(modulus)) if modulus > 0 => {
                return Ok(Value::Wrapped(affine, modulus as u64, variable));
            }
            (_, Value::Wrapped(..), _) | (_, _, Value::Wrapped(..)) => return self.wrapped_within(span),
            _ => {
                let help = "an index is (a*x + b) / c, with numbers a, b and c";
                return self.fail(Problem::new(Code::Index, span, "this index is no straight line").help(help));
            }
        };
        match affine {
            Ok(affine) => Ok(Value::Affine(affine, variable)),
            Err(Overflow) => self.overflow(span),
        }
    }

    fn wrapped_within<T>(&mut self, span: Span) -> Resolved<T> {
        let problem = Problem::new(Code::Index, span, "nothing follows `%` in an index but its number");
        self.fail(problem.help("an index that wraps around is ((a*x + b) / c) % n, with numbers a, b, c and n"))
    }

    fn two_variables(
        &mut self,
        one: Variable<'a>,
        other: Variable<'a>,
        span: Span,
        context: Context<'_, 'a>,
    ) -> Resolved<Value<'a>> {
        let Context::Index(known) = context else { return self.unbound(one.name, one.span) };
        match (known.contains(&one.name), known.contains(&other.name)) {
            (true, false) => self.unbound(other.name, other.span),
            (false, true) => self.unbound(one.name, one.span),
            _ => {
                let message = format!("two variables in one index: `{}` and `{}`", clip(one.name), clip(other.name));
                let problem = Problem::new(Code::Index, span, message);
                let help = "an index holds one variable; a name that is meant as a number needs `const` or a binding";
                let problem = problem.help(help);
                self.fail(problem)
            }
        }
    }

    fn whole(&mut self, value: Option<i64>, span: Span) -> Resolved<Value<'a>> {
        match value {
            Some(value) => Ok(Value::Constant(value)),
            None => self.overflow(span),
        }
    }

    pub fn overflow<T>(&mut self, span: Span) -> Resolved<T> {
        self.fail(Problem::new(Code::Arithmetic, span, "this does not fit a 64-bit integer"))
    }

    // Types.

    fn is_type(&self, name: &str) -> bool {
        Primitive::from_name(name).is_some()
            || self.types.contains_key(name)
            || self.outer.is_some_and(|outer| outer.types.contains_key(name))
    }

    /// The type of a name.
    pub fn type_named(&mut self, name: &'a str, span: Span) -> Resolved<Type> {
        Ok(self.measured_named(name, span)?.kind)
    }

    /// The type that is written.
    pub fn type_written(&mut self, expression: &'a TypeExpression) -> Resolved<Type> {
        Ok(self.measured(expression)?.kind)
    }

    fn measured_named(&mut self, name: &'a str, span: Span) -> Resolved<Measured> {
        if let Some(primitive) = Primitive::from_name(name) {
            let (size, alignment) = (primitive.size_bytes(), primitive.word_bytes());
            return Ok(Measured { kind: Type::Primitive(primitive), depth: 0, leaves: 1, size, alignment });
        }
        let Some(kind) = self.types.get_mut(name) else {
            if let Some(kind) = self.outer.and_then(|outer| outer.types.get(name)) {
                // It is only compared with others here, never part of an object.
                return Ok(Measured { kind: kind.clone(), depth: 0, leaves: 1, size: 1, alignment: 1 });
            }
            return self.unknown_type(name, span);
        };
        match &kind.state {
            State::Done(measured) => return Ok(measured.clone()),
            State::Failed => return Err(Noted),
            State::Busy => return self.circle("types contain each other", span),
            State::Waiting => {}
        }
        kind.state = State::Busy;
        let syntax = self.syntax;
        let declaration = &syntax.types[kind.declaration];
        let measured = self.nested(declaration.name, |names| names.measured(&declaration.kind));
        let measured = measured.map(|measured| match measured.kind {
            Type::Record(record) if record.name().is_none() => {
                Measured { kind: Type::Record(Arc::new(record.named(name))), ..measured }
            }
            _ => measured,
        });
        if let Some(kind) = self.types.get_mut(name) {
            kind.state = measured.clone().map_or(State::Failed, State::Done);
        }
        measured
    }

    fn unknown_type<T>(&mut self, name: &str, span: Span) -> Resolved<T> {
        if name.strip_prefix("string").is_some_and(|length| length.chars().all(|c| c.is_ascii_digit())) {
            let problem = Problem::new(Code::Unknown, span, format!("`{}` has no length that is possible", clip(name)));
            return self.fail(problem.help("write `string16` for 16 bytes"));
        }
        let aliases = [
            ("double", "float64"),
            ("float", "float32"),
            ("half", "float16"),
            ("bf16", "bfloat16"),
            ("int", "int32"),
            ("uint", "uint32"),
            ("char", "int8"),
            ("byte", "uint8"),
            ("long", "int64"),
            ("string", "string16"),
            ("complex", "complex128"),
        ];
        let problem = Problem::new(Code::Unknown, span, format!("no type is named `{}`", clip(name)));
        let problem = match aliases.iter().find(|(alias, _)| *alias == name.to_lowercase()) {
            Some((_, meant)) => problem.help(format!("did you mean `{meant}`?")),
            None => {
                let outer = self.outer.iter().flat_map(|outer| outer.types.keys().map(|name| &**name));
                let declared = self.types.keys().copied().chain(outer);
                problem.suggest(name, declared.chain(Primitive::NAMED.iter().map(|(name, _)| *name)))
            }
        };
        self.fail(problem)
    }

    fn measured(&mut self, expression: &'a TypeExpression) -> Resolved<Measured> {
        // Twice as deep as is allowed, so that a type that is only just too deep is told where it is.
        if self.depth > 2 * DEPTH_MAX {
            let (TypeExpression::Name(span) | TypeExpression::Array { span, .. } | TypeExpression::Record { span, .. }) =
                expression;
            let message = format!("types contain each other deeper than {DEPTH_MAX}");
            return self.fail(Problem::new(Code::Limit, *span, message));
        }
        self.depth += 1;
        let measured = self.measured_here(expression);
        self.depth -= 1;
        measured
    }

    fn measured_here(&mut self, expression: &'a TypeExpression) -> Resolved<Measured> {
        match expression {
            TypeExpression::Name(span) => self.measured_named(self.text(*span), *span),
            TypeExpression::Array { extents, element, span } => {
                // All extents are looked at before the first mistake counts.
                let extents: Vec<Resolved<u64>> = extents.iter().map(|extent| self.extent(extent)).collect();
                let element = self.measured(element)?;
                let extents: Vec<u64> = extents.into_iter().collect::<Resolved<_>>()?;
                let size = extents.iter().try_fold(element.size, |size, extent| size.checked_mul(*extent));
                let Some(size) = size.filter(|size| *size <= i64::MAX as u64) else {
                    let message = format!("{} is larger than 2^63 - 1 bytes", Type::array(extents, element.kind));
                    return self.fail(Problem::new(Code::Arithmetic, *span, message));
                };
                self.work(1, *span)?;
                let kind = Type::Array(Arc::new(Array { extents, element: element.kind }));
                self.limited(Measured { kind, depth: element.depth + 1, size, ..element }, *span)
            }
            TypeExpression::Record { fields: declared, span } => {
                let mut fields: Vec<Field> = Vec::new();
                let mut seen: HashMap<&str, Span> = HashMap::new();
                let mut place = Placement::new(Packing::Aligned);
                let (mut depth, mut leaves, mut failed) = (0, 0, false);
                for field in declared {
                    let kind = self.measured(&field.kind);
                    for name_span in &field.names {
                        let name = self.text(*name_span);
                        if let Some(first) = seen.insert(name, *name_span) {
                            self.problems.push(twice("fields", name, *name_span, first));
                            failed = true;
                            continue;
                        }
                        let Ok(kind) = &kind else {
                            failed = true;
                            continue;
                        };
                        self.work(1, *name_span)?;
                        if place.add(kind.size, kind.alignment).and(place.size_bytes()).is_none() {
                            let message = "this record is larger than 2^63 - 1 bytes";
                            return self.fail(Problem::new(Code::Arithmetic, *name_span, message));
                        }
                        depth = depth.max(kind.depth + 1);
                        leaves += kind.leaves;
                        fields.push(Field { name: name.into(), kind: kind.kind.clone() });
                        if leaves > u64::from(LEAVES_MAX) {
                            let message = format!("this record has more than {LEAVES_MAX} numbers in all its fields");
                            return self.fail(Problem::new(Code::Limit, *name_span, message));
                        }
                    }
                }
                if failed {
                    return Err(Noted);
                }
                if fields.is_empty() {
                    return self.fail(Problem::new(Code::Empty, *span, "a record of no fields"));
                }
                let (size, alignment) = (place.size_bytes().unwrap_or(0), place.alignment_bytes());
                let kind = Type::Record(Arc::new(Record::new(None, fields)));
                self.limited(Measured { kind, depth, leaves, size, alignment }, *span)
            }
        }
    }

    fn limited(&mut self, measured: Measured, span: Span) -> Resolved<Measured> {
        if measured.depth > DEPTH_MAX {
            let message = format!("types contain each other deeper than {DEPTH_MAX}");
            return self.fail(Problem::new(Code::Limit, span, message));
        }
        Ok(measured)
    }
}

/// Two things of one kind with one name.
pub fn twice(what: &str, name: &str, span: Span, first: Span) -> Problem {
    let problem = Problem::new(Code::Duplicate, span, format!("two {what} are named `{}`", clip(name)));
    problem.label(first, "the first").help("give one of them another name")
}

fn floor(dividend: i64, divisor: i64) -> Option<i64> {
    let quotient = dividend.checked_div(divisor)?;
    let down = dividend % divisor != 0 && (dividend < 0) != (divisor < 0);
    Some(if down { quotient - 1 } else { quotient })
}
