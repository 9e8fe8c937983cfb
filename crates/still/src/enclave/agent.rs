//! `still enclave agent`: leases on other machines' versions.

use crate::context::{Context, Verdict};
use crate::enclave::{parse_mode, signals};
use crate::failure::FINE;
use crate::table::sanitize;
use crate::units::parse_bytes;
use std::io::Write;
use std::os::fd::AsFd;
use stillframe::inspect;
use stillframe_enclave::{Agent, AgentOptions, Doorbell};

/// Show other machines which of their versions are held in this one
///
/// Each machine that shares memory with others, and the host, runs one. It makes the arena of its own machine, NAME, in which
/// producers make regions (NAME/REGION), and lets observers hold versions in those of the others.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The arenas of the others lie beside it in the directory of regions. How they come into a machine
stands in docs/machines.md. The agent may be ended and started at any time: what is held stays.

By --doorbell guest the agent listens at DIR/guest/doorbell, to which QEMU connects (-chardev
socket,id=bell,path=… -device ivshmem-doorbell,chardev=bell,vectors=1). In the machine --doorbell
host=0000:00:05.0 names the device. Without a doorbell, those who wait look each millisecond.

Exit codes: 0 ended by a signal, 1 it cannot run, 2 the command makes no sense.")]
pub struct Args {
    /// Name of this machine, and of its arena
    name: String,
    /// Another machine; may be given several times
    #[arg(long, value_name = "NAME")]
    peer: Vec<String>,
    /// A machine that this one's agent named before, and that has ended for good: what it held is held no more
    #[arg(long, value_name = "NAME")]
    forget: Vec<String>,
    /// Take no memory for places of the others' arenas where they wrote nothing: for machines that are trusted to name none of them
    #[arg(long)]
    sparse: bool,
    /// How another machine is woken, and wakes, by QEMU's ivshmem-doorbell: NAME on its host, NAME=ADDRESS of the device in the machine
    #[arg(long, value_name = "NAME[=WHERE]")]
    doorbell: Vec<Doorbell>,
    /// How much memory this machine shares, unless it is there already
    #[arg(long, value_name = "BYTES", default_value = "64M", value_parser = parse_bytes)]
    bytes: u64,
    /// Mode of the directories of the arenas, octal: who may look may hold
    #[arg(long, value_name = "MODE", default_value = "0700", value_parser = parse_mode)]
    mode: u32,
}

/// Serves until a signal comes.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let stop = signals()?;
    stillframe_kernel::descriptors::raise_limit();
    let agent = Agent::begin(AgentOptions {
        dir: context.dir.clone(),
        name: args.name.clone(),
        bytes: args.bytes,
        peers: args.peer.clone(),
        forgotten: args.forget.clone(),
        sparse: args.sparse,
        doorbells: args.doorbell.clone(),
        mode: args.mode,
        trust: inspect::trust_to_write(None)?,
    })?;
    for address in agent.deaf_devices() {
        let text = "its driver is not vfio-pci: this machine rings by it, and is not rung";
        let _ = writeln!(std::io::stderr(), "still: {address}: {text}");
    }
    writeln!(context.out, "agent of {} in {}", args.name, sanitize(&context.dir.display().to_string()))?;
    context.out.flush()?;
    agent.serve(stop.as_fd())?;
    Ok(FINE)
}
