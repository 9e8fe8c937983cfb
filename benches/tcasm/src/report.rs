//! What was measured, beside what the paper says, as tables or as one JSON object per line.

use serde_json::{Value, json};

/// One figure.
pub struct Row<'a> {
    /// `table3`, `figure7a`, `figure7b` or `figure8`.
    pub bench: &'a str,
    /// Where it stands in the table: pages, a percentage, bytes.
    pub at: String,
    /// What was measured.
    pub what: &'a str,
    pub value: f64,
    pub unit: &'a str,
    /// What it is compared with, in the same unit.
    pub baseline: f64,
    /// What the paper has for the ratio of the two, and in its own unit.
    pub paper_ratio: Option<f64>,
    pub paper_value: Option<f64>,
}

pub struct Report {
    pub json: bool,
}

impl Report {
    pub fn title(&self, title: &str, columns: &str) {
        if !self.json {
            println!("\n{title}");
            let line = format!(
                "  {:<12} {:<34} {:>10} {:>10} {:>8} {:>7} {:>7}",
                "", "", "value", columns, "ratio", "paper", "ratio"
            );
            println!("{line}");
        }
    }

    pub fn add(&self, row: Row<'_>) {
        let ratio = row.value / row.baseline;
        if self.json {
            let rounded = |value: f64| format!("{value:.5e}").parse::<f64>().map_or(Value::Null, Value::from);
            let line = json!({
                "bench": row.bench,
                "case": {"at": row.at, "what": row.what},
                "value": rounded(row.value),
                "unit": row.unit,
                "baseline": rounded(row.baseline),
                "ratio": rounded(ratio),
                "paper": row.paper_value,
                "paper_ratio": row.paper_ratio,
            });
            println!("{line}");
            return;
        }
        let text = |value: Option<f64>| value.map_or(String::from("-"), |value| format!("{value:.2}"));
        let Row { at, what, value, unit, baseline, .. } = &row;
        let value = format!("{value:.3} {unit}");
        let (paper, paper_ratio) = (text(row.paper_value), text(row.paper_ratio));
        println!("  {at:<12} {what:<34} {value:>10} {baseline:>10.3} {ratio:>8.2} {paper:>7} {paper_ratio:>7}");
    }

    pub fn note(&self, text: &str) {
        if !self.json {
            println!("  {text}");
        }
    }
}

/// The middle of `values`, or the mean of the two in the middle.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

/// Seconds that `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let begin = std::time::Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}
