//! How many objects are created, and how many fragments attached and published, in a second: Figure 3 of "A Foundation for
//! Automated Placement of Data" (Otstott et al.), with the processes of one of its nodes.

use super::{CHILD_COMMAND, Report, Setting, clear, objects};
use crate::bench::report::Row;
use crate::trial::host::monotonic_ns;
use crate::trial::{Child, Error, Parent, Result, measure};
use measure::median;
use serde_json::json;
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

pub fn run(setting: &Setting, report: &mut Report) -> Result<()> {
    let processes = setting.args.processes.unwrap_or(setting.repetitions(16, 4)).max(1);
    let count = setting.args.objects.unwrap_or(setting.repetitions(1000, 50)).max(1);
    let (mut creates, mut attaches, mut first, mut later) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let (mut detaches, mut regions, mut plain) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = setting.repetitions(3, 1);
    for _ in 0..rounds {
        let mut all = Callers::start(setting, processes, count)?;
        creates.push(all.rate("create")?);
        attaches.push(all.rate("attach")?);
        all.rate("write")?;
        first.push(all.rate("publish")?);
        // What of that is the region's alone.
        regions.push(all.rate("create region")?);
        plain.push(all.rate("publish region")?);
        for _ in 0..LATER {
            all.rate("write")?;
            later.push(all.rate("publish")?);
        }
        detaches.push(all.rate("detach")?);
        drop(all);
        clear(setting.root())?;
        std::fs::remove_dir_all(setting.root().join(ARENA)).map_err(Error::system("remove the arena"))?;
    }
    let [create, attach, publish] = PAPER;
    let measured = [
        ("create", &mut creates, create),
        ("attach", &mut attaches, attach),
        ("first publish", &mut first, publish),
        ("later publish", &mut later, publish),
    ];
    let detail = json!({
        "rounds": rounds, "detaches_per_s": median(&mut detaches), "region_creates_per_s": median(&mut regions),
        "region_first_publishes_per_s": median(&mut plain),
    });
    for (measures, rates, paper) in measured {
        let case = json!({"part": "calls", "measures": measures, "processes": processes, "objects": count});
        report.add(Row::new("objects", case, median(rates), "1/s", paper).with(detail.clone()))?;
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
        all.rate("begin")?;
        Ok(all)
    }

    /// Has all of them do something with all their objects, waits for all, and says how many calls that were in a second:
    /// from when the first one began to when the last one was done.
    fn rate(&mut self, what: &str) -> Result<f64> {
        self.children.iter_mut().try_for_each(|child| child.tell(what))?;
        let (mut begin, mut end) = (u64::MAX, 0);
        for child in &self.children {
            let [began, ended] = child.hear_numbers()?;
            (begin, end) = (begin.min(began), end.max(ended));
        }
        let calls = self.children.len() * self.objects;
        Ok(calls as f64 * 1e9 / end.saturating_sub(begin).max(1) as f64)
    }
}

/// Does what the parent says with all objects, and answers when it began and ended.
pub fn play(args: Args) -> Result<()> {
    let parent = Parent::listen();
    let objects = objects(&stillframe::inspect::root())?;
    let (mut made, mut fragments): (Vec<Object>, Vec<WriteFragment>) = (Vec::new(), Vec::new());
    let mut regions: Vec<(Region, Array<f64>)> = Vec::new();
    let mut version = 0;
    while let Some(line) = parent.hear() {
        let began = monotonic_ns();
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
        parent.tell(format_args!("{began} {}", monotonic_ns()))?;
    }
    Ok(())
}
