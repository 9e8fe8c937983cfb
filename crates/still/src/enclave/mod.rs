//! `still enclave`: regions for observers that do not see their directory, or have another kernel.

mod agent;
mod machine;
mod serve;

use crate::context::{Context, Verdict};
use clap::Subcommand;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::os::unix::net::UnixStream;

/// Let observers look that do not see the directory of regions: in another container, another user's, or another machine's
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  still enclave serve --socket /run/simulation/sock
  still get unix:/run/simulation/sock#plate u          from where the socket is mounted
  still --dir unix:/run/simulation/sock ls

`docs/containers.md` has more, and `docs/machines.md` of virtual machines."
)]
pub struct Args {
    #[command(subcommand)]
    command: What,
}

#[derive(Debug, Subcommand)]
enum What {
    Serve(serve::Args),
    Agent(agent::Args),
    Machine(machine::Args),
}

/// Does what is asked.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    match &args.command {
        What::Serve(args) => serve::run(context, args),
        What::Agent(args) => agent::run(context, args),
        What::Machine(args) => machine::run(context, args),
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err(format!("'{text}' is no mode, such as 0660")),
    }
}

/// Something comes by this when a signal says that it is time to end.
fn signals() -> std::io::Result<UnixStream> {
    let (stop, end) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, end.try_clone()?)?;
    }
    Ok(stop)
}
