//! Making a pool, and giving it back.

use crate::context::{Context, Verdict};
use crate::units::{count, format_bytes, parse_bytes};
use stillframe_pages::Page;
use stillframe_pages::reserve::{Access, Request};
use stillframe_pages::supply::System;

/// The pool that is meant where nobody names one.
const NAME: &str = "default";

/// Take memory from the kernel for a pool
///
/// The kernel moves and writes out what is in the way. The sooner after the machine was started, the more can be had.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo still pages reserve 16G                    for who calls sudo
  sudo still pages reserve 16G --group 1000       for the members of a group, too
  sudo still pages reserve 16G --all              for everybody on the machine
  sudo still pages reserve 64G --numa --page 1G   the same from each memory node

Each pool has its bound. So users who are not to take each other's memory get a pool each.")]
pub struct Args {
    /// How much: 512M, 16G
    #[arg(value_parser = parse_bytes)]
    size: u64,
    /// What the pool is called
    #[arg(long, default_value = NAME)]
    name: String,
    /// Take the same part from each memory node
    #[arg(long)]
    numa: bool,
    /// Size of a page: 2M or 1G
    #[arg(long, default_value = "2M")]
    page: Page,
    /// Number of the user who may use it [default: who calls sudo]
    #[arg(long, value_name = "UID")]
    user: Option<u32>,
    /// Number of a group whose members may use it, too
    #[arg(long, value_name = "GID")]
    group: Option<u32>,
    /// Let everybody use it
    #[arg(long, conflicts_with_all = ["user", "group"])]
    all: bool,
}

/// Give a pool back to the kernel
///
/// It has to be used by nobody any more.
#[derive(Debug, clap::Args)]
pub struct GiveBackArgs {
    /// What it is called
    #[arg(default_value = NAME)]
    name: String,
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok()
}

fn access(args: &Args) -> Access {
    let user = args.user.or_else(|| number("SUDO_UID")).unwrap_or_else(stillframe_kernel::user_id);
    let (group, mode) = match (args.group, args.all) {
        (Some(group), _) => (group, 0o770),
        (None, true) => (0, 0o1777),
        (None, false) => (number("SUDO_GID").unwrap_or(0), 0o700),
    };
    Access { user, group, mode }
}

pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let request = Request {
        name: args.name.clone(),
        bytes: args.size,
        page: args.page,
        by_node: args.numa,
        access: access(args),
    };
    let pool = stillframe_pages::reserve::reserve(&System::default(), &request)?;
    let pages = args.page.count(args.size);
    let bytes = format_bytes(pages * args.page.bytes());
    let (path, pages) = (pool.mount.path.display(), count(pages as usize, "page"));
    context.finish(&format!("pool '{}' has {bytes}, {pages} of {}, at {path}", pool.name, args.page))
}

pub fn give_back(context: &mut Context, args: &GiveBackArgs) -> Verdict {
    stillframe_pages::reserve::give_back(&System::default(), &args.name)?;
    context.finish(&format!("pool '{}' is the kernel's again", args.name))
}
