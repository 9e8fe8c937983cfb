//! Expressions over what a version says of itself.

use crate::{Error, Result};
use rhai::packages::{ArithmeticPackage, BasicStringPackage, LogicPackage, Package};
use rhai::{AST, Dynamic, Engine, EvalAltResult, FLOAT, INT, ImmutableString, OptimizationLevel, Position, Scope};
use stillframe::{Attributes, Scalar};
use stillframe_kernel::unix_ns;

/// Far more than any condition takes.
const OPERATIONS_MAX: u64 = 10_000;
/// Names that every version has. They hide attributes of the same names, which `attributes["…"]` still gives.
const VERSION: &str = "version";
const PUBLISHED_NS: &str = "published_ns";
const AGE: &str = "age";
const ATTRIBUTES: &str = "attributes";

/// A condition on versions, such as `step % 100 == 0 && residual < 1e-3`.
///
/// It knows the attributes of the version by their names, `version`, `published_ns`, and `age`, the seconds since it was
/// published; `attributes["wall time"]` is for names that are no identifiers. Whole and real numbers mix in arithmetic
/// (`+ - * / % **`) and comparisons; conditions are joined by `&&`, `||` and `!`. What cannot be compared is an error.
pub struct When {
    text: String,
    engine: Engine,
    ast: AST,
}

impl std::fmt::Debug for When {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("When").field(&self.text).finish()
    }
}

impl When {
    /// Reads an expression.
    ///
    /// # Errors
    /// [`Error::Expression`], which marks the place.
    pub fn parse(text: &str) -> Result<When> {
        let mut engine = engine();
        let ast = engine.compile_expression(text).map_err(|error| unreadable(text, error.1, advised(&error.0)))?;
        // What names there are is known with the first version.
        engine.set_strict_variables(true);
        Ok(When { text: text.into(), engine, ast })
    }

    /// Whether it holds for a version.
    ///
    /// # Errors
    /// [`Error::Expression`] if it names what the version does not have, compares what cannot be compared, or is neither
    /// true nor false.
    pub fn holds(&self, version: u64, published_ns: u64, attributes: &Attributes) -> Result<bool> {
        let mut scope = scope(version, published_ns, attributes);
        // Of `a && b` only one side may be looked at, and a name that is nowhere must not go unnoticed for that.
        if let Err(error) = self.engine.compile_expression_with_scope(&scope, &self.text) {
            let known =
                attributes.keys().map(String::as_str).filter(|name| ![VERSION, PUBLISHED_NS, AGE].contains(name));
            let known: Vec<&str> = known.chain([VERSION, PUBLISHED_NS, AGE]).collect();
            let why = match &*error.0 {
                rhai::ParseErrorType::VariableUndefined(name) => {
                    format!("version {version} has no attribute '{name}'; there is {}", known.join(", "))
                }
                other => other.to_string(),
            };
            return Err(unreadable(&self.text, error.1, why));
        }
        let value = self.engine.eval_ast_with_scope::<Dynamic>(&mut scope, &self.ast);
        let value = value.map_err(|error| {
            let mut error = *error;
            let place = error.take_position();
            let why = match error {
                EvalAltResult::ErrorRuntime(why, _) => why.to_string(),
                other => other.to_string(),
            };
            unreadable(&self.text, place, format!("{why} (at version {version})"))
        })?;
        value.as_bool().map_err(|kind| {
            let why = format!("it is {}, neither true nor false: compare it with something", describe(kind));
            unreadable(&self.text, Position::NONE, why)
        })
    }
}

/// What is wrong, with the operator that is meant by one of another language.
fn advised(error: &rhai::ParseErrorType) -> String {
    let why = match error {
        // The language takes a condition for a program.
        rhai::ParseErrorType::UnexpectedEOF => "it ends where something has to follow".into(),
        error => error.to_string(),
    };
    let meant = [("'='", "=="), ("'and'", "&&"), ("'or'", "||")];
    match meant.iter().find(|(other, _)| why.contains(other)) {
        Some((other, own)) => format!("{why}: write {own} for {}", other.trim_matches('\'')),
        None => why,
    }
}

fn engine() -> Engine {
    let mut engine = Engine::new_raw();
    for package in [
        ArithmeticPackage::new().as_shared_module(),
        LogicPackage::new().as_shared_module(),
        BasicStringPackage::new().as_shared_module(),
    ] {
        engine.register_global_module(package);
    }
    // The language's own package of these would bring functions along that need glibc 2.35.
    macro_rules! functions {
        ($($name:literal: $function:path),*) => {$(
            engine.register_fn($name, |x: FLOAT| $function(x));
            engine.register_fn($name, |x: INT| $function(x as FLOAT));
        )*};
    }
    functions!("sqrt": f64::sqrt, "exp": f64::exp, "ln": f64::ln, "log": f64::log10, "is_nan": f64::is_nan);
    functions!("floor": f64::floor, "ceiling": f64::ceil, "round": f64::round);
    engine.set_optimization_level(OptimizationLevel::None);
    engine.set_max_operations(OPERATIONS_MAX);
    engine.set_fail_on_invalid_map_property(true);
    // Left to itself the language finds a text neither above nor below a number, and says no more about it.
    engine.set_fast_operators(false);
    macro_rules! refuse {
        ($($left:ty, $right:ty);*) => {$(
            for operator in ["==", "!=", "<", "<=", ">", ">="] {
                engine.register_fn(operator, move |_: $left, _: $right| incomparable::<$left, $right>(operator));
                engine.register_fn(operator, move |_: $right, _: $left| incomparable::<$right, $left>(operator));
            }
        )*};
    }
    refuse!(ImmutableString, INT; ImmutableString, FLOAT; ImmutableString, bool; bool, INT; bool, FLOAT);
    refuse!(char, INT; char, FLOAT; char, bool);
    engine
}

fn incomparable<Left, Right>(operator: &str) -> std::result::Result<bool, Box<EvalAltResult>> {
    let (left, right) = (describe(std::any::type_name::<Left>()), describe(std::any::type_name::<Right>()));
    Err(format!("{left} and {right} cannot be compared with {operator}").into())
}

fn describe(kind: &str) -> &'static str {
    match kind {
        "bool" => "a truth value",
        "i64" => "a whole number",
        "f64" => "a real number",
        "()" => "nothing",
        kind if kind.contains("String") || kind == "string" || kind == "char" => "a text",
        _ => "something else",
    }
}

fn scope(version: u64, published_ns: u64, attributes: &Attributes) -> Scope<'static> {
    let whole = |number: u64| INT::try_from(number).map_or(Dynamic::from(number as FLOAT), Dynamic::from);
    let value = |scalar: &Scalar| match scalar {
        Scalar::Bool(value) => Dynamic::from(*value),
        Scalar::Int(value) => Dynamic::from(*value),
        Scalar::Float(value) => Dynamic::from(*value),
        Scalar::Text(value) => Dynamic::from(value.clone()),
    };
    let mut scope = Scope::new();
    for (name, scalar) in attributes {
        scope.push_constant_dynamic(name.as_str(), value(scalar));
    }
    let all: rhai::Map = attributes.iter().map(|(name, scalar)| (name.as_str().into(), value(scalar))).collect();
    scope.push_constant_dynamic(ATTRIBUTES, all.into());
    let now_ns = unix_ns();
    scope.push_constant_dynamic(AGE, (now_ns.saturating_sub(published_ns) as FLOAT / 1e9).into());
    scope.push_constant_dynamic(PUBLISHED_NS, whole(published_ns));
    scope.push_constant_dynamic(VERSION, whole(version));
    scope
}

/// The error for an expression, with the place marked.
fn unreadable(text: &str, place: Position, why: String) -> Error {
    let line = place.line().unwrap_or(1);
    let at: usize = text.split_inclusive('\n').take(line - 1).map(|line| line.chars().count()).sum();
    let at = place.position().map(|column| at + column - 1);
    Error::Expression { text: text.into(), at, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        Attributes::from([
            ("step".into(), 700.into()),
            ("time".into(), 3.5.into()),
            ("residual".into(), 1e-3.into()),
            ("converged".into(), false.into()),
            ("phase".into(), "melt".into()),
            ("wall time".into(), 60.5.into()),
        ])
    }

    fn holds(text: &str) -> Result<bool> {
        When::parse(text)?.holds(120, 0, &attributes())
    }

    fn why(text: &str) -> String {
        holds(text).unwrap_err().to_string()
    }

    #[test]
    fn whole_and_real_numbers_mix() {
        for text in [
            "step % 100 == 0 && residual < 1",
            "step == 700.0",
            "time * 2 == 7",
            "time > 3",
            "step / 2 + 0.5 > 350",
            "step % 2.5 == 0",
            "-step < -699.5",
            "!(time <= 3) || converged",
            "abs(residual - 0.001) < 1e-9",
            "log(residual) == -3 && sqrt(step * 7) == 70 && ln(exp(1)) == 1",
            "floor(time) == 3 && ceiling(time) == 4 && round(time) == 4 && !is_nan(time)",
            "max(time, step) == 700 && min(time, 2) == 2",
            "version == 120 && age > 1000",
            "published_ns == 0",
            "phase == \"melt\" && !converged",
            "attributes[\"wall time\"] > 60",
            "converged == false",
        ] {
            assert!(holds(text).unwrap_or_else(|error| panic!("{text}: {error}")), "{text}");
        }
        for text in ["step % 100 == 1", "converged", "phase == \"freeze\"", "residual > 1", "phase != \"melt\""] {
            assert!(!holds(text).unwrap_or_else(|error| panic!("{text}: {error}")), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_marked_where_it_stands() {
        for (text, part) in [
            ("step % 100 = 0", "step % 100 <-- HERE = 0"),
            ("step >", "step > <-- HERE"),
            ("(step > 3", "(step > 3 <-- HERE"),
            ("", "<-- HERE"),
            ("let x = 3; x > 2", "<-- HERE"),
            ("while true {}", "<-- HERE"),
            ("step = 3", "write == for ="),
            ("step > 3 and true", "write && for and"),
            ("step > 3 or true", "write || for or"),
        ] {
            let error = When::parse(text).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn a_name_that_no_attribute_has_is_an_error_that_lists_them() {
        for text in ["stepp > 3", "converged && stepp > 3", "true || stepp > 3"] {
            let error = why(text);
            assert!(
                error.contains("no attribute 'stepp'") && error.contains("residual, step, time"),
                "{text}: {error}"
            );
            assert!(error.contains("<-- HERE stepp"), "{text}: {error}");
        }
        assert!(why("attributes[\"walltime\"] > 3").contains("walltime"));
    }

    #[test]
    fn what_cannot_be_compared_is_not_silently_false() {
        for text in ["phase > 3", "phase == 700", "converged == 1", "3 < phase", "step == \"700\"", "step", "time + 1"]
        {
            let error = why(text);
            assert!(error.replace(" <-- HERE", "").replace("<-- HERE ", "").contains(text), "{text}: {error}");
        }
        assert!(why("step >").contains("ends"));
        assert!(why("step / 0 == 1").contains("zero"));
        assert!(why("!converged && step").contains("!converged && <-- HERE step"));
    }

    #[test]
    fn nothing_runs_for_ever() {
        assert!(When::parse("loop {}").is_err());
        let long = format!("{}1 > 0", "1 + ".repeat(5000));
        assert!(holds(&long).is_err());
    }
}
