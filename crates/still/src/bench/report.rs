//! What a benchmark found, as a table or as one JSON object per line.

use crate::trial::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use std::io::Write;

/// One figure beside its yardstick.
#[derive(Serialize)]
pub struct Row {
    /// Name of the benchmark.
    pub bench: &'static str,
    /// The parameters that tell this row from others of the benchmark, as a JSON object.
    pub case: Value,
    /// The figure.
    #[serde(serialize_with = "rounded")]
    pub value: f64,
    /// Unit of `value` and `baseline`.
    pub unit: &'static str,
    /// The yardstick, measured in turns with the figure.
    #[serde(serialize_with = "rounded")]
    pub baseline: f64,
    /// The figure relative to the yardstick, as the benchmark defines it.
    #[serde(serialize_with = "rounded")]
    pub ratio: f64,
    /// What else was seen, as a JSON object; not part of the table.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

impl Row {
    /// A row whose ratio is simply the figure over the yardstick.
    pub fn new(bench: &'static str, case: Value, value: f64, unit: &'static str, baseline: f64) -> Row {
        Row { bench, case, value, unit, baseline, ratio: value / baseline, detail: Value::Null }
    }

    /// Adds what else was seen.
    pub fn with(self, mut detail: Value) -> Row {
        for value in detail.as_object_mut().into_iter().flatten().map(|(_, value)| value) {
            if let Some(number) = value.as_f64().filter(|number| number.fract() != 0.0) {
                *value = significant_digits(number).into();
            }
        }
        Row { detail, ..self }
    }
}

/// Prints rows as they come.
pub struct Report {
    json: bool,
    last: &'static str,
}

impl Report {
    /// A report that prints JSON lines or a table.
    pub fn new(json: bool) -> Report {
        Report { json, last: "" }
    }

    /// Prints one row. Once nobody reads them any more there is no use in measuring on.
    pub fn add(&mut self, row: Row) -> Result<()> {
        let line = if self.json { json_line(&row) } else { self.table_line(&row) };
        let mut output = std::io::stdout().lock();
        writeln!(output, "{line}").and_then(|()| output.flush()).map_err(Error::system("write to the output"))
    }

    fn table_line(&mut self, row: &Row) -> String {
        let line = format!(
            "{:<11} {:<66} {:>12} {:>12} {:<7} {:>8}",
            row.bench,
            case_text(&row.case),
            significant(row.value),
            significant(row.baseline),
            row.unit,
            significant(row.ratio)
        );
        if self.last == row.bench {
            return line;
        }
        let space = if self.last.is_empty() { "" } else { "\n" };
        self.last = row.bench;
        let head =
            format!("{:<11} {:<66} {:>12} {:>12} {:<7} {:>8}", "bench", "case", "value", "baseline", "unit", "ratio");
        format!("{space}{head}\n{line}")
    }
}

fn json_line(row: &Row) -> String {
    // Text keys and finite numbers always become JSON; a figure that is not finite becomes null.
    serde_json::to_string(row).unwrap_or_default()
}

/// Six significant digits are more than any of the measurements has.
fn significant_digits(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn rounded<S: serde::Serializer>(value: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_f64(significant_digits(*value))
}

fn significant(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 10.0 => format!("{value:.2}"),
        size if size >= 0.01 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.2e}"),
    }
}

fn case_text(case: &Value) -> String {
    let parameters = case.as_object().into_iter().flatten();
    let texts = parameters.map(|(name, value)| match value {
        Value::String(text) => format!("{name}={text}"),
        other => format!("{name}={other}"),
    });
    texts.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_of_json_has_the_documented_fields() {
        let row = Row::new("rate", json!({"threads": 1}), 200.0, "1/s", 800.0);
        let value: Value = serde_json::from_str(&json_line(&row)).unwrap();
        assert_eq!(value["ratio"], json!(0.25));
        assert_eq!(value["case"]["threads"], json!(1));
        assert!(value.get("detail").is_none());
    }

    #[test]
    fn numbers_in_the_table_have_about_three_digits() {
        assert_eq!(significant(1234.5), "1234");
        assert_eq!(significant(12.345), "12.35");
        assert_eq!(significant(0.0), "0.000");
    }
}
