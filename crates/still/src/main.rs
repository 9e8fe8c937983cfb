//! `still`: look at running simulations from the command line.
//!
//! Every command is a module with its arguments and a function `run`; this file only finds out which one is meant and
//! turns what became of it into an exit code. Raw memory is
//! touched in `trial` alone, which has the benchmarks' baselines.
#![deny(unsafe_code)]

mod account;
mod bench;
mod beside;
mod checkpoint;
mod context;
mod csv;
mod demo;
mod doctor;
mod drepl;
mod enclave;
mod export;
mod failure;
mod gather;
mod get;
mod group;
mod list;
mod node;
mod npy;
mod object;
mod output;
mod pages;
mod picture;
mod polite;
mod progress;
mod raw;
mod region;
mod remove;
mod restore;
mod run;
mod safe;
mod selection;
mod show;
mod slice;
mod stats;
mod step;
mod store;
mod table;
mod target;
mod text;
#[cfg(test)]
#[path = "../../stillframe/tests/it/common/tier.rs"]
mod tier;
mod trial;
mod units;
mod value;
mod verify;
mod watch;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Parser, Subcommand};
use context::{Context, Verdict};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Look at a running simulation without stopping it
///
/// A running program publishes consistent versions of its arrays through shared memory, in a region. These commands
/// find regions, show what they hold, take data out of them, save and restore checkpoints, and clean up behind programs
/// that are gone. None of them stops or slows the program they look at.
#[derive(Debug, Parser)]
#[command(name = "still", version, arg_required_else_help = true, max_term_width = 100)]
#[command(after_help = "\
Examples:
  still ls                        which regions are there
  still show heat                 what is in one
  still get heat 'u[0, :]'        print a row
  still get heat u -o u.png       draw it
  still stats heat u              follow its mean and extremes
  still checkpoint heat --to ck   save versions as they come
  still watch                     see them at work
  still node --help               objects over several nodes
  still enclave --help            observers in other containers
  still pages                     pools of large pages
  still drepl --help              files of one layout into another

`still COMMAND --help` has more, and says what --json prints.
STILLFRAME_TRUST=user:NUMBER, group:NUMBER or any: use what belongs to others as one's own.
Exit codes: 0 well, 1 something is wrong, 2 the command makes no sense.")]
struct Cli {
    /// Directory of the regions, or unix:PATH of a broker [default: $STILLFRAME_DIR, else /dev/shm/stillframe-UID]
    #[arg(long, global = true, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(name = "ls")]
    List(list::Args),
    Show(show::Args),
    Get(get::Args),
    Stats(stats::Args),
    Watch(watch::Args),
    Export(export::Args),
    Checkpoint(checkpoint::Args),
    Safe(safe::Args),
    Restore(restore::Args),
    Step(step::Args),
    #[command(name = "rm")]
    Remove(remove::RemoveArgs),
    #[command(name = "gc")]
    Collect(remove::CollectArgs),
    Run(run::Args),
    Verify(verify::Args),
    Node(node::Args),
    Enclave(enclave::Args),
    Pages(pages::Args),
    Doctor(doctor::Args),
    Drepl(drepl::Args),
    Bench(bench::Args),
    /// The part of a benchmark that a child process plays
    #[command(subcommand, hide = true)]
    BenchChild(bench::Role),
    Demo(demo::Args),
    /// The part of the demonstration that a child process plays
    #[command(subcommand, hide = true)]
    DemoChild(demo::Role),
}

fn main() -> ExitCode {
    stillframe_kernel::remark::write_at_once();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return explain(&error),
    };
    // Writing to a closed pipe is an error here like any other, which ends the command quietly.
    let mut out = output::Output::new();
    let dir = cli.dir.unwrap_or_else(stillframe::inspect::root);
    let verdict = run(cli.command, &mut Context { dir, out: &mut out });
    let verdict = verdict.and_then(|code| match out.flush().map_err(failure::Failure::from) {
        // What came of the command does not depend on who hears of it.
        Err(failure) if !failure.is_closed_pipe() => Err(failure),
        _ => Ok(code),
    });
    match verdict {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            match &failure {
                failure if failure.is_closed_pipe() => {}
                failure::Failure::Mistakes { diagnostics, .. } => show(diagnostics),
                failure => complain(&failure.to_string()),
            }
            ExitCode::from(failure.exit_code())
        }
    }
}

fn run(command: Command, context: &mut Context) -> Verdict {
    match command {
        Command::List(args) => list::run(context, &args),
        Command::Show(args) => show::run(context, &args),
        Command::Get(args) => get::run(context, &args),
        Command::Stats(args) => stats::run(context, &args),
        Command::Watch(args) => watch::run(context, &args),
        Command::Export(args) => export::run(context, &args),
        Command::Checkpoint(args) => checkpoint::run(context, &args),
        Command::Safe(args) => safe::run(context, &args),
        Command::Restore(args) => restore::run(context, &args),
        Command::Step(args) => step::run(context, &args),
        Command::Remove(args) => remove::run(context, &args),
        Command::Collect(args) => remove::collect(context, &args),
        Command::Run(args) => run::run(context, &args),
        Command::Verify(args) => verify::run(context, &args),
        Command::Node(args) => node::run(context, &args),
        Command::Enclave(args) => enclave::run(context, &args),
        Command::Pages(args) => pages::run(context, &args),
        Command::Doctor(args) => doctor::run(context, &args),
        Command::Drepl(args) => drepl::run(context, &args),
        Command::Bench(args) => finish(bench::run(args)),
        Command::BenchChild(role) => finish(bench::play(role)),
        Command::Demo(args) => finish(demo::run(args)),
        Command::DemoChild(role) => finish(demo::play(role)),
    }
}

/// The verdict of a command that has an error type of its own.
fn finish(result: Result<(), impl std::fmt::Display>) -> Verdict {
    match result {
        Ok(()) => Ok(failure::FINE),
        Err(error) => Err(failure::Failure::Problem(error.to_string())),
    }
}

/// Prints the help that was asked for, or says in one line what is wrong with the command.
fn explain(error: &clap::Error) -> ExitCode {
    let asked = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
    if asked || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        // Whoever asked may also close the pipe.
        let _ = error.print();
        return ExitCode::from(if asked { failure::FINE } else { failure::MISUSE });
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let told: Vec<&str> =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more")).collect();
    let told: Vec<&str> = told.into_iter().filter(|line| !is_misleading(error, line)).collect();
    let command = command_of(text);
    let is_option = error.kind() == ErrorKind::UnknownArgument;
    let advice = match command.strip_prefix("still ") {
        Some("get" | "stats") if is_option => {
            ": choose elements behind the name, as in 'u[-1]', and a version with --version"
        }
        _ => "",
    };
    complain(&format!("{}{advice}; see `{command} --help`", told.join(" ")));
    ExitCode::from(failure::MISUSE)
}

/// The command that is misused, as it is typed, out of the line that shows its usage.
fn command_of(text: &str) -> String {
    let usage = text.lines().find_map(|line| line.trim().strip_prefix("Usage: ")).unwrap_or("still");
    let is_word = |word: &&str| word.starts_with(|c: char| c.is_ascii_lowercase());
    usage.split_whitespace().take_while(is_word).collect::<Vec<_>>().join(" ")
}

/// Whether a line is a guess that leads nowhere: a command with another first letter, or that an unknown option could be meant as a
/// value, which nothing takes so.
fn is_misleading(error: &clap::Error, line: &str) -> bool {
    let told = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        Some(ContextValue::Strings(texts)) => texts.first().map_or("", String::as_str),
        _ => "",
    };
    let is_guess = match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let (asked, guessed) = (told(ContextKind::InvalidSubcommand), told(ContextKind::SuggestedSubcommand));
            asked.chars().next() != guessed.chars().next()
        }
        ErrorKind::UnknownArgument => line.contains("as a value"),
        _ => false,
    };
    is_guess && line.starts_with("tip:")
}

/// Mistakes are marked in the lines where they are.
fn show(diagnostics: &::drepl::Diagnostics) {
    let text = diagnostics.to_string();
    for line in text.lines() {
        let _ = writeln!(std::io::stderr(), "{}", table::sanitize(line));
    }
}

fn complain(text: &str) {
    // There is nobody left to tell when even this fails.
    let _ = writeln!(std::io::stderr(), "still: {}", table::sanitize(&text.replace('\n', " ")));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Cli as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn help_has_no_line_that_would_be_wrapped() {
        for command in <Cli as clap::CommandFactory>::command().get_subcommands() {
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines() {
                assert!(line.chars().count() <= 100, "{}: {line}", command.get_name());
            }
        }
    }
}
