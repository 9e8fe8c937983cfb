//! Fields in braces, which stand on both sides of a variable.

use std::{collections::HashMap, sync::Arc};

use super::names::{Names, Noted, Resolved, SUGGESTION_WORK, twice};
use crate::{
    text::{
        diagnostic::{Code, Problem, clip},
        source::Span,
        syntax::{Pattern, PatternField},
    },
    types::Type,
};

/// Goes through the fields in braces: refuses names that stand there twice and, where a type follows, those that it does
/// not have and leaves out none that it has.
pub fn each_field<'a>(
    names: &mut Names<'a>,
    fields: &'a [PatternField],
    braces: Span,
    expected: Option<(&Type, Span)>,
    mut visit: impl FnMut(&mut Names<'a>, Span, &'a Pattern, Option<(&Type, Span)>) -> Resolved<()>,
) -> Resolved<()> {
    let record = match expected {
        Some((Type::Record(record), _)) => Some(record),
        Some((kind, span)) => {
            let problem = Problem::new(Code::Mismatch, span, format!("{kind} is no record"));
            return names.fail(problem.label(braces, "these are its fields"));
        }
        None => None,
    };
    let mut seen: HashMap<&str, Span> = HashMap::new();
    let mut failed = false;
    for field in fields {
        if names.skipped(field).is_some() {
            continue;
        }
        for span in &field.names {
            let name = names.text(*span);
            names.work(1, *span)?;
            if let Some(first) = seen.get(name) {
                names.problems.push(twice("fields", name, *span, *first));
                failed = true;
                continue;
            }
            seen.insert(name, *span);
            let inner = match (record, expected) {
                (Some(record), Some((kind, kind_span))) => match record.field(name) {
                    // What the braces write behind a field says more than its type.
                    Some(_) if !field.pattern.parts.is_empty() => None,
                    Some((_, inner)) => Some((&inner.kind, kind_span)),
                    None => {
                        let message = format!("`{}` is no field of {kind}", clip(name));
                        let known = record.fields().iter().map(|field| &*field.name);
                        names.work(SUGGESTION_WORK, *span)?;
                        names.problems.push(Problem::new(Code::Unknown, *span, message).suggest(name, known));
                        failed = true;
                        continue;
                    }
                },
                _ => None,
            };
            failed |= visit(names, *span, &field.pattern, inner).is_err();
        }
    }
    if seen.is_empty() {
        return names.fail(Problem::new(Code::Empty, braces, "no field is chosen here"));
    }
    if let (Some(record), Some((kind, span)), false) = (record, expected, failed)
        && let Some(left_out) = record.fields().iter().find(|field| !seen.contains_key(&*field.name))
    {
        let message = format!("{kind} has a field `{}`, which the braces leave out", left_out.name);
        return names.fail(Problem::new(Code::Mismatch, span, message).label(braces, "these are its fields"));
    }
    if failed { Err(Noted) } else { Ok(()) }
}

/// The name of a record's type, if it has one.
pub fn record_name(kind: &Type) -> Option<Arc<str>> {
    match kind {
        Type::Record(record) => record.name().cloned(),
        _ => None,
    }
}

/// A type names a field of another that this has not.
pub fn missing_field(wanted: &Type, field: &str, from: &dyn std::fmt::Display, span: Span) -> Problem {
    Problem::new(Code::Mismatch, span, format!("{wanted} has a field `{field}`, which {from} has not"))
}

/// `1 index`, `2 indices`.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// The first names of a list.
pub fn listed<'s>(names: impl Iterator<Item = &'s str>) -> String {
    let mut names: Vec<&str> = names.take(9).collect();
    let more = names.len() == 9;
    names.truncate(8);
    format!("{}{}", names.join(", "), if more { ", …" } else { "" })
}
