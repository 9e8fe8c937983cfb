//! `still-node`: the runtime of a node, which `still node` starts.

use clap::{Args, Parser, Subcommand};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use stillframe_etcd::Tls;
use stillframe_fabric::Libfabric;
use stillframe_kernel::{descriptors, points, priority};
use stillframe_link::{Means, identity};
use stillframe_node::diagnostics;
use stillframe_node::{Service, ServiceOptions};
use stillframe_object::Objects;

/// How often it is looked whether nodes that are waited for are there.
const PAUSE: Duration = Duration::from_millis(50);

/// How often it is looked whether this node still is one of the job's.
const LOOK: Duration = Duration::from_millis(500);

/// Let the processes of several nodes hold one object
///
/// One runtime runs on each node. All of a job have its certificate, and one place where names are kept.
#[derive(Debug, Parser)]
#[command(name = "still node", bin_name = "still node", version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  still node certificate heat-17 ~/heat-17
      makes the job's certificate, once, where all nodes can read it
  still node run --certificate ~/heat-17 --listen 10.0.0.1
      on each node, with its own address
  srun --overlap --ntasks-per-node=1 bash -c \\
      'exec still node run --certificate ~/heat-17 --listen $(hostname -s)' &
      the same in a job of Slurm
  still node wait --nodes 4
      returns when the runtime of this node knows 4 nodes and reaches them

The node that is first starts an etcd for all, with its data in memory, and writes
its address into the directory of the certificate, where the others find it. An etcd
that runs anyway is named with --names. docs/nodes.md has the whole of it: ports,
certificates, containers, what to do when nodes do not find each other.";

#[derive(Debug, Subcommand)]
enum Command {
    Run(Run),
    Wait(Wait),
    Certificate(Certificate),
}

/// Run the runtime of this node until it is ended
///
/// Programs of this node then hold objects together with programs of the other nodes: each finds what any of them creates, and
/// reads what any of them publishes. When it runs it prints a line. It ends at SIGTERM or Ctrl-C; programs go on without it, and with
/// the next one.
#[derive(Debug, Args)]
struct Run {
    /// Directory of regions [default: $STILLFRAME_DIR, else /dev/shm/stillframe-UID]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Directory with the job's certificate, made by `still node certificate`
    #[arg(long, value_name = "DIR")]
    certificate: PathBuf,
    /// Where to listen for other runtimes: an address or a name of this machine, and a port, else any that is free
    #[arg(long, value_name = "ADDRESS[:PORT]", default_value = "127.0.0.1", value_parser = resolve)]
    listen: SocketAddr,
    /// Address at which others reach this node, if it is another
    #[arg(long, value_name = "ADDRESS")]
    advertise: Option<IpAddr>,
    /// Name of this node, for people; no other of the job has it [default: the machine's]
    #[arg(long)]
    name: Option<String>,
    /// Where names are kept: addresses of etcd. Without any, the first node of the job starts one
    #[arg(long, value_name = "URL", value_delimiter = ',')]
    names: Vec<String>,
    /// Certificates for that etcd, if they are not the job's: who signs its, this node's, and its key
    #[arg(long, value_names = ["AUTHORITY", "CERTIFICATE", "KEY"], num_args = 3)]
    names_tls: Option<Vec<PathBuf>>,
    /// Send versions beside TLS: for a network that nobody else is on
    #[arg(long)]
    plain: bool,
    /// MiB of memory that versions may take which programs of this node read of others [default: half of the file system of DIR]
    #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    memory_mib: Option<u64>,
    /// How versions travel: over TCP, or by a provider of libfabric, which is experimental. All nodes of a job say the same
    ///
    /// libfabric (Debian: libfabric1) has to be installed. Providers are tcp, which is the default, shm for nodes that are one
    /// machine, and what the site has, such as verbs;ofi_rxm or cxi. Versions then go beside TLS, as with --plain.
    #[arg(long, value_name = "tcp|fabric[:PROVIDER]", default_value = "tcp", conflicts_with = "plain")]
    bulk: Bulk,
    /// Seconds after which a node that is not heard of counts as lost. All nodes of a job say the same
    #[arg(long, value_name = "SECONDS", default_value_t = 3)]
    lease: u64,
    /// Nice value, 0 to 19: how far it steps back behind the simulation
    #[arg(long, value_name = "VALUE", default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=19))]
    nice: u32,
    /// Print JSON when it runs: {"node", "address", "names"}
    #[arg(long)]
    json: bool,
}

/// How versions travel.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Bulk {
    Tcp,
    /// By a provider of libfabric.
    Fabric(String),
}

impl FromStr for Bulk {
    type Err = String;

    fn from_str(text: &str) -> Result<Bulk, String> {
        match text.split_once(':') {
            None if text == "tcp" => Ok(Bulk::Tcp),
            None if text == "fabric" => Ok(Bulk::Fabric("tcp".into())),
            Some(("fabric", provider)) if !provider.is_empty() => Ok(Bulk::Fabric(provider.into())),
            _ => Err("it is none of tcp, fabric and fabric:PROVIDER".into()),
        }
    }
}

impl Bulk {
    fn means(&self, is_plain: bool) -> Result<Means, stillframe_fabric::Error> {
        Ok(match self {
            Bulk::Fabric(provider) => Means::Fabric(Arc::new(Libfabric::open(provider)?)),
            Bulk::Tcp if is_plain => Means::Plain,
            Bulk::Tcp => Means::Tls,
        })
    }
}

/// Wait until the runtime of this node runs and has connections to others
///
/// A program that creates an object before that creates it on its own node alone.
#[derive(Debug, Args)]
struct Wait {
    /// Directory of regions [default: $STILLFRAME_DIR, else /dev/shm/stillframe-UID]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How many nodes there have to be, this one among them
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    nodes: usize,
    /// Seconds after which it is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

/// Make the certificate of a job
#[derive(Debug, Args)]
struct Certificate {
    /// Name of the job: letters, digits, - and _
    job: String,
    /// Directory to make, which every node of the job reads
    dir: PathBuf,
    /// Days for which it is good
    #[arg(long, default_value_t = 30)]
    days: u64,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(args) => run(args),
        Command::Wait(args) => wait(args),
        Command::Certificate(args) => certify(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            diagnostics::report_last(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn certify(args: &Certificate) -> Result<(), Box<dyn std::error::Error>> {
    identity::create(&args.dir, &args.job, Duration::from_secs(args.days.saturating_mul(24 * 3600)))?;
    println!("certificate of job {} in {}: keep it readable for you alone", args.job, args.dir.display());
    Ok(())
}

fn wait(args: Wait) -> Result<(), Box<dyn std::error::Error>> {
    let begin = Instant::now();
    let dir = args.dir.unwrap_or_else(stillframe::inspect::root);
    loop {
        let nodes = match Objects::options().dir(&dir).look()? {
            Some(objects) => objects.nodes(),
            None => Ok(None),
        };
        let why = match nodes {
            Ok(Some(nodes)) => {
                let mut apart = nodes.iter().filter(|node| !node.is_own && !node.is_connected).peekable();
                if nodes.len() >= args.nodes && apart.peek().is_none() {
                    return Ok(());
                }
                let apart: Vec<String> = apart.map(|node| format!("{} at {}", node.name, node.address)).collect();
                let apart = if apart.is_empty() { String::new() } else { format!("; apart are {}", apart.join(", ")) };
                format!("there are {} of {} nodes{apart}", nodes.len(), args.nodes)
            }
            Ok(None) => format!("no runtime runs for {}", dir.display()),
            Err(error) => error.to_string(),
        };
        if begin.elapsed() >= Duration::from_secs(args.timeout) {
            return Err(format!("waited {} s: {why}", args.timeout).into());
        }
        std::thread::sleep(PAUSE);
    }
}

fn run(args: Run) -> Result<(), Box<dyn std::error::Error>> {
    if args.listen.ip().is_unspecified() && args.advertise.is_none() {
        let text =
            "stands for all addresses of this machine, and the other nodes are to know one: give it with --advertise";
        return Err(format!("--listen {} {text}", args.listen.ip()).into());
    }
    let name = match args.name {
        Some(name) => name,
        None => std::fs::read_to_string("/proc/sys/kernel/hostname")?.trim().to_owned(),
    };
    let names_tls = args.names_tls.and_then(|files| {
        let [ca, certificate, key] = <[PathBuf; 3]>::try_from(files).ok()?;
        Some(Tls { ca, certificate, key, name: None })
    });
    // Each fragment that a program reads takes one, and each other node some.
    descriptors::raise_limit();
    // Before there are threads, which inherit it.
    priority::step_back(args.nice)?;
    priority::weigh_session(args.nice)?;
    let (sender, signals) = channel();
    let mut told = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || told.forever().take_while(|signal| sender.send(*signal).is_ok()).count());
    let means = args.bulk.means(args.plain)?;
    let options = ServiceOptions {
        dir: args.dir.unwrap_or_else(stillframe::inspect::root),
        name,
        listen: args.listen,
        advertise: args.advertise,
        identity: args.certificate,
        names: args.names,
        names_tls,
        means,
        memory_bytes: args.memory_mib.map(|mib| mib << 20),
        lease: Duration::from_secs(args.lease),
    };
    let mut service = Service::start(options.clone())?;
    say(&service, args.json);
    loop {
        match signals.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) if !service.is_lost() => {}
            Err(RecvTimeoutError::Timeout) => {
                diagnostics::report(format!("others have not heard of this node for {} s: it joins anew", args.lease));
                points::hit("node.lost");
                drop(service);
                points::hit("node.ended");
                match start_again(&options, &signals) {
                    Some(started) => service = started,
                    None => return Ok(()),
                }
                say(&service, args.json);
            }
            _ => break,
        }
    }
    if let Err(error) = service.leave() {
        // Perhaps the node that keeps the names has left before.
        let text = format!("other nodes learn only in {} s that this one has left: {error}", args.lease);
        diagnostics::report_last(&text);
    }
    Ok(())
}

fn say(service: &Service, is_json: bool) {
    let (node, address, names) = (service.node().0, service.address(), service.names());
    let line = match is_json {
        true => serde_json::json!({ "node": node, "address": address.to_string(), "names": names }).to_string(),
        false => format!("node {node} listens at {address}; names are at {names}"),
    };
    // Who started it may have gone since: that ends no runtime.
    let _ = std::io::stdout().write_all(format!("{line}\n").as_bytes());
    let _ = std::io::stdout().flush();
}

/// Starts a service as soon as that is possible, and tells why it is not; nothing if a signal comes before.
fn start_again(options: &ServiceOptions, signals: &Receiver<i32>) -> Option<Service> {
    let mut said = String::new();
    // One that fails after it joined counts as a node until its lease ends, and homes that begin wait for it. So before long it pauses for
    // longer than that.
    let (mut pause, longest) = (LOOK, options.lease.saturating_mul(2));
    loop {
        match Service::start(options.clone()) {
            Ok(service) => return Some(service),
            Err(error) if error.to_string() != said => {
                said = error.to_string();
                diagnostics::report(said.clone());
            }
            Err(_) => {}
        }
        if signals.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        pause = pause.saturating_mul(2).min(longest.max(LOOK));
    }
}

/// An address, or the first that a name has.
fn resolve(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Ok(SocketAddr::new(address, 0));
    }
    let found = match text.contains(':') {
        true => text.to_socket_addrs(),
        false => (text, 0).to_socket_addrs(),
    };
    let mut found = found.map_err(|error| format!("{error}; 'ip addr' shows what this machine has"))?;
    found.next().ok_or_else(|| "the name has no address".into())
}
