//! Making a pool, and giving it back.

use crate::account::{parse_group, parse_user};
use crate::context::{Context, Verdict};
use crate::failure::Failure;
use crate::pages::ordinary;
use crate::progress::Progress;
use crate::units::{count, format_bytes, parse_bytes};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe_pages::reserve::{Access, Request, Step, find_same};
use stillframe_pages::supply::System;
use stillframe_pages::unit::Units;
use stillframe_pages::{Page, Pool};

/// The pool that is meant where nobody names one.
const NAME: &str = "default";

/// Take memory from the kernel for a pool
///
/// The kernel moves and writes out what is in the way. The sooner after the machine was started, the more can be had. All pages are
/// filled once before anybody gets one, so that the host of a virtual machine has given them, too. Ctrl-C ends it, and everything is
/// as it was.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  sudo still pages reserve 16G                    for who calls sudo
  sudo still pages reserve 16G --group physics    for the members of a group, too
  sudo still pages reserve 16G --all              for everybody on the machine
  sudo still pages reserve 64G --numa --page 1G   the same from each memory node
  sudo still pages reserve 16G --persist          after each restart, too, until it is given back

  still pages reserve 4G                          without root: of ordinary large pages, for own regions

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
    /// The user who may use it, by name or number [default: who calls sudo]
    #[arg(long, value_name = "USER", value_parser = parse_user)]
    user: Option<u32>,
    /// A group whose members may use it, too, by name or number
    #[arg(long, value_name = "GROUP", value_parser = parse_group)]
    group: Option<u32>,
    /// Leave the pages as they are, and do not fill them once
    #[arg(long)]
    no_fill: bool,
    /// Make it again whenever the machine starts, by a unit of systemd
    #[arg(long)]
    persist: bool,
    /// Leave a pool of this name as it is if it has this size, these pages and these users; another one is an error as ever
    #[arg(long)]
    if_missing: bool,
    /// Make it of ordinary large pages, as for every user who is not root: for regions and arenas only
    #[arg(long, conflicts_with_all = ["numa", "page", "user", "group", "all", "persist", "no_fill", "if_missing"])]
    ordinary: bool,
    /// Let everybody use it
    #[arg(long, conflicts_with_all = ["user", "group"])]
    all: bool,
}

/// Give a pool back to the kernel
///
/// It has to be used by nobody any more, and nothing may lie in it. Nor is it made again when the machine starts, if it was to be.
#[derive(Debug, clap::Args)]
pub struct GiveBackArgs {
    /// What it is called
    #[arg(default_value = NAME)]
    name: String,
    /// Even if files lie in it, such as regions that no producer has: they are lost
    #[arg(long)]
    force: bool,
    /// The one of ordinary large pages; who is not root has no other
    #[arg(long)]
    ordinary: bool,
}

fn number(variable: &str) -> Option<u32> {
    std::env::var(variable).ok()?.parse().ok().filter(|number| *number != u32::MAX)
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

/// The command that makes the same pool for the same users, whoever calls it.
fn command(args: &Args, access: Access) -> Result<Vec<String>, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Problem(format!("/proc/self/exe: {error}")))?;
    let mut words = vec![own.display().to_string(), "pages".into(), "reserve".into(), args.size.to_string()];
    words.extend([format!("--name={}", args.name), format!("--page={}", args.page)]);
    match args.all {
        true => words.push("--all".into()),
        false => words.push(format!("--user={}", access.user)),
    }
    words.extend(args.group.map(|group| format!("--group={group}")));
    let flags = [(args.numa, "--numa"), (args.no_fill, "--no-fill")];
    words.extend(flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag.into()));
    // A unit may be started though the pool is there.
    words.push("--if-missing".into());
    Ok(words)
}

/// The units of the machine, or those of the folder that a variable names.
fn units() -> Units {
    Units::new(std::env::var_os("STILLFRAME_UNITS").filter(|folder| !folder.is_empty()).map(PathBuf::from))
}

/// What only root can have.
fn of_root(args: &Args) -> Option<&'static str> {
    let wanted = [
        (args.numa, "--numa"),
        (args.page != Page::Large, "--page"),
        (args.user.is_some(), "--user"),
        (args.group.is_some(), "--group"),
        (args.all, "--all"),
        (args.persist, "--persist"),
        (args.no_fill, "--no-fill"),
        (args.if_missing, "--if-missing"),
    ];
    wanted.into_iter().find(|(is_set, _)| *is_set).map(|(_, option)| option)
}

fn run_ordinary(context: &mut Context, args: &Args) -> Verdict {
    if let Some(option) = of_root(args) {
        return Err(Failure::Misuse(format!("{option} is for pools of reserved pages, which only root can make")));
    }
    let is_ended = ended()?;
    let progress = Progress::new("filling");
    let made = ordinary::reserve(context, &args.name, args.size, |done_bytes, bytes| {
        progress.show(format_args!("pool '{}'", args.name), done_bytes, bytes);
        go_on(&is_ended)
    });
    drop(progress);
    let made = made?;
    let (bytes, path) = (format_bytes(made.bytes), made.path.display());
    let large = match made.large_bytes {
        0 => "none of it in large pages as far as the kernel says (Linux 6.1 makes some on a tmpfs)".into(),
        large_bytes if large_bytes == made.bytes => "in large pages".into(),
        large_bytes => format!("{} of it in large pages, the rest in small ones", format_bytes(large_bytes)),
    };
    let text = "for regions and arenas, not for `still run`; where there is swap space the kernel may write it out";
    context.finish(&format!("pool '{}' has {bytes}, {large}, at {path}: {text}", made.name))
}

pub fn run(context: &mut Context, args: &Args) -> Verdict {
    if args.ordinary || stillframe_kernel::user_id() != 0 {
        return run_ordinary(context, args);
    }
    let access = access(args);
    let request = Request {
        name: args.name.clone(),
        bytes: args.size,
        page: args.page,
        by_node: args.numa,
        is_filled: !args.no_fill,
        access,
    };
    let persistent = if args.persist { Some((units(), command(args, access)?)) } else { None };
    if let Some((units, command)) = &persistent {
        units.check(command)?;
    }
    let (pool, is_new) = match reserve(&request) {
        Err(Failure::Pages(stillframe_pages::Error::Exists { .. })) if args.if_missing => {
            (find_same(&System::default(), &request)?, false)
        }
        made => (made?, true),
    };
    let unit = persistent.map(|(units, command)| units.write(&args.name, &command)).transpose();
    if unit.is_err() && is_new {
        // Else it would be there until the restart, which is not what was asked for.
        stillframe_pages::reserve::give_back(&System::default(), &args.name, false)?;
    }
    let unit = unit?.map_or(String::new(), |path| format!(", and after each restart by {}", path.display()));
    let pages = args.page.count(args.size);
    let bytes = format_bytes(pages * args.page.bytes());
    let (path, pages) = (pool.mount.path.display(), count(pages as usize, "page"));
    let has = if is_new { "has" } else { "was there already and has" };
    context.finish(&format!("pool '{}' {has} {bytes}, {pages} of {}, at {path}{unit}", pool.name, args.page))
}

/// What is set when somebody ends this.
fn ended() -> Result<Arc<AtomicBool>, Failure> {
    let is_ended = Arc::new(AtomicBool::new(false));
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, is_ended.clone())?;
    }
    Ok(is_ended)
}

fn go_on(is_ended: &AtomicBool) -> ControlFlow<()> {
    match is_ended.load(Ordering::Relaxed) {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    }
}

/// Makes it, says on a terminal how far it is, and undoes it when somebody ends this.
fn reserve(request: &Request) -> Result<Pool, Failure> {
    let is_ended = ended()?;
    // Begun when there is something to fill: its rate is not that of gathering.
    let mut progress = None;
    let mut watch = |step| {
        if let Step::Filling { done_bytes, bytes } = step {
            let progress = progress.get_or_insert_with(|| Progress::new("filling"));
            progress.show(format_args!("pool '{}'", request.name), done_bytes, bytes);
        }
        go_on(&is_ended)
    };
    Ok(stillframe_pages::reserve::reserve(&System::default(), request, &mut watch)?)
}

pub fn give_back(context: &mut Context, args: &GiveBackArgs) -> Verdict {
    let (units, name) = (units(), &args.name);
    // A pool of reserved pages may have the same name, and is root's to give back.
    if (args.ordinary || stillframe_kernel::user_id() != 0) && ordinary::give_back(context, name, args.force)? {
        return context.finish(&given(name, false));
    }
    if args.ordinary {
        let dir = context.dir.display();
        return Err(Failure::Problem(format!("there is no pool '{name}' of ordinary large pages in {dir}")));
    }
    match stillframe_pages::reserve::give_back(&System::default(), name, args.force) {
        Ok(()) => {
            let is_removed = units.remove(name)?;
            context.finish(&given(name, is_removed))
        }
        Err(kept @ stillframe_pages::Error::Kept { .. }) => {
            units.remove(name)?;
            Err(kept.into())
        }
        Err(missing @ stillframe_pages::Error::NoPool { .. }) => {
            let is_given = ordinary::give_back(context, name, args.force)?;
            match (is_given, units.has(name) && units.remove(name)?) {
                (true, is_removed) => context.finish(&given(name, is_removed)),
                // It could not be made again at the last start, or was given back otherwise.
                (false, true) => context
                    .finish(&format!("there was no pool '{name}'; it is not made any more when the machine starts")),
                (false, false) => Err(missing.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn given(name: &str, is_unit_removed: bool) -> String {
    let more = if is_unit_removed { ", and is not made any more when the machine starts" } else { "" };
    format!("pool '{name}' is the kernel's again{more}")
}
