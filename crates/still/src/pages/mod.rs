//! `still pages`: pools of large pages.

mod list;
pub mod ordinary;
mod reserve;

use crate::context::{Context, Verdict};
use clap::Subcommand;

/// Show pools of large pages, make one, or give it back
///
/// A pool is memory in pages of 2 MiB or 1 GiB that the kernel neither reclaims nor moves, whatever else the machine does. Root takes it
/// once, for those who may use it. What a program has of it is free again when the program ends. Who is not root makes pools of
/// ordinary large pages, for regions.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  still pages                              which pools there are, and who has what of them
  sudo still pages reserve 16G             a pool 'default' for who calls sudo
  sudo still pages reserve 64G --numa --page 1G --name big --group 1000
  sudo still pages give-back default       its memory is the kernel's again

With --json: {\"pools\": [{\"name\", \"path\", \"page\", \"bytes\", \"free_bytes\", \"holders\": [{\"pid\",
\"command\", \"bytes\", \"by_node\"}]}], \"supply\": [{\"page\", \"node\", \"total\", \"free\",
\"promised\"}]}. `supply` counts pages; its `node` is null for all memory nodes together. `bytes` is
null for a file system without a bound. Pools of ordinary large pages are in \"ordinary\": [{\"name\",
\"path\", \"bytes\", \"large_bytes\", \"free_bytes\", \"unfinished\", \"regions\": [{\"name\", \"bytes\"}]}].
`unfinished` is one whose command was killed: give it back, or reserve it anew.

Exit codes: 0 done, 1 it cannot be done, 2 when the command makes no sense."
)]
pub struct Args {
    #[command(subcommand)]
    command: Option<What>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    Reserve(reserve::Args),
    GiveBack(reserve::GiveBackArgs),
}

/// Shows pools, or does what is asked.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    match &args.command {
        None => list::run(context, args.json),
        Some(What::Reserve(args)) => reserve::run(context, args),
        Some(What::GiveBack(args)) => reserve::give_back(context, args),
    }
}
