//! Publishing a large array to another process: Stillframe beside its rivals. See README.md.

mod confine;
mod control;
mod external;
mod iceoryx;
#[cfg(feature = "ours")]
mod ours;
mod shm;
mod work;

use control::{Control, Times};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs, io, process, thread};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const CONTENDERS: &[&str] = &[
    "shm-memcpy",
    "boost",
    "boost-inplace",
    "iceoryx2-loan",
    "iceoryx2-copy",
    "adios2-sst",
    #[cfg(feature = "ours")]
    "stillframe-tracked",
    #[cfg(feature = "ours")]
    "stillframe-managed",
    #[cfg(feature = "ours")]
    "stillframe-loaned",
];

const USAGE: &str = "usage: rivals [--json] [--size MIB] [--steps N] [--warmup N] [--rounds N]
              [--only NAME[,NAME...]] [--timeout SECONDS] [--list]";

const TMPFS: &str = "/dev/shm";

struct Options {
    json: bool,
    mib: usize,
    steps: usize,
    warmup: usize,
    rounds: usize,
    only: Vec<String>,
    timeout: Duration,
}

impl Options {
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Self> {
        let mut o = Options {
            json: false,
            mib: 256,
            steps: 20,
            warmup: 6,
            rounds: 3,
            only: Vec::new(),
            timeout: Duration::from_secs(120),
        };
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(USAGE);
            match arg.as_str() {
                "--json" => o.json = true,
                "--size" => o.mib = value()?.parse()?,
                "--steps" => o.steps = value()?.parse()?,
                "--warmup" => o.warmup = value()?.parse()?,
                "--rounds" => o.rounds = value()?.parse()?,
                "--only" => o.only = value()?.split(',').map(String::from).collect(),
                "--timeout" => o.timeout = Duration::from_secs(value()?.parse()?),
                "--list" => {
                    println!("{}", CONTENDERS.join("\n"));
                    process::exit(0);
                }
                _ => return Err(USAGE.into()),
            }
        }
        if let Some(name) = o.only.iter().find(|name| !CONTENDERS.contains(&name.as_str())) {
            return Err(format!("no contender {name}; there are {}", CONTENDERS.join(", ")).into());
        }
        // The period needs a step before the first one that counts.
        if o.mib == 0 || o.steps == 0 || o.rounds == 0 || o.warmup == 0 {
            return Err("--size, --steps, --warmup and --rounds must be at least 1".into());
        }
        Ok(o)
    }

    fn bytes(&self) -> usize {
        self.mib << 20
    }
}

/// What a child of this executable is told: one run of one contender.
pub struct Job {
    pub control: Control,
    /// Unique to this run; prefix of everything the run makes in /dev/shm.
    pub name: String,
    /// A directory of this run's own.
    pub scratch: PathBuf,
    pub elements: usize,
}

impl Job {
    pub fn shm_path(&self) -> PathBuf {
        Path::new(TMPFS).join(&self.name)
    }
}

/// `child <producer|observer> <contender> <control file> <name> <elements> <steps>`, started in the
/// scratch directory.
fn child(args: &[String]) -> Result<()> {
    let [role, contender, control, name, elements, steps] = args else {
        return Err(USAGE.into());
    };
    let elements = elements.parse()?;
    let job = Job {
        control: Control::open(Path::new(control), steps.parse()?, elements)?,
        name: name.clone(),
        scratch: env::current_dir()?,
        elements,
    };
    match (contender.as_str(), role == "producer") {
        ("shm-memcpy", true) => shm::producer(&job),
        ("shm-memcpy", false) => shm::observer(&job),
        ("iceoryx2-loan", true) => iceoryx::producer(&job, false),
        ("iceoryx2-copy", true) => iceoryx::producer(&job, true),
        ("iceoryx2-loan" | "iceoryx2-copy", false) => iceoryx::observer(&job),
        #[cfg(feature = "ours")]
        (ours, producer) if ours.starts_with("stillframe-") => match producer {
            true => ours::producer(&job, &ours["stillframe-".len()..]),
            false => ours::observer(&job),
        },
        _ => Err(USAGE.into()),
    }
}

/// The two processes and the files of one run; dropping it ends and removes them.
struct Run {
    name: String,
    scratch: PathBuf,
    children: Vec<(&'static str, Child)>,
}

impl Drop for Run {
    fn drop(&mut self) {
        for (_, child) in &mut self.children {
            // Both fail only for a child that is already gone.
            let _ = child.kill();
            let _ = child.wait();
        }
        remove(|entry| entry.starts_with(&self.name));
    }
}

/// Where a run may leave files.
fn places() -> [PathBuf; 2] {
    [TMPFS.into(), env::temp_dir()]
}

fn remove(ours: impl Fn(&str) -> bool) {
    for entry in places().iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten() {
        if entry.file_name().to_str().is_some_and(&ours) {
            // One of the two fits; what cannot be removed is the next run's to try again.
            let _ = fs::remove_file(entry.path());
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes what runners left that were killed: `rivals-<pid>-...` of a process that is gone.
fn remove_stale() {
    remove(|entry| {
        let pid = entry.strip_prefix("rivals-").and_then(|rest| rest.split('-').next());
        pid.and_then(|pid| pid.parse::<u32>().ok()).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    });
}

/// One round of one contender: the times of its measured steps.
fn run(contender: &str, serial: usize, options: &Options) -> Result<Vec<Times>> {
    // The last dash keeps run 1 from being a prefix of run 10.
    let name = format!("rivals-{}-{serial}-", process::id());
    let scratch = env::temp_dir().join(&name);
    let mut run = Run { name, scratch, children: Vec::new() };
    fs::create_dir(&run.scratch)?;
    let (elements, steps) = (options.bytes() / size_of::<f64>(), options.warmup + options.steps);
    let control_path = Path::new(TMPFS).join(format!("{}control", run.name));
    let control = Control::create(&control_path, steps, elements)?;
    for role in ["producer", "observer"] {
        let first = run.children.first().map(|(_, child)| child.id());
        let mut command = match external::command(contender, role, first)? {
            Some(command) => command,
            None => {
                let mut command = Command::new(env::current_exe()?);
                command.args(["child", role, contender]);
                command
            }
        };
        command.arg(&control_path).arg(format!("{}data", run.name));
        command.args([elements.to_string(), steps.to_string()]);
        command.current_dir(&run.scratch);
        command.env("STILLFRAME_DIR", Path::new(TMPFS).join(format!("{}stillframe", run.name)));
        die_with_us(&mut command);
        run.children.push((role, command.spawn()?));
    }
    // The watchdog: both must end well and in time, or both are ended (by the drop of `run`).
    let deadline = Instant::now() + options.timeout;
    let mut waiting = true;
    while waiting {
        if Instant::now() > deadline {
            return Err(format!("not done after {:?}", options.timeout).into());
        }
        thread::sleep(Duration::from_millis(10));
        waiting = false;
        for (role, child) in &mut run.children {
            match child.try_wait()? {
                Some(status) if !status.success() => {
                    return Err(format!("{role} failed: {status}").into());
                }
                Some(_) => {}
                None => waiting = true,
            }
        }
    }
    control.times(options.warmup)
}

fn die_with_us(command: &mut Command) {
    use std::os::unix::process::CommandExt;
    // SAFETY: prctl is a mere system call, allowed between fork and exec; it touches no memory.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        })
    };
}

/// The baseline: libc's memcpy of the same number of bytes between two private, touched arrays.
struct Baseline {
    from: Vec<u64>,
    to: Vec<u64>,
}

impl Baseline {
    fn new(bytes: usize) -> Self {
        let n = bytes / size_of::<u64>();
        Self { from: vec![1; n], to: vec![2; n] }
    }

    /// Three copies, in ms.
    fn measure(&mut self, into: &mut Vec<f64>) {
        for _ in 0..3 {
            let start = Instant::now();
            // SAFETY: two different vectors of the same length.
            unsafe {
                libc::memcpy(self.to.as_mut_ptr().cast(), self.from.as_ptr().cast(), size_of_val(&self.from[..]))
            };
            into.push(start.elapsed().as_secs_f64() * 1e3);
            std::hint::black_box(&self.to);
        }
    }
}

/// All that was measured of one contender, in ms.
#[derive(Default)]
struct Record {
    publish: Vec<f64>,
    step: Vec<f64>,
    period: Vec<f64>,
    memcpy: Vec<f64>,
}

impl Record {
    fn add(&mut self, times: &Times) {
        self.publish.push(times.publish);
        self.step.push(times.step);
        self.period.push(times.period);
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    (values[(n - 1) / 2] + values[n / 2]) / 2.0
}

fn report(contender: &str, record: &mut Record, options: &Options) {
    let baseline = median(&mut record.memcpy);
    let metrics = [("publish", &mut record.publish), ("step", &mut record.step), ("period", &mut record.period)];
    if !options.json {
        print!("{contender:20}");
    }
    for (metric, values) in metrics {
        let value = median(values);
        let ratio = value / baseline;
        if options.json {
            println!(
                r#"{{"bench":"rivals","case":{{"contender":"{contender}","bytes":{},"steps":{}}},"value":{value:.6},"unit":"ms","metric":"{metric}","baseline":{baseline:.6},"ratio":{ratio:.6}}}"#,
                options.bytes(),
                options.steps,
            );
        } else {
            // `median` has sorted them.
            print!("{value:11.3} {:9.2} {ratio:8.4}", values[values.len() - 1]);
        }
    }
    if !options.json {
        println!("{baseline:11.2}");
    }
}

fn compare(options: &Options) -> Result<()> {
    remove_stale();
    let mut contenders = Vec::new();
    for &name in CONTENDERS {
        let named = options.only.iter().any(|only| only == name);
        if !named && !options.only.is_empty() {
            continue;
        }
        match external::prepare(name) {
            Ok(()) => contenders.push((name, Record::default())),
            Err(why) if named => return Err(format!("{name}: {why}").into()),
            Err(why) => eprintln!("{name}: skipped: {why}"),
        }
    }
    let mut baseline = Baseline::new(options.bytes());
    baseline.measure(&mut Vec::new());
    let mut failed = Vec::new();
    for round in 0..options.rounds {
        // Every round begins with another contender, so that none always follows the same one.
        for i in 0..contenders.len() {
            let i = (i + round) % contenders.len();
            let (name, record) = &mut contenders[i];
            if failed.contains(name) {
                continue;
            }
            baseline.measure(&mut record.memcpy);
            match run(name, round * CONTENDERS.len() + i, options) {
                Ok(steps) => steps.iter().for_each(|times| record.add(times)),
                Err(why) => {
                    eprintln!("{name}: {why}");
                    failed.push(*name);
                }
            }
            baseline.measure(&mut record.memcpy);
        }
    }
    if !options.json {
        println!(
            "{} MiB, {} rounds of {} steps; ms; x = median / median memcpy of the same bytes\n",
            options.mib, options.rounds, options.steps
        );
        println!("{:20}{:>30}{:>30}{:>30}{:>11}", "", "publish", "step", "period", "memcpy");
        let columns = format!("{:>11} {:>9} {:>8}", "median", "max", "x");
        println!("{:20}{columns}{columns}{columns}{:>11}", "contender", "median");
    }
    // A contender that failed once has no row: half of its rounds would not compare.
    for (name, record) in contenders.iter_mut().filter(|(name, _)| !failed.contains(name)) {
        report(name, record, options);
    }
    match failed[..] {
        [] => Ok(()),
        _ => Err(format!("failed: {}", failed.join(", ")).into()),
    }
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    let (who, done) = match args.first().map(String::as_str) {
        Some("child") => (args[1..].join(" "), child(&args[1..])),
        _ => {
            let done = Options::parse(args.into_iter()).and_then(|options| compare(&options));
            ("rivals".into(), done)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{who}: {why}");
            ExitCode::FAILURE
        }
    }
}
