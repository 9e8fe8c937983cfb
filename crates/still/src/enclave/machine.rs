//! `still enclave machine`: a program with whose end a machine ends.

use crate::beside::become_it;
use crate::context::{Context, Verdict};
use crate::enclave::parse_mode;
use crate::failure::{FINE, Failure};
use std::os::fd::IntoRawFd;
use std::process::Command;
use stillframe::inspect;
use stillframe_enclave::begin_machine;

/// Run the program of a machine, so that its end is known
///
/// What a machine holds of others' versions is held until it has ended. This lets the agent know, however the program ends: the
/// program has a lock that goes with it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  still enclave machine guest -- qemu-system-x86_64 -m 2G …

Exit codes: those of the program; 1 a machine of the name runs, or the program cannot be run.")]
pub struct Args {
    /// Name of the machine
    name: String,
    /// Mode of the directory of its arena, octal
    #[arg(long, value_name = "MODE", default_value = "0700", value_parser = parse_mode)]
    mode: u32,
    /// The program, with its words
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// Becomes the program.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let Some((program, rest)) = args.command.split_first() else {
        return Err(Failure::Misuse("there is no program to run".into()));
    };
    let trust = inspect::trust_to_write(None)?;
    let lock = begin_machine(&context.dir, &args.name, args.mode, trust)?;
    stillframe_kernel::descriptors::keep_open(&lock).map_err(|error| Failure::file(&context.dir, error))?;
    // The program has it from now on.
    let _ = lock.into_raw_fd();
    let mut command = Command::new(program);
    command.args(rest);
    become_it(command)?;
    Ok(FINE)
}
