//! From tokens to the syntax tree. After a mistake it goes on at the next declaration, so that all are found at once.

use smallvec::SmallVec;

use super::{
    cursor::{Noted, Parsed, Parser},
    diagnostic::{Code, Diagnostics, Problem, clip},
    loader::Loader,
    source::Span,
    syntax::*,
    token::{Bracket, Kind, LEAST, too_large},
};
use crate::{
    fill::Fill,
    types::{AxisOrder, ByteOrder, DEPTH_MAX, Packing},
};

/// Words between a view's or replica's name and its brace.
const ATTRIBUTES: [&str; 10] = [
    "rowmajor",
    "columnmajor",
    "bigendian",
    "littleendian",
    "packed",
    "aligned",
    "default",
    "readonly",
    "clipped",
    "fill",
];

/// Reads a text and what it includes.
pub fn parse(name: &str, text: &str, loader: &mut dyn Loader) -> Result<Syntax, Diagnostics> {
    let mut parser = Parser::new(loader);
    parser.read(name, text, None);
    parser.finish()
}

/// Reads one view: `{ … }`, or `view … { … }`.
pub fn parse_view(name: &str, text: &str) -> Result<Syntax, Diagnostics> {
    let mut loader = super::loader::Nothing;
    let mut parser = Parser::new(&mut loader);
    parser.read_view(name, text);
    parser.finish()
}

impl Parser<'_> {
    fn read(&mut self, name: &str, text: &str, asked: Option<Span>) {
        let Ok(before) = self.begin(name, text, asked) else { return };
        while self.peek() != Kind::End && !self.enough() {
            let start = self.at;
            if self.declaration().is_err() {
                self.recover(start);
            }
        }
        self.end(before);
    }

    fn read_view(&mut self, name: &str, text: &str) {
        let Ok(before) = self.begin(name, text, None) else { return };
        while self.accept(Kind::Semicolon).is_some() {}
        let mut view = Ok(());
        match self.peek() {
            Kind::View | Kind::Open(Bracket::Brace) => view = self.view(),
            _ => {
                let problem = self.unexpected("a view").help("write `{ var a [x:16] = grid[x] }`");
                self.problems.push(problem);
            }
        }
        while self.accept(Kind::Semicolon).is_some() {}
        if view.is_ok() && self.problems.is_empty() && self.peek() != Kind::End {
            let problem = self.unexpected("nothing but one view");
            self.problems.push(problem);
        }
        self.end(before);
    }

    fn include(&mut self, name: Span) {
        let written = self.unquote(name);
        let refuse = |why: String| Problem::new(Code::Include, name, format!("cannot include \"{written}\": {why}"));
        let from = self.open.last().cloned().unwrap_or_else(|| "".into());
        let loaded = match self.loader.load(&written, &from) {
            Ok(loaded) => loaded,
            Err(why) => return self.problems.push(refuse(why)),
        };
        if let Some(first) = self.open.iter().position(|open| **open == *loaded.name) {
            let circle: Vec<&str> = self.open[first..].iter().map(|name| &**name).collect();
            let message = format!("\"{written}\" includes itself");
            let problem = Problem::new(Code::Cycle, name, message);
            self.problems.push(problem.help(format!("{} → {}", circle.join(" → "), loaded.name)));
        } else if self.open.len() >= DEPTH_MAX {
            self.problems.push(refuse(format!("texts include each other deeper than {DEPTH_MAX}")));
        } else if !self.read.contains(&*loaded.name) {
            self.read(&loaded.name, &loaded.text, Some(name));
        }
    }

    // Declarations.

    fn declaration(&mut self) -> Parsed<()> {
        match self.peek() {
            Kind::Semicolon => {
                self.next();
                Ok(())
            }
            Kind::Dataset => self.dataset(),
            Kind::View | Kind::Open(Bracket::Brace) => self.view(),
            Kind::Replica => self.replica(),
            Kind::Type | Kind::Const | Kind::Var => self.member(),
            _ => {
                let token = self.token();
                let mut problem = self.unexpected("a declaration");
                let words = ["var", "const", "type", "dataset", "view", "replica"];
                let written = self.sources.text(token.span);
                problem = problem.suggest(written, words);
                if problem.help.is_none() {
                    let help = "a declaration begins with `var`, `const`, `type`, `dataset`, `view` or `replica`";
                    problem = problem.help(help);
                }
                self.problems.push(problem);
                Err(Noted)
            }
        }
    }

    fn dataset(&mut self) -> Parsed<()> {
        self.next();
        if let Some(name) = self.accept(Kind::Text) {
            self.include(name);
            return Ok(());
        }
        let open = self.expect(Kind::Open(Bracket::Brace), "`{`, or the name of a file in quotes")?;
        self.block(open, |parser| match parser.peek() {
            Kind::Type | Kind::Const | Kind::Var => parser.member(),
            Kind::View => {
                let problem = parser.unexpected("`var`, `const` or `type`");
                parser.problems.push(problem.help("views stand behind the dataset's braces"));
                parser.view()
            }
            _ => parser.refuse("`var`, `const` or `type`"),
        })?;
        Ok(())
    }

    /// `type`, `const` or `var` of a dataset.
    fn member(&mut self) -> Parsed<()> {
        match self.next().kind {
            Kind::Type => {
                let name = self.expect_name("the name of a type")?;
                let kind = self.type_expression()?;
                self.syntax.types.push(TypeDeclaration { name, kind });
            }
            Kind::Const => {
                let name = self.expect_name("the name of a constant")?;
                self.expect(Kind::Equals, "`=`")?;
                let value = match self.accept(Kind::Open(Bracket::Square)) {
                    None => ConstantValue::Number(self.expression()?),
                    Some(_) => {
                        let mut numbers = Vec::new();
                        self.list(Self::expression, |number| numbers.push(number))?;
                        self.expect(Kind::Close(Bracket::Square), "`,` or `]`")?;
                        ConstantValue::List(numbers)
                    }
                };
                self.syntax.constants.push(ConstantDeclaration { name, value });
            }
            _ => {
                let names = self.names("the name of an object")?;
                let kind = self.type_expression()?;
                self.syntax.objects.push(ObjectDeclaration { names, kind });
                if self.peek() == Kind::Open(Bracket::Square) {
                    let problem = self.unexpected("the next declaration");
                    self.problems.push(problem.help("extents stand before the type of the elements: `[10]float64`"));
                    return Err(Noted);
                }
                if self.peek() == Kind::Equals {
                    let problem = self.unexpected("the next declaration");
                    let help =
                        "objects have no layout; what is cut out of them stands in a view: `{ var a [i] = b[i] }`";
                    self.problems.push(problem.help(help));
                    return Err(Noted);
                }
            }
        }
        Ok(())
    }

    fn type_expression(&mut self) -> Parsed<TypeExpression> {
        self.deeper(|parser| match parser.peek() {
            Kind::Name => Ok(TypeExpression::Name(parser.next().span)),
            Kind::Open(Bracket::Square) => {
                let open = parser.next().span;
                let mut extents = Vec::new();
                parser.list(Self::expression, |extent| extents.push(extent))?;
                let close = parser.expect(Kind::Close(Bracket::Square), "`,` or `]`")?;
                let element = Box::new(parser.type_expression()?);
                Ok(TypeExpression::Array { extents, element, span: open.to(close) })
            }
            Kind::Struct => {
                let start = parser.next().span;
                let open = parser.expect(Kind::Open(Bracket::Brace), "`{`")?;
                let mut fields = Vec::new();
                let close = parser.fields_block(open, |parser| {
                    let names = parser.names("the name of a field")?;
                    let kind = parser.type_expression()?;
                    fields.push(FieldDeclaration { names, kind });
                    Ok(())
                })?;
                Ok(TypeExpression::Record { fields, span: start.to(close) })
            }
            _ => parser.refuse("a type"),
        })
    }

    fn attributes(&mut self, known: &[&str]) -> Parsed<Attributes> {
        let mut attributes = Attributes::default();
        while self.peek() == Kind::Name {
            let span = self.next().span;
            let word = &*self.sources.text(span).to_owned();
            let mut before = None;
            match word {
                "complete" => before = attributes.complete.replace(span),
                "default" => before = attributes.default.replace(span),
                "readonly" => before = attributes.readonly.replace(span),
                "clipped" => before = attributes.clipped.replace(span),
                "rowmajor" => before = note(&mut attributes.order, AxisOrder::RowMajor, span),
                "columnmajor" => before = note(&mut attributes.order, AxisOrder::ColumnMajor, span),
                "bigendian" => before = note(&mut attributes.byte_order, ByteOrder::BigEndian, span),
                "littleendian" => before = note(&mut attributes.byte_order, ByteOrder::LittleEndian, span),
                "packed" => before = note(&mut attributes.packing, Packing::Packed, span),
                "aligned" => before = note(&mut attributes.packing, Packing::Aligned, span),
                "fill" => {
                    let value = self.fill_value()?;
                    before = note(&mut attributes.fill, value, span);
                }
                _ => {}
            }
            if !known.contains(&word) {
                let message = format!("`{}` is no attribute here", clip(word));
                let problem = Problem::new(Code::Syntax, span, message).suggest(word, known.iter().copied());
                let problem = match problem.help {
                    Some(_) => problem,
                    None => problem.help(format!("there are {}", known.join(", "))),
                };
                self.problems.push(problem);
                continue;
            }
            self.twice(span, before, "view");
        }
        if let (Some(default), Some(readonly)) = (attributes.default, attributes.readonly) {
            let message = "a view is either `default` or `readonly`";
            let help = "what is written to views that are stored nowhere goes to the default one";
            self.problems.push(Problem::new(Code::Duplicate, default, message).label(readonly, "here").help(help));
        }
        Ok(attributes)
    }

    /// What stands behind `fill`.
    fn fill_value(&mut self) -> Parsed<Fill> {
        let minus = self.accept(Kind::Minus);
        let token = self.token();
        match (token.kind, minus) {
            (Kind::Name, None) if self.sources.text(token.span) == "nan" => {
                self.next();
                Ok(Fill::NotANumber)
            }
            (Kind::Number(number), _) => {
                self.next();
                if self.peek() == Kind::Dot {
                    return self.refuse("what holes have as a whole number, or `nan`");
                }
                let sign = if minus.is_some() { -1 } else { 1 };
                match i64::try_from(sign * i128::from(number)) {
                    Ok(number) => Ok(Fill::Number(number)),
                    Err(_) => {
                        let message = too_large(self.sources.text(token.span));
                        self.problems.push(Problem::new(Code::Arithmetic, token.span, message));
                        Err(Noted)
                    }
                }
            }
            _ => self.refuse("what holes have: a whole number, or `nan`"),
        }
    }

    /// Refuses an attribute that says what another has said, or the contrary.
    fn twice(&mut self, span: Span, before: Option<Span>, of: &str) {
        let Some(before) = before else { return };
        let word = self.sources.text(span);
        let message = match self.sources.text(before) {
            same if same == word => format!("`{word}` stands here twice"),
            other => format!("a {of} is either `{other}` or `{word}`"),
        };
        self.problems.push(Problem::new(Code::Duplicate, span, message).label(before, "the first"));
    }

    fn view(&mut self) -> Parsed<()> {
        let start = self.token().span;
        let mut name = None;
        let mut attributes = Attributes::default();
        if self.accept(Kind::View).is_some() {
            if self.peek() == Kind::Name && !ATTRIBUTES.contains(&self.sources.text(self.token().span)) {
                name = Some(self.next().span);
            }
            attributes = self.attributes(&ATTRIBUTES)?;
        }
        let span = start.to(self.behind());
        let open = self.expect(Kind::Open(Bracket::Brace), "`{`")?;
        let span = name.unwrap_or(if span.end > span.start { span } else { open });
        let mut variables = Vec::new();
        let closed = self.block(open, |parser| match parser.peek() {
            Kind::Var => {
                variables.push(parser.variable()?);
                Ok(())
            }
            Kind::Const | Kind::Type => parser.member(),
            _ => parser.refuse("`var`"),
        });
        self.syntax.views.push(ViewDeclaration { name, attributes, variables, span });
        closed.map(|_| ())
    }

    fn variable(&mut self) -> Parsed<VariableDeclaration> {
        self.next();
        let name = self.expect_name("the name of a variable")?;
        let left = self.pattern(true)?;
        self.expect(Kind::Equals, "`=`")?;
        let object = self.expect_name("the name of an object")?;
        let right = self.pattern(false)?;
        Ok(VariableDeclaration { name, left, object, right, span: name.to(self.behind()) })
    }

    fn pattern(&mut self, left: bool) -> Parsed<Pattern> {
        let mut parts = Vec::new();
        let start = self.behind();
        loop {
            match self.peek() {
                Kind::Open(Bracket::Square) => {
                    self.next();
                    let mut indices = Vec::new();
                    self.list(|parser| parser.index(left), |index| indices.push(index))?;
                    self.expect(Kind::Close(Bracket::Square), "`,` or `]`")?;
                    parts.push(PatternPart::Indices(indices));
                }
                Kind::Dot => {
                    let dot = self.next().span;
                    let field = self.expect_name("the name of a field")?;
                    if left {
                        let problem = Problem::new(Code::Syntax, dot.to(field), "fields are chosen on the right");
                        let written = self.sources.text(field).to_string();
                        self.problems.push(problem.help(format!("write `.{written}` behind the object")));
                        return Err(Noted);
                    }
                    parts.push(PatternPart::Field(field));
                }
                Kind::Open(Bracket::Brace) => {
                    parts.push(self.deeper(|parser| parser.fields(left))?);
                    if self.peek() == Kind::Name && !self.token().fresh_line {
                        parts.push(PatternPart::Type(self.next().span));
                    }
                    break;
                }
                // A name in the next line is the next field, not the type of this one.
                Kind::Name if !self.token().fresh_line => {
                    parts.push(PatternPart::Type(self.next().span));
                    break;
                }
                _ => break,
            }
        }
        let end = self.behind();
        let span = if parts.is_empty() { start } else { Span { end: end.end, ..start } };
        Ok(Pattern { parts, span })
    }

    fn fields(&mut self, left: bool) -> Parsed<PatternPart> {
        let open = self.next().span;
        let mut fields = Vec::new();
        let close = self.fields_block(open, |parser| {
            let word = parser.token().span;
            if parser.skips() {
                parser.next();
                let skip = Some(parser.expression()?);
                if !left {
                    let problem = Problem::new(Code::Syntax, word, "bytes are left out on the left");
                    parser.problems.push(problem.help("write `var a [i]{rho; skip 4; id} = b[i]{rho; id}`"));
                    return Err(Noted);
                }
                fields.push(PatternField { names: Vec::new(), pattern: Pattern::default(), skip });
                return Ok(());
            }
            let skip = if left { parser.lone_skip() } else { None };
            let names = parser.names("the name of a field")?;
            let pattern = parser.pattern(left)?;
            fields.push(PatternField { names, pattern, skip });
            Ok(())
        })?;
        Ok(PatternPart::Fields { fields, span: open.to(close) })
    }

    /// Whether bytes are left out here, and this is no field that is called so: a number follows, or what only an expression can be.
    fn skips(&self) -> bool {
        self.is_skip()
            && match self.kind(1) {
                Some(Kind::Number(_) | Kind::Open(Bracket::Round) | Kind::Minus) => true,
                Some(Kind::Name) => matches!(
                    self.kind(2),
                    Some(
                        Kind::Plus
                            | Kind::Minus
                            | Kind::Star
                            | Kind::Slash
                            | Kind::Percent
                            | Kind::Open(Bracket::Square)
                    )
                ),
                _ => false,
            }
    }

    /// The name behind `skip`, where nothing but a name follows: the number of bytes, unless it is the type of a field that is called so.
    fn lone_skip(&self) -> Option<Expression> {
        let name = self.tokens.get(self.at + 1).filter(|next| next.kind == Kind::Name && !next.fresh_line)?;
        let step = Step { kind: StepKind::Name, span: name.span };
        self.is_skip().then(|| Expression { steps: SmallVec::from_iter([step]), span: name.span })
    }

    fn is_skip(&self) -> bool {
        self.peek() == Kind::Name && self.sources.text(self.token().span) == "skip"
    }

    /// What a token behind the one at hand is.
    fn kind(&self, behind: usize) -> Option<Kind> {
        self.tokens.get(self.at + behind).map(|token| token.kind)
    }

    fn index(&mut self, left: bool) -> Parsed<Index> {
        let start = self.token().span;
        let written = !matches!(self.peek(), Kind::Comma | Kind::Close(Bracket::Square) | Kind::Colon);
        let expression = if written { Some(self.expression()?) } else { None };
        let mut extent = None;
        if let Some(colon) = self.accept(Kind::Colon) {
            let value = self.expression()?;
            if !left {
                let problem = Problem::new(Code::Syntax, colon.to(value.span), "extents stand on the left");
                self.problems.push(problem.help("write `var a [x:16] = grid[x]`"));
                return Err(Noted);
            }
            extent = Some(value);
        }
        let end = self.behind();
        let span = if expression.is_some() || extent.is_some() { start.to(end) } else { start };
        Ok(Index { expression, extent, span })
    }

    fn replica(&mut self) -> Parsed<()> {
        self.next();
        let mut attributes = Attributes::default();
        let mut name = None;
        // Attributes stand before the name, where any word but theirs ends them.
        while self.peek() == Kind::Name && name.is_none() {
            let span = self.next().span;
            let before = match self.sources.text(span) {
                "complete" => attributes.complete.replace(span),
                "readonly" => attributes.readonly.replace(span),
                "bigendian" => note(&mut attributes.byte_order, ByteOrder::BigEndian, span),
                "littleendian" => note(&mut attributes.byte_order, ByteOrder::LittleEndian, span),
                _ => name.replace(span),
            };
            self.twice(span, before, "replica");
        }
        let Some(name) = name else {
            self.expect_name("the name of a replica")?;
            return Err(Noted);
        };
        let file = self.accept(Kind::Text).map(|span| {
            let file = self.unquote(span);
            if file.is_empty() {
                let problem = Problem::new(Code::Syntax, span, "a file without a name");
                self.problems.push(problem.help("name it, or leave the quotes out: the caller says then where it is"));
            }
            file
        });
        let open = self.expect(Kind::Open(Bracket::Brace), "`{`, or the name of a file in quotes")?;
        let mut entries = Vec::new();
        let closed = self.block(open, |parser| {
            let token = parser.token();
            match token.kind {
                Kind::View => {
                    parser.next();
                    entries.push(ReplicaEntry::View(parser.expect_name("the name of a view")?));
                }
                Kind::Name if parser.is_skip() => {
                    parser.next();
                    entries.push(ReplicaEntry::Skip(parser.expression()?));
                }
                _ => return parser.refuse("`view` or `skip`"),
            }
            Ok(())
        });
        self.syntax.replicas.push(ReplicaDeclaration { name, attributes, file, entries, span: name });
        closed.map(|_| ())
    }

    /// A text without its quotes.
    fn unquote(&self, span: Span) -> String {
        self.sources.text(span).trim_matches('"').to_string()
    }

    // Expressions.

    fn expression(&mut self) -> Parsed<Expression> {
        let mut steps = SmallVec::new();
        let span = self.sum(&mut steps)?;
        Ok(Expression { steps, span })
    }

    fn sum(&mut self, steps: &mut SmallVec<[Step; 3]>) -> Parsed<Span> {
        let mut left = self.product(steps)?;
        loop {
            let kind = match self.peek() {
                Kind::Plus => StepKind::Add,
                Kind::Minus => StepKind::Subtract,
                _ => return Ok(left),
            };
            self.next();
            left = left.to(self.product(steps)?);
            steps.push(Step { kind, span: left });
        }
    }

    fn product(&mut self, steps: &mut SmallVec<[Step; 3]>) -> Parsed<Span> {
        let mut left = self.factor(steps)?;
        loop {
            let kind = match self.peek() {
                Kind::Star => StepKind::Multiply,
                Kind::Slash => StepKind::Divide,
                Kind::Percent => StepKind::Remainder,
                _ => return Ok(left),
            };
            self.next();
            left = left.to(self.factor(steps)?);
            steps.push(Step { kind, span: left });
        }
    }

    fn factor(&mut self, steps: &mut SmallVec<[Step; 3]>) -> Parsed<Span> {
        self.deeper(|parser| {
            let token = parser.token();
            match token.kind {
                Kind::Number(number) => {
                    parser.next();
                    let number = i64::try_from(number).unwrap_or_else(|_| {
                        let message = too_large(parser.sources.text(token.span));
                        parser.problems.push(Problem::new(Code::Arithmetic, token.span, message));
                        1
                    });
                    steps.push(Step { kind: StepKind::Number(number), span: token.span });
                    Ok(token.span)
                }
                Kind::Name => {
                    parser.next();
                    if parser.accept(Kind::Open(Bracket::Square)).is_none() {
                        steps.push(Step { kind: StepKind::Name, span: token.span });
                        return Ok(token.span);
                    }
                    parser.sum(steps)?;
                    let close = parser.expect(Kind::Close(Bracket::Square), "`]`")?;
                    steps.push(Step { kind: StepKind::Element, span: token.span });
                    Ok(token.span.to(close))
                }
                Kind::Minus => {
                    parser.next();
                    if let Some(digits) = parser.accept(Kind::Number(LEAST)) {
                        let span = token.span.to(digits);
                        steps.push(Step { kind: StepKind::Number(i64::MIN), span });
                        return Ok(span);
                    }
                    let span = token.span.to(parser.factor(steps)?);
                    steps.push(Step { kind: StepKind::Negate, span });
                    Ok(span)
                }
                Kind::Open(Bracket::Round) => {
                    parser.next();
                    parser.sum(steps)?;
                    let close = parser.expect(Kind::Close(Bracket::Round), "`)`")?;
                    Ok(token.span.to(close))
                }
                _ => parser.refuse("a number, a name or `(`"),
            }
        })
    }
}

fn note<T>(place: &mut Option<(T, Span)>, value: T, span: Span) -> Option<Span> {
    place.replace((value, span)).map(|(_, before)| before)
}
