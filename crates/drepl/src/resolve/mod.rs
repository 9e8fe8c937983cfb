//! From a syntax tree and numbers for its names to objects, fragments and replicas.

mod affine;
mod fields;
mod left;
mod link;
mod local;
mod names;
mod points;
mod replica;
mod right;
mod variable;
mod view;

use std::{collections::HashMap, sync::Arc};

use names::{Names, Noted, twice};

use crate::{
    bindings::Bindings,
    dataset::{Dataset, DatasetError, LEAVES_MAX, Object},
    fragment::Fragment,
    schema::{Schema, View},
    text::{
        diagnostic::{Code, Diagnostics, Problem},
        parser::parse_view,
        source::Span,
        syntax::Syntax,
    },
};

/// Everything a text describes.
pub fn schema(syntax: &Syntax, bindings: &Bindings) -> Result<Schema, Diagnostics> {
    let mut names = Names::new(syntax, bindings, None);
    names.resolve_all();
    let (dataset, whole) = dataset(&mut names);
    let mut schema = Schema {
        dataset: Arc::new(dataset),
        constants: HashMap::new(),
        bindings: bindings.clone(),
        types: HashMap::new(),
        views: Vec::new(),
        replicas: Vec::new(),
    };
    if whole {
        let views = view::views(&mut names, &schema.dataset);
        replica::replicas(&mut names, &schema.dataset, &views, &mut schema.replicas);
        schema.views = views.into_iter().flatten().collect();
    }
    if !names.problems.is_empty() {
        return Err(Diagnostics::new(names.sources, names.problems));
    }
    schema.constants = names.constants();
    schema.types = names.types();
    Ok(schema)
}

impl Schema {
    /// One more view of the objects, from a text of its own: `{ var g[x:16,y:32] = grid[x+xmin,y] }`, or with `view`, a
    /// name and attributes before the brace. It may use the constants, types and bindings of the schema; `bindings`
    /// come on top of them.
    pub fn parse_view(&self, text: &str, bindings: &Bindings) -> Result<View, Diagnostics> {
        let syntax = parse_view("<view>", text)?;
        let mut names = Names::new(&syntax, bindings, Some(self));
        names.resolve_all();
        let found = match syntax.views.first() {
            Some(declaration) => view::resolve(&mut names, &self.dataset, declaration),
            None => Err(Noted),
        };
        match found {
            Ok(view) if names.problems.is_empty() => Ok(view),
            _ => Err(Diagnostics::new(names.sources, names.problems)),
        }
    }

    /// The fragment of one more view: see [`Schema::parse_view`].
    pub fn fragment(&self, text: &str, bindings: &Bindings) -> Result<Arc<Fragment>, Diagnostics> {
        Ok(self.parse_view(text, bindings)?.fragment)
    }
}

/// The objects, and whether they are few and small enough to be looked at. Those with mistakes are left out.
fn dataset(names: &mut Names<'_>) -> (Dataset, bool) {
    let syntax = names.syntax;
    let mut objects = Vec::new();
    let mut spans: HashMap<&str, Span> = HashMap::new();
    for declaration in &syntax.objects {
        let kind = names.type_written(&declaration.kind);
        for span in &declaration.names {
            let name = names.text(*span);
            if let Some(first) = spans.insert(name, *span) {
                names.problems.push(twice("objects", name, *span, first));
                spans.insert(name, first);
                continue;
            }
            match &kind {
                Ok(kind) => objects.push(Object { name: name.into(), kind: kind.clone() }),
                Err(Noted) => {
                    names.lost.insert(name);
                }
            }
        }
    }
    match Dataset::new(objects) {
        Ok(dataset) => (dataset, true),
        Err(error) => {
            let (DatasetError::TwoNames { name }
            | DatasetError::TwoFields { object: name, .. }
            | DatasetError::Empty { object: name }
            | DatasetError::TooDeep { object: name }
            | DatasetError::TooLarge { object: name }
            | DatasetError::TooManyLeaves { object: name }) = &error;
            let span = spans.get(&**name).copied().unwrap_or_default();
            let message = match error {
                DatasetError::TooManyLeaves { .. } => {
                    format!("up to here the objects have more than {LEAVES_MAX} leaves")
                }
                _ => error.to_string(),
            };
            names.problems.push(Problem::new(Code::Limit, span, message));
            (Dataset::default(), false)
        }
    }
}
