//! `still drepl plan`: which source gives which part of a wanted view.

use super::described::Described;
use super::selected::{Each, Selected, Selection, number, parse_each};
use crate::context::{Context, Verdict};
use crate::failure::{FINE, Failure};
use crate::table::{Align, Table, sanitize};
use crate::target;
use crate::units::{count, format_bytes};
use ::drepl::{IndexBox, Plan, Schema, Source, Wanted};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Plan which source gives which part of a view
///
/// Of elements that several sources have, the first source named gives them. What none has is named too.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still drepl plan mesh.drepl --view soa --from aos
  still drepl plan grid.drepl --view '{ var g[x:18,y:34] = grid[x+47,y+95] }' \\
      --from '{ var b[x:16,y:32] = grid[x+16*i,y+32*j] }' --each i=0..4 --each j=0..4
  still drepl plan grid.drepl --view halo --from left --from right --out halo.plan

A plan written by --out is carried out in Python or Rust, there or elsewhere: bytes move from each
source's buffer into the wanted one, and no text is needed any more.

With --json: {\"bytes\", \"moved_bytes\", \"sources\": [{\"name\", \"bytes\", \"moved_bytes\", \"moves\",
\"conversions\"}], \"pieces\": [{\"source\", \"leaf\", \"elements\", \"count\"}], \"missing\": [{\"leaf\",
\"elements\", \"count\"}]}, where elements are [start, end, step] per axis, and a piece's source is its
place among the sources.

Exit codes: 0 when there is a plan, be it of a part only, 1 when the text has mistakes, 2 when the
command makes no sense.")]
pub struct Args {
    #[command(flatten)]
    described: Described,
    #[command(flatten)]
    question: Question,
    /// Write the plan, for Python or Rust to carry out
    #[arg(long, value_name = "PLAN")]
    out: Option<PathBuf>,
}

/// What is wanted, and from what.
#[derive(Debug, clap::Args)]
pub struct Question {
    /// What is wanted: a view, a replica, or a fragment such as '{ var m = mesh }'
    #[arg(long, value_name = "VIEW")]
    view: String,
    /// What there is, likewise; any number [default: the replicas of the text, else its default view]
    #[arg(long, value_name = "VIEW")]
    from: Vec<String>,
    /// Let a name run, such as i=0..8: each fragment in braces that has it becomes several
    #[arg(long, value_name = "NAME=A..B", value_parser = parse_each)]
    each: Vec<Each>,
}

/// A plan, and what it is about.
pub struct Answer {
    pub wanted: Selected,
    pub sources: Vec<Selected>,
    pub plan: Plan,
}

impl Question {
    /// What may have names of its own.
    pub fn texts(&self) -> impl Iterator<Item = &String> {
        self.from.iter().chain([&self.view])
    }

    /// Plans it.
    pub fn answer(&self, schema: &Schema, described: &Described) -> Result<Answer, Failure> {
        let bindings = described.bindings();
        let selection = Selection::new(schema, &bindings, &self.each)?;
        let wanted = selection.layout(&self.view)?;
        let mut sources = Vec::new();
        for text in &self.from {
            sources.extend(selection.layouts(text)?);
        }
        if self.from.is_empty() {
            sources = selection.defaults()?;
        }
        number(&mut sources);
        let plan = plan(&wanted, &sources)?;
        Ok(Answer { wanted, sources, plan })
    }
}

/// How to make one layout from others, the first of which are preferred.
pub fn plan(wanted: &Selected, sources: &[Selected]) -> Result<Plan, Failure> {
    let of = |source: &Selected| Source { fragment: source.fragment.clone(), version: 0, cost: 0, readable: true };
    let sources: Vec<Source> = sources.iter().map(of).collect();
    ::drepl::plan(&Wanted::newest(&wanted.fragment), &sources).map_err(|error| Failure::Problem(error.to_string()))
}

/// What no source has: a row for each box.
pub fn missing_rows(plan: &Plan) -> Vec<Value> {
    let rows = plan.missing.iter().flat_map(|missing| {
        let boxes = missing.elements.boxes().iter();
        boxes.map(|elements| json!({ "leaf": missing.name, "elements": slices(elements), "count": elements.count() }))
    });
    rows.collect()
}

/// Elements per axis, as `[start, end, step]`.
pub fn slices(elements: &IndexBox) -> Vec<[u64; 3]> {
    elements.axes().iter().map(|axis| [axis.start(), axis.end(), axis.step()]).collect()
}

/// Rows that are shown of one table; --json has all.
const ROWS_MAX: usize = 200;

/// Plans a view.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let schema = args.described.read(args.question.texts())?;
    let answer = args.question.answer(&schema, &args.described)?;
    if let Some(path) = &args.out {
        target::write(path, &answer.plan.encode())?;
    }
    if args.described.json {
        context.write_json(&answer.to_json())?;
        return Ok(FINE);
    }
    let Answer { wanted, sources, plan } = &answer;
    let mut table = Table::new(&[("FROM", Align::Left), ("ELEMENTS", Align::Left), ("COUNT", Align::Right)]);
    let given = plan.pieces.iter().map(|piece| (&*sources[piece.source].name, plan.name(piece.leaf), &piece.elements));
    let missing = plan
        .missing
        .iter()
        .flat_map(|missing| missing.elements.boxes().iter().map(|elements| ("missing", &*missing.name, elements)));
    let rows = || given.clone().chain(missing.clone());
    for (source, leaf, elements) in rows().take(ROWS_MAX) {
        let range = if elements.rank() == 0 { String::new() } else { format!("[{elements}]") };
        table.push(vec![sanitize(source), format!("{leaf}{range}"), elements.count().to_string()]);
    }
    table.write(context.out)?;
    let left_out = rows().count().saturating_sub(ROWS_MAX);
    if left_out > 0 {
        writeln!(context.out, "... and {left_out} more; --json has all")?;
    }
    writeln!(context.out)?;
    let (moves, conversions) = plan.steps();
    let converted = if conversions > 0 { format!(" and {}", count(conversions, "conversion")) } else { String::new() };
    let bytes = wanted.fragment.size_bytes();
    writeln!(
        context.out,
        "{}: {} of {} bytes ({}) from {}, in {}{converted}",
        sanitize(&wanted.name),
        plan.moved_bytes(),
        bytes,
        format_bytes(bytes),
        count(plan.transfers.len(), "source"),
        count(moves, "move")
    )?;
    let missing: u128 = plan.missing.iter().map(|missing| missing.elements.count()).sum();
    if missing > 0 {
        writeln!(context.out, "no source has {missing} of its elements")?;
    }
    if let Some(path) = &args.out {
        writeln!(context.out, "wrote {}", sanitize(&path.display().to_string()))?;
    }
    Ok(FINE)
}

impl Answer {
    /// Sources, pieces, and what is missing.
    pub fn to_json(&self) -> Value {
        let moved = |position: usize| {
            let found = self.plan.transfers.binary_search_by_key(&position, |transfer| transfer.0);
            found.map_or((0, 0, 0), |place| {
                let transfer = &self.plan.transfers[place].1;
                (transfer.moved_bytes(), transfer.moves().len(), transfer.conversions().len())
            })
        };
        let sources = self.sources.iter().enumerate().map(|(position, source)| {
            let (moved_bytes, moves, conversions) = moved(position);
            let bytes = source.fragment.size_bytes();
            json!({
                "name": source.name, "bytes": bytes, "moved_bytes": moved_bytes, "moves": moves,
                "conversions": conversions,
            })
        });
        let pieces = self.plan.pieces.iter().map(|piece| {
            json!({
                "source": piece.source, "leaf": self.plan.name(piece.leaf), "elements": slices(&piece.elements),
                "count": piece.elements.count(),
            })
        });
        json!({
            "bytes": self.wanted.fragment.size_bytes(), "moved_bytes": self.plan.moved_bytes(),
            "sources": sources.collect::<Vec<_>>(), "pieces": pieces.collect::<Vec<_>>(),
            "missing": missing_rows(&self.plan),
        })
    }
}
