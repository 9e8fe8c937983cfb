//! `still enclave serve`: the broker.

use crate::context::{Context, Verdict};
use crate::enclave::{parse_mode, signals};
use crate::failure::{FINE, Failure};
use crate::table::sanitize;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use stillframe::enclave::Handout;
use stillframe::inspect;
use stillframe_enclave::{Admission, Allow, Options, Service};

/// Hand out regions by descriptors over a Unix socket
///
/// Observers open unix:PATH#REGION, in all languages and with all commands, wherever the socket is mounted. They get descriptors of the
/// region's files by which nobody can write, and hold versions as any observer does. When the broker ends, they go on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Who may connect is said by the mode of the socket, and by --allow if it is given. Whoever is served
can look, and hold versions, which takes memory, and nothing else.

The socket that a dead broker left is taken over; one where somebody listens is not. SIGTERM ends
the broker and takes the socket away.

Exit codes: 0 ended by a signal, 1 it cannot listen there, 2 the command makes no sense.")]
pub struct Args {
    /// Where to listen; the directory has to be there
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Mode of the socket, octal: who may write to it may connect
    #[arg(long, value_name = "MODE", default_value = "0600", value_parser = parse_mode)]
    mode: u32,
    /// Serve only this user or group: user:NUMBER or group:NUMBER; may be given several times
    #[arg(long, value_name = "WHO")]
    allow: Vec<Allow>,
    /// Serve also where no read-only view of the directory can be made: whoever is served may write where the modes let him
    #[arg(long)]
    plain: bool,
    /// Regions, groups and arenas to hand out, with what lies below them [default: all]
    #[arg(value_name = "REGION")]
    regions: Vec<String>,
}

/// Serves until a signal comes.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let stop = signals()?;
    // One descriptor for each client that says nothing, and 250 for the files of an answer.
    stillframe_kernel::descriptors::raise_limit();
    let handout = Handout::new(&context.dir, None, &args.regions)?.accept_plain(args.plain);
    let trust = inspect::trust_to_write(None)?;
    let options = Options { socket: args.socket.clone(), mode: args.mode, trust, stays: false };
    let service = Service::begin(&options, handout, Admission(args.allow.clone()))?;
    let (dir, socket) = (context.dir.display().to_string(), args.socket.display().to_string());
    if let Some(why) = service.desk().is_plain()? {
        let then = match args.plain {
            true => "whoever is served may write where the modes of the files let him",
            false => {
                "nobody is served (--plain serves all the same, and whoever is served may write where the modes let him)"
            }
        };
        let text = format!("still: no read-only view can be made ({why}): {then}");
        let _ = writeln!(std::io::stderr(), "{}", sanitize(&text));
    }
    writeln!(context.out, "handing out {} at {}", sanitize(&dir), sanitize(&socket))?;
    context.out.flush()?;
    service.serve(stop.as_fd())?;
    Ok(FINE)
}

impl From<stillframe_enclave::Error> for Failure {
    fn from(error: stillframe_enclave::Error) -> Failure {
        match error {
            stillframe_enclave::Error::Engine(error) => Failure::Engine(error),
            stillframe_enclave::Error::BadPath { .. } => Failure::Misuse(error.to_string()),
            error => Failure::Problem(error.to_string()),
        }
    }
}
