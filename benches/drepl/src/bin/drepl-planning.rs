//! What it costs to find out which of many fragments give which part of one.
//!
//! `docs/benchmarks.md` says what the cases are.

use std::{error::Error, io::Write, sync::Arc, time::Instant};

use clap::Parser;
use drepl::{
    Bindings, Dataset, Fragment, Index, IndexBox, Part, Program, Progression, Source, Wanted,
    dataset::{LeafId, Object},
    plan,
    types::{ByteOrder, Primitive, Type},
};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What planning costs against many fragments, by scan and with an index
#[derive(Parser, Debug)]
struct Args {
    /// Fragments in the index
    #[arg(long, default_value_t = 100_000)]
    fragments: u64,
    /// Turns of each case [default: 200, or 3 with --quick]
    #[arg(long)]
    rounds: Option<usize>,
    /// Few turns and 10 000 fragments: does everything work?
    #[arg(long)]
    quick: bool,
    /// Print one JSON object per line instead of a table
    #[arg(long)]
    json: bool,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let rounds = args.rounds.unwrap_or(if args.quick { 3 } else { 200 });
    let fragments = if args.quick { args.fragments.min(10_000) } else { args.fragments };
    let few = rounds.min(15);

    let cube = grid(&[256, 256, 256]);
    let blocks = decompose(&cube, 256, [16, 16, 16])?;
    let ghost = packed(&cube, &[(47, 48), (64, 80), (96, 112)])?;
    let taken = time(rounds, || plan(&Wanted::newest(&ghost), &blocks))?;
    report(&args, "ghost by scan", blocks.len(), &taken)?;
    // What a process does that attaches to a ghost: everything, from the text of the dataset on.
    let text = "const N = 256 var grid [N,N,N] float64";
    let taken = time(rounds, || {
        let schema = Program::parse(text)?.bind(&Bindings::new())?;
        let mut bindings = Bindings::new();
        bindings.set("xmin", 48).set("ymin", 64).set("zmin", 96).set("n", 16);
        let ghost = schema.fragment("{ var ghost[x:1,y:n,z:n] = grid[x+xmin-1,y+ymin,z+zmin] }", &bindings)?;
        Ok::<_, Box<dyn Error>>(plan(&Wanted::newest(&ghost), &blocks)?)
    })?;
    report(&args, "ghost parsed, by scan", blocks.len(), &taken)?;

    let whole = packed(&cube, &[(0, 256); 3])?;
    for per_axis in [8, 16, 32] {
        let blocks = decompose(&cube, 256, [per_axis; 3])?;
        report(&args, "collate", blocks.len(), &time(few, || plan(&Wanted::newest(&whole), &blocks))?)?;
    }
    let line = grid(&[4096 * 64]);
    let cyclic = (0..4096).map(|rank| {
        let elements = Progression::new(rank, 4096, 64).and_then(|axis| IndexBox::new([axis])).ok_or("no such rank")?;
        Ok(source(fragment(&line, elements)?))
    });
    let cyclic: Vec<Source> = cyclic.collect::<Result<_>>()?;
    let all = packed(&line, &[(0, 4096 * 64)])?;
    report(&args, "collate interleaved", cyclic.len(), &time(few, || plan(&Wanted::newest(&all), &cyclic))?)?;

    let index = Index::new(blocks.clone())?;
    let others = decompose(&cube, 256, [16, 16, 12])?;
    let taken =
        time(few, || others.iter().try_for_each(|other| index.plan(&Wanted::newest(&other.fragment)).map(drop)))?;
    report(&args, "3072 blocks by index", blocks.len(), &taken)?;

    // About as many blocks as asked for.
    let edge = (fragments as f64).cbrt().round() as u64;
    let large = grid(&[edge * 10; 3]);
    let many = decompose(&large, edge * 10, [edge; 3])?;
    report(&args, "make an index", many.len(), &time(few.min(5), || Index::new(many.clone()))?)?;
    let mut index = Index::new(many.clone())?;
    let face = packed(&large, &[(49, 50), (60, 70), (70, 80)])?;
    report(&args, "ghost by index", many.len(), &time(rounds, || index.plan(&Wanted::newest(&face)))?)?;
    report(&args, "ghost by scan", many.len(), &time(few, || plan(&Wanted::newest(&face), &many))?)?;
    let taken = time(few.min(5), || {
        many.iter().take(10_000).enumerate().try_for_each(|(at, each)| {
            index.remove(at);
            index.insert(each.clone()).map(drop)
        })
    })?;
    report(&args, "10000 leave and return", many.len(), &taken)?;
    report(&args, "ghost by index after", many.len(), &time(rounds, || index.plan(&Wanted::newest(&face)))?)
}

/// The dataset `var grid [extents] float64`.
fn grid(extents: &[u64]) -> Arc<Dataset> {
    let kind = Type::array(extents.to_vec(), Type::Primitive(Primitive::Float64));
    Arc::new(Dataset::new(vec![Object { name: "grid".into(), kind }]).expect("an array of numbers"))
}

fn packed(dataset: &Arc<Dataset>, bounds: &[(u64, u64)]) -> Result<Fragment> {
    let axes: Option<Vec<_>> = bounds.iter().map(|(low, end)| Progression::range(*low, *end)).collect();
    fragment(dataset, IndexBox::new(axes.ok_or("an empty range")?).ok_or("too many elements")?)
}

/// These elements in row-major order.
fn fragment(dataset: &Arc<Dataset>, elements: IndexBox) -> Result<Fragment> {
    let mut bytes = 8;
    let mut strides_bytes: Vec<i64> = Vec::new();
    for axis in elements.axes().iter().rev() {
        strides_bytes.push(bytes as i64);
        bytes *= axis.count();
    }
    strides_bytes.reverse();
    let (leaf, primitive, byte_order) = (LeafId(0), Primitive::Float64, ByteOrder::LittleEndian);
    let strides_bytes = strides_bytes.into();
    let part = Part { leaf, primitive, elements, offset_bytes: 0, strides_bytes, byte_order };
    Ok(Fragment::new(dataset.clone(), Vec::new(), vec![part], bytes)?)
}

fn source(fragment: Fragment) -> Source {
    Source { fragment: Arc::new(fragment), version: 1, cost: 0, readable: true }
}

/// Blocks of an array of that many elements along each axis.
fn decompose(dataset: &Arc<Dataset>, extent: u64, per_axis: [u64; 3]) -> Result<Vec<Source>> {
    let cut = |at: u64, parts: u64| (extent * at / parts, extent * (at + 1) / parts);
    let [a, b, c] = per_axis;
    let blocks = (0..a * b * c).map(|at| {
        let bounds = [cut(at / (b * c), a), cut(at / c % b, b), cut(at % c, c)];
        packed(dataset, &bounds).map(source)
    });
    blocks.collect()
}

/// Seconds of each turn, sorted.
fn time<T, E>(rounds: usize, mut work: impl FnMut() -> std::result::Result<T, E>) -> Result<Vec<f64>>
where
    Box<dyn Error>: From<E>,
{
    let mut taken = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let begin = Instant::now();
        let done = work()?;
        taken.push(begin.elapsed().as_secs_f64());
        drop(done);
    }
    taken.sort_by(f64::total_cmp);
    Ok(taken)
}

/// Median and spread of the turns of a case against so many fragments.
fn report(args: &Args, plan: &str, fragments: usize, taken: &[f64]) -> Result<()> {
    let at = |part: f64| taken[((taken.len() - 1) as f64 * part).round() as usize] * 1e6;
    let row: Value = json!({
        "bench": "planning",
        "case": { "plan": plan, "fragments": fragments },
        "value": at(0.5),
        "unit": "us",
        "detail": { "low_us": at(0.1), "high_us": at(0.9), "rounds": taken.len() },
    });
    let mut out = std::io::stdout().lock();
    if args.json {
        return Ok(writeln!(out, "{row}")?);
    }
    writeln!(out, "{plan:24} {fragments:>8} fragments {:>12.1} us   ({:.1} to {:.1})", at(0.5), at(0.1), at(0.9))?;
    Ok(())
}
