//! What each version of an object costs its home and its nodes, from 1 to 1000 nodes.

mod allocated;

use std::time::Instant;

use allocated::allocated_bytes;
use clap::Parser;
use roster_bench::cost::{Cost, Memory};
use roster_bench::grid::Grid;
use roster_bench::world::World;
use serde_json::json;
use stillframe_roster::refusal::Refusal;

/// The home of an object and the runtimes of its nodes, in one process.
#[derive(Parser)]
struct Arguments {
    /// Numbers of nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 16, 64, 256, 1000])]
    nodes: Vec<u32>,
    /// Fragments of the object, over all nodes.
    #[arg(long, value_delimiter = ',', default_values_t = [100_000])]
    fragments: Vec<u32>,
    /// Fragments of each node, in place of those over all nodes.
    #[arg(long)]
    each: Option<u32>,
    /// Versions that are published.
    #[arg(long, default_value_t = 5)]
    versions: u64,
    /// Few nodes and fragments.
    #[arg(long)]
    quick: bool,
    /// Lines of JSON, one for each world and phase.
    #[arg(long)]
    json: bool,
}

/// One line of the table.
struct Row {
    grid: Grid,
    phase: &'static str,
    /// How many times it was done.
    times: u64,
    cost: Cost,
    /// Of the whole simulation, on the clock.
    seconds: f64,
}

fn main() -> Result<(), Refusal> {
    let mut arguments = Arguments::parse();
    if arguments.quick {
        (arguments.nodes, arguments.fragments, arguments.versions) = (vec![1, 2, 4, 16], vec![400], 3);
    }
    let tell = Tell { is_json: arguments.json };
    tell.begin();
    for fragments in arguments.fragments {
        for nodes in &arguments.nodes {
            let fragments = arguments.each.map_or(fragments, |each| each * nodes);
            measure(Grid::new(*nodes, fragments), arguments.versions, tell)?;
        }
    }
    Ok(())
}

fn measure(grid: Grid, versions: u64, tell: Tell) -> Result<(), Refusal> {
    let mut world = World::new(grid);
    let phase = |world: &mut World, phase, times, work: &mut dyn FnMut(&mut World) -> Result<(), Refusal>| {
        let (before, begin) = (world.cost(), Instant::now());
        work(world)?;
        tell.row(&Row { grid, phase, times, cost: world.cost() - before, seconds: begin.elapsed().as_secs_f64() });
        Ok::<(), Refusal>(())
    };
    phase(&mut world, "attach", 1, &mut |world| {
        world.attach_all(1)?;
        world.settle();
        Ok(())
    })?;
    phase(&mut world, "version", versions, &mut |world| {
        (1..=versions).try_for_each(|version| {
            world.publish(version)?;
            world.settle();
            assert_eq!(world.home().protocol().announced().version, version, "it is complete");
            Ok(())
        })
    })?;
    phase(&mut world, "read", 1, &mut |world| {
        let version = versions + 1;
        world.want(version);
        world.settle();
        world.publish(version)?;
        world.settle();
        assert!(world.nodes.iter().all(|node| node.ready == [version]), "all readers have it");
        Ok(())
    })?;
    let versions = versions + 1;
    phase(&mut world, "leave", 1, &mut |world| {
        world.leave(grid.fragments - 1, versions + 1)?;
        world.settle();
        Ok(())
    })?;
    phase(&mut world, "join", 1, &mut |world| {
        world.attach(grid.fragments - 1, 0, versions + 1)?;
        world.settle();
        Ok(())
    })?;
    phase(&mut world, "next", 1, &mut |world| {
        world.publish(versions + 1)?;
        world.settle();
        assert_eq!(world.home().protocol().announced().version, versions + 1, "the new writer counts");
        Ok(())
    })?;
    phase(&mut world, "late node", 1, &mut |world| {
        world.join();
        world.settle();
        Ok(())
    })?;
    phase(&mut world, "new home", 1, &mut |world| {
        world.change_home();
        world.settle();
        assert_eq!(world.home().protocol().announced().version, versions + 1, "nothing is lost");
        Ok(())
    })?;
    tell.memory(grid, world.end(allocated_bytes));
    Ok(())
}

/// How it is told.
#[derive(Clone, Copy)]
struct Tell {
    is_json: bool,
}

impl Tell {
    fn begin(self) {
        if !self.is_json {
            println!(
                "{:>5} {:>9} {:9} {:>10} {:>10} {:>10} {:>9} {:>9} {:>11} {:>11}",
                "nodes",
                "fragments",
                "phase",
                "home ms",
                "nodes ms",
                "µs/message",
                "msgs in",
                "msgs out",
                "KB in",
                "KB out"
            );
        }
    }

    fn row(self, row: &Row) {
        let Row { grid, phase, times, cost, seconds } = row;
        let per = |value: u64| value as f64 / *times as f64;
        let (in_messages, out_messages) = (per(cost.in_messages), per(cost.out_messages));
        let (home_ms, nodes_ms) = (per(cost.home_ns) / 1e6, per(cost.nodes_ns) / 1e6);
        let (in_kb, out_kb) = (per(cost.in_bytes) / 1e3, per(cost.out_bytes) / 1e3);
        let message_us = home_ms * 1e3 / in_messages.max(1.0);
        if self.is_json {
            let line = json!({
                "bench": "roster", "nodes": grid.nodes, "fragments": grid.fragments, "phase": phase, "home_ms": home_ms,
                "nodes_ms": nodes_ms, "message_us": message_us, "in_messages": in_messages, "out_messages": out_messages,
                "in_kb": in_kb, "out_kb": out_kb, "roster_kb": per(cost.roster_bytes) / 1e3,
                "too_long": cost.long_messages, "simulated_seconds": seconds,
            });
            return println!("{line}");
        }
        let too_long =
            if cost.long_messages > 0 { format!("  {} too long", cost.long_messages) } else { String::new() };
        println!(
            "{:>5} {:>9} {phase:9} {home_ms:>10.2} {nodes_ms:>10.2} {message_us:>10.1} {in_messages:>9.0} {out_messages:>9.0} \
             {in_kb:>11.1} {out_kb:>11.1}{too_long}",
            grid.nodes, grid.fragments
        );
    }

    fn memory(self, grid: Grid, memory: Memory) {
        let (home_kb, roster_kb) = (memory.home_bytes as f64 / 1e3, memory.roster_bytes as f64 / 1e3);
        let node_kb = memory.nodes_bytes as f64 / 1e3 / f64::from(grid.nodes);
        if self.is_json {
            let line = json!({
                "bench": "roster", "nodes": grid.nodes, "fragments": grid.fragments, "phase": "memory", "home_kb": home_kb,
                "node_kb": node_kb, "roster_kb": roster_kb,
            });
            return println!("{line}");
        }
        println!(
            "{:>5} {:>9} memory    home {home_kb:.0} KB, each node {node_kb:.1} KB and its roster {roster_kb:.0} KB",
            grid.nodes, grid.fragments
        );
    }
}
