//! Two star clusters that fall into each other: a time step per call, under `still step`.
//!
//! The state is a region with three loaned variables: positions `x`, velocities `v`, masses `m`. A call maps the version it
//! is to read, computes the next one into slots on loan, publishes it and ends. With `--steps` one call makes many steps,
//! and they are the same to the last bit.

mod cluster;
mod gravity;

use gravity::Force;
use std::process::ExitCode;
use stillframe::{Attributes, Loaned, Observer, Region, Rule, Scalar};

const USAGE: &str = "\
usage: nbody [--bodies N] [--dt T] [--seed S] [--steps N]
  --bodies N   stars of both clusters together, when version 0 is made [2000]
  --dt T       length of a time step [0.01]
  --seed S     of positions and velocities, when version 0 is made [1]
  --steps N    publish N versions in this call, instead of the one that `still step` asks for
The region is $STILLFRAME_STATE, or `cluster`.";

/// Two stars so close, in units of the softening length, make the next step a risky one.
const RISKY_DISTANCE: f64 = 0.02;

struct Options {
    state: String,
    bodies: usize,
    dt: f64,
    seed: u64,
    /// The version to read; the newest if nobody says which.
    read: Option<u64>,
    steps: u64,
}

impl Options {
    fn parse() -> Result<Options, String> {
        let mut options = Options {
            state: std::env::var("STILLFRAME_STATE").unwrap_or("cluster".into()),
            bodies: 2000,
            dt: 0.01,
            seed: 1,
            read: std::env::var("STILLFRAME_READ").ok().and_then(|text| text.parse().ok()),
            steps: 1,
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().ok_or(USAGE)?;
            let known = match name.as_str() {
                "--bodies" => value.parse().map(|number| options.bodies = number).is_ok(),
                "--dt" => value.parse().map(|number| options.dt = number).is_ok(),
                "--seed" => value.parse().map(|number| options.seed = number).is_ok(),
                "--steps" => value.parse().map(|number| options.steps = number).is_ok(),
                _ => false,
            };
            if !known {
                return Err(USAGE.into());
            }
        }
        Ok(options)
    }
}

fn main() -> ExitCode {
    match Options::parse().and_then(|options| run(&options).map_err(|error| error.to_string())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            eprintln!("nbody: {text}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> stillframe::Result<()> {
    // Whoever opens the region as its producer takes over what the last call left.
    // And a step that finds no room because somebody looks waits: left out, it would not have been made.
    let mut region = Region::options().rule(Rule::Wait { timeout: None }).create(&options.state)?;
    let mut variables = None;
    let mut read = options.read.or(region.recovered());
    for _ in 0..options.steps {
        read = Some(match read {
            None => begin(&mut region, &mut variables, options)?,
            Some(version) => step(&mut region, &mut variables, options, version)?,
        });
    }
    Ok(())
}

/// The variables of the state.
#[derive(Clone, Copy)]
struct Variables {
    x: Loaned<f64>,
    v: Loaned<f64>,
    m: Loaned<f64>,
}

impl Variables {
    /// Declares them, once in a call.
    fn of(region: &mut Region, known: &mut Option<Variables>, bodies: usize) -> stillframe::Result<Variables> {
        if let Some(variables) = known {
            return Ok(*variables);
        }
        let (x, v) = (region.loaned("x", &[bodies, 3])?, region.loaned("v", &[bodies, 3])?);
        Ok(*known.insert(Variables { x, v, m: region.loaned("m", &[bodies])? }))
    }
}

/// Makes version 0.
fn begin(region: &mut Region, known: &mut Option<Variables>, options: &Options) -> stillframe::Result<u64> {
    let variables = Variables::of(region, known, options.bodies)?;
    let (mut x, mut v) = (region.loan(&variables.x)?, region.loan(&variables.v)?);
    let mut m = region.loan(&variables.m)?;
    cluster::collision(options.seed, &mut x, &mut v, &mut m);
    let force = Force::of(&x, &m);
    let kinetic = gravity::kinetic_energy(&v, &m);
    x.submit();
    v.submit();
    m.submit();
    publish(region, 0, 0.0, kinetic, kinetic + force.potential, &force)
}

/// Reads a version and makes the next one.
fn step(
    region: &mut Region,
    known: &mut Option<Variables>,
    options: &Options,
    version: u64,
) -> stillframe::Result<u64> {
    // The read state: in memory where the last call put it, mapped rather than copied, and held until the next is there.
    let state = Observer::open(&options.state)?.version(version)?;
    let (x, v, m) = (state.slice::<f64>("x")?, state.slice::<f64>("v")?, state.slice::<f64>("m")?);
    let (time, at_begin) = (number(state.attributes(), "time"), number(state.attributes(), "energy_at_begin"));
    // The write state: free slots of the region. The masses stay as they are, and need none.
    let variables = Variables::of(region, known, m.len())?;
    let (mut new_x, mut new_v) = (region.loan(&variables.x)?, region.loan(&variables.v)?);
    let force = gravity::leapfrog(x, v, m, options.dt, &mut new_x, &mut new_v);
    let kinetic = gravity::kinetic_energy(&new_v, m);
    new_x.submit();
    new_v.submit();
    publish(region, version + 1, time + options.dt, kinetic, at_begin, &force)
}

fn publish(
    region: &mut Region,
    version: u64,
    time: f64,
    kinetic: f64,
    at_begin: f64,
    force: &Force,
) -> stillframe::Result<u64> {
    let energy = kinetic + force.potential;
    let publication = region.publish(version).attr("time", time).attr("kinetic", kinetic);
    let publication = publication.attr("potential", force.potential).attr("energy", energy);
    let publication = publication.attr("energy_at_begin", at_begin);
    let publication = publication.attr("energy_error", ((energy - at_begin) / at_begin).abs());
    let publication = publication.attr("risky", force.closest < RISKY_DISTANCE * gravity::SOFTENING);
    Ok(publication.commit()?.version)
}

/// A real number among a version's attributes.
fn number(attributes: &Attributes, name: &str) -> f64 {
    match attributes.get(name) {
        Some(Scalar::Float(value)) => *value,
        _ => f64::NAN,
    }
}
