//! `still node`: the runtime of a node, which `still-node` is.
//!
//! That is a program of its own because it alone speaks with other machines.

use crate::beside;
use crate::context::{Context, Verdict};
use std::ffi::OsString;
use std::process::Command;

/// Let the processes of several nodes hold one object
///
/// `still node run` runs on each node, and `still node certificate` makes what the nodes of a job know each other by. `still node
/// --help` has the rest.
#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    /// What is to be done, and how
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

const PROGRAM: &str = "still-node";

/// Bytes of libfabric's own buffers where it makes messages out of connections (`ofi_rxm`). It has thousands of them, of 16 KiB if nobody
/// says otherwise: 80 MiB for each endpoint. Versions go past them.
const FABRIC_BUFFERS: (&str, &str) = ("FI_OFI_RXM_BUFFER_SIZE", "1024");

/// Lets a sender write long messages where they belong, and not the receiver fetch them: else libfabric may crash when a connection ends,
/// and the runtime refuses to use it.
const FABRIC_WRITES: (&str, &str) = ("FI_OFI_RXM_USE_RNDV_WRITE", "1");

/// That a provider which libfabric loads takes no signals, and writes no file where the runtime stands if it crashes (`libpsm`).
const NO_BACKTRACE: (&str, &str) = ("IPATH_NO_BACKTRACE", "1");

/// Becomes the runtime.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let mut command = Command::new(beside::find(PROGRAM, "`make build` makes it, and `make install` puts it there")?);
    // The directory of regions is given as to all commands, before or behind their names.
    command.env("STILLFRAME_DIR", &context.dir);
    for (name, value) in [FABRIC_BUFFERS, FABRIC_WRITES, NO_BACKTRACE] {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command.args(&args.rest);
    match beside::become_it(command)? {}
}
