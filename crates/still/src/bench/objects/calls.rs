//! How many objects are created, and how many fragments attached and published, in a second: Figure 3 of "A Foundation for
//! Automated Placement of Data" (Otstott et al.), with the processes of one of its nodes.

use super::{CHILD_COMMAND, Report, Setting, clear, objects};
use crate::bench::report::Row;
use crate::trial::host::{monotonic_ns, processor_ns};
use crate::trial::{Child, Error, Parent, Result, measure};
use measure::median;
use serde_json::{Value, json};
use stillframe::{Arena, Array, Region};
use stillframe_object::{Object, WriteFragment};

/// What one of the processes needs to know.
#[derive(clap::Args, Debug, Clone)]
pub struct Args {
    /// Which one it is
    process: usize,
    /// How many objects it creates
    objects: usize,
}

/// What each object is: 4 KiB.
const TEXT: &str = "var u [512] float64";

/// Where regions lie that are no fragments.
const ARENA: &str = "pool";

/// Publishes after the first.
const LATER: usize = 4;

/// What the paper's cluster did in a second: creates, attaches, publishes.
const PAPER: [f64; 3] = [20e3, 20e3, 140e3];

/// Calls of one kind, in each of several rounds.
#[derive(Default)]
struct Calls {
    per_s: Vec<f64>,
    processor_us: Vec<f64>,
}

impl Calls {
    fn add(&mut self, (per_s, processor_us): (f64, f64)) {
        self.per_s.push(per_s);
        self.processor_us.push(processor_us);
    }

    /// Adds them to the details of a row under this name.
    fn describe(&mut self, name: &str, detail: &mut Value) {
        detail[format!("{name}_per_s")] = median(&mut self.per_s).into();
        detail[format!("{name}_processor_us")] = median(&mut self.processor_us).into();
    }
}

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let processes = setting.args.processes.unwrap_or(setting.repetitions(16, 4)).max(1);
    let count = setting.args.objects.unwrap_or(setting.repetitions(1000, 50)).max(1);
    let [mut creates, mut attaches, mut first, mut later]: [Calls; 4] = Default::default();
    let [mut detaches, mut regions, mut plain]: [Calls; 3] = Default::default();
    for _ in 0..setting.repetitions(3, 1) {
        let mut all = Callers::start(setting, processes, count)?;
        creates.add(all.call("create")?);
        attaches.add(all.call("attach")?);
        all.call("write")?;
        first.add(all.call("publish")?);
        // What of that is the region's alone.
        regions.add(all.call("create region")?);
        plain.add(all.call("publish region")?);
        for _ in 0..LATER {
            all.call("write")?;
            later.add(all.call("publish")?);
        }
        detaches.add(all.call("detach")?);
        drop(all);
        clear(setting.root())?;
        std::fs::remove_dir_all(setting.root().join(ARENA)).map_err(Error::system("remove the arena"))?;
    }
    let [create, attach, publish] = PAPER;
    let measured = [
        ("create", creates, create),
        ("attach", attaches, attach),
        ("first publish", first, publish),
        ("later publish", later, publish),
    ];
    for (measures, mut calls, paper) in measured {
        let case = json!({"part": "calls", "measures": measures, "processes": processes, "objects": count});
        let mut detail = json!({ "processor_us": median(&mut calls.processor_us) });
        match measures {
            "attach" => {
                regions.describe("region", &mut detail);
                detaches.describe("detach", &mut detail);
            }
            "first publish" => plain.describe("region", &mut detail),
            _ => {}
        }
        report.add(Row::new("objects", case, median(&mut calls.per_s), "1/s", paper).with(detail))?;
    }
    Ok(())
}

/// Processes that do the same at the same time.
struct Callers {
    children: Vec<Child>,
    objects: usize,
}

impl Callers {
    fn start(setting: &Setting, processes: usize, objects: usize) -> Result<Callers> {
        let start = |process: usize| {
            let numbers = [process.to_string(), objects.to_string()];
            Child::start(setting.root(), &[CHILD_COMMAND, "caller", &numbers[0], &numbers[1]])
        };
        let children = (0..processes).map(start).collect::<Result<_>>()?;
        let mut all = Callers { children, objects };
        all.call("begin")?;
        Ok(all)
    }

    /// Has all of them do something with all their objects, waits for all, and says how many calls that were in a second,
    /// from when the first one began to when the last one was done, and how many microseconds of a processor each took.
    fn call(&mut self, what: &str) -> Result<(f64, f64)> {
        self.children.iter_mut().try_for_each(|child| child.tell(what))?;
        let (mut begin, mut end, mut sum) = (u64::MAX, 0, 0);
        for child in &self.children {
            let [began, ended, used] = child.hear_numbers()?;
            (begin, end, sum) = (begin.min(began), end.max(ended), sum + used);
        }
        let calls = (self.children.len() * self.objects) as f64;
        Ok((calls * 1e9 / end.saturating_sub(begin).max(1) as f64, sum as f64 / calls / 1e3))
    }
}

/// Does what the parent says with all objects, and answers when it began and ended, and how long it had a processor.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let objects = objects(&stillframe::inspect::root())?;
    let (mut made, mut fragments): (Vec<Object>, Vec<WriteFragment>) = (Vec::new(), Vec::new());
    let mut regions: Vec<(Region, Array<f64>)> = Vec::new();
    let mut version = 0;
    while let Some(line) = parent.hear() {
        let (began, used) = (monotonic_ns(), processor_ns());
        match line.as_str() {
            "begin" => {}
            "create" => {
                for number in 0..args.objects {
                    made.push(objects.create(&format!("calls/{}/{number}", args.process), TEXT).create()?);
                }
            }
            "attach" => {
                for object in &made {
                    fragments.push(object.write("{ var u = u }").attach()?);
                }
            }
            "write" => {
                version += 1;
                for fragment in &mut fragments {
                    fragment.bytes_mut()?.fill(version as u8);
                }
            }
            "publish" => {
                for fragment in &mut fragments {
                    fragment.publish(version)?;
                }
            }
            "create region" => {
                let arena = Arena::options().bytes(1 << 40).regions(1 << 16).create(ARENA)?;
                for number in 0..args.objects {
                    let options = Region::options().arena(&arena).keep(1).threads(1);
                    let mut region = options.create(&format!("{}/{number}", args.process))?;
                    let array = region.array("u", &[512])?;
                    region.slice_mut(&array).fill(1.0);
                    regions.push((region, array));
                }
            }
            "publish region" => {
                for (region, _) in &mut regions {
                    region.publish(1).commit()?;
                }
            }
            "detach" => fragments.drain(..).try_for_each(WriteFragment::detach)?,
            other => return Err(Error::Usage(format!("'{other}' is nothing that a caller does"))),
        }
        parent.tell(format_args!("{began} {} {}", monotonic_ns(), processor_ns() - used))?;
    }
    Ok(())
}
