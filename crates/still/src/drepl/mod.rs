//! `still drepl`: layouts of data, and raw files from one into another.

mod check;
mod convert;
mod described;
mod explain;
mod plan;
mod selected;

use crate::context::{Context, Verdict};

/// Describe a layout of data once, and get any other layout of it
///
/// A text says which arrays and records there are, and which parts of them lie where in which buffer or file: its views.
/// These commands check such a text, draw which part of a view comes from where, and convert raw files from views into
/// others. docs/drepl.md is the introduction, docs/drepl-language.md the language.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  cat > mesh.drepl <<END
  type Cell struct { rho, e float64; id int32 }
  var mesh [100,100]Cell
  view aos { var mesh = mesh }
  view soa { var rho [,] = mesh[,].rho; var e [,] = mesh[,].e }
  END
  still drepl check mesh.drepl
  still drepl explain mesh.drepl --view soa --from aos --svg soa.svg
  head -c 200000 /dev/urandom > aos.raw
  still drepl convert mesh.drepl --from aos=aos.raw --to soa=soa.raw
  still drepl convert mesh.drepl --from aos=aos.raw --to '{ var m [i,j]{e} = mesh[i*4,j*4] }=coarse.raw'

Exit codes: 0 well, 1 when the text has mistakes, something is missing or a file cannot be read or
written, 2 when the command makes no sense."
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Check(check::Args),
    Explain(explain::Args),
    Plan(plan::Args),
    Convert(convert::Args),
}

/// Runs one of the commands.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    match &args.command {
        Command::Check(args) => check::run(context, args),
        Command::Explain(args) => explain::run(context, args),
        Command::Plan(args) => plan::run(context, args),
        Command::Convert(args) => convert::run(context, args),
    }
}
