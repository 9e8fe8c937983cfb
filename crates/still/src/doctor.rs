//! `still doctor`: what this machine allows.

use crate::context::{Context, Verdict};
use crate::failure::{FINE, PROBLEM};
use crate::pages::ordinary;
use crate::table::{Align, Table, sanitize};
use crate::units::{count, format_bytes};
use serde_json::json;
use stillframe::inspect;
use stillframe_pages::Pool;
use stillframe_pages::supply::System;

/// Say what this machine allows, which tracker will be used, and what to change
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still doctor
  still doctor --json | jq -r .chosen

A tracker finds the pages that were written since the last publish. From the quickest to the one
that always works: wp_async, soft_dirty, private_cow, full_copy.

With --json: {\"kernel\", \"chosen\", \"trackers\": [{\"kind\", \"usable\", \"why\"}],
\"facts\": [{\"name\", \"value\", \"ok\", \"advice\"}]}.

Exit codes: 0 when there is nothing to change, 1 when there is advice.")]
pub struct Args {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What large pages the machine can give. Who needs none has nothing to change.
fn pools() -> Vec<inspect::Fact> {
    let system = System::default();
    let fact = |name: &str, value| inspect::Fact { name: name.into(), value, ok: true, advice: String::new() };
    let together = system.together_bytes().map(|bytes| {
        let value = format!("{} lie together and could be reserved at once", format_bytes(bytes));
        fact("large pages to be had", value)
    });
    let pools = Pool::all(&system).map(|pools| {
        let free: u64 = pools.iter().filter_map(|pool| Some(pool.size(&system).ok()?.free_bytes)).sum();
        let value = match pools.len() {
            0 => "none; `still pages reserve SIZE` makes one".into(),
            number => format!("{}, {} free: `still pages`", count(number, "pool"), format_bytes(free)),
        };
        fact("pools of large pages", value)
    });
    let value = match ordinary::can_be_had() {
        true => "`still pages reserve SIZE` makes pools of ordinary large pages, for regions",
        false => "this kernel gives none (Linux 6.1 does, unless shmem_enabled is 'deny')",
    };
    let ordinary = fact("large pages without root", value.into());
    together.into_iter().chain(pools).chain([ordinary]).collect()
}

/// Says what the machine allows.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let mut diagnosis = inspect::diagnose(&context.dir);
    diagnosis.facts.extend(pools());
    let verdict = if diagnosis.facts.iter().all(|fact| fact.ok) { FINE } else { PROBLEM };
    if args.json {
        let tracker = |probe: &inspect::TrackerProbe| json!({ "kind": probe.kind.to_string(), "usable": probe.usable, "why": probe.why });
        let fact = |fact: &inspect::Fact| json!({ "name": fact.name, "value": fact.value, "ok": fact.ok, "advice": fact.advice });
        context.write_json(&json!({
            "kernel": diagnosis.kernel,
            "chosen": diagnosis.chosen.to_string(),
            "trackers": diagnosis.trackers.iter().map(tracker).collect::<Vec<_>>(),
            "facts": diagnosis.facts.iter().map(fact).collect::<Vec<_>>(),
        }))?;
        return Ok(verdict);
    }
    let out = &mut context.out;
    writeln!(out, "kernel {}", sanitize(&diagnosis.kernel))?;
    writeln!(out, "\ntrackers: {} will be used", diagnosis.chosen)?;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left), ("", Align::Left)]).indented(2);
    for probe in &diagnosis.trackers {
        let usable = if probe.usable { "usable" } else { "not here" };
        table.push(vec![probe.kind.to_string(), usable.into(), sanitize(&probe.why)]);
    }
    table.write(out)?;
    writeln!(out, "\nlimits")?;
    let mut table = Table::new(&[("", Align::Left), ("", Align::Left), ("", Align::Left)]).indented(2);
    for fact in &diagnosis.facts {
        let mark = if fact.ok { "ok" } else { "!!" };
        table.push(vec![mark.into(), sanitize(&fact.name), sanitize(&fact.value)]);
    }
    table.write(out)?;
    let advised: Vec<_> = diagnosis.facts.iter().filter(|fact| !fact.ok).collect();
    if advised.is_empty() {
        writeln!(out, "\nnothing to change")?;
    } else {
        writeln!(out, "\nto change")?;
        for fact in advised {
            writeln!(out, "  {}: {}", sanitize(&fact.name), sanitize(&fact.advice))?;
        }
    }
    Ok(verdict)
}
