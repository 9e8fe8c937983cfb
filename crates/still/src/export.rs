//! `still export`: a version as one file of HDF5 or netCDF-4, which `still-export` writes.
//!
//! That is a program of its own because it alone needs those formats' libraries, and may be left out where they are
//! missing.

use crate::beside;
use crate::context::{Context, Verdict};
use crate::polite::PoliteArgs;
use crate::raw;
use crate::units::parse_version;
use std::path::PathBuf;
use std::process::Command;

/// Write a version as one file, HDF5 or netCDF-4
///
/// The newest version of a region, of a group (the newest that all ranks have) or of a directory of checkpoints, or the one
/// that --version says, with all its variables or those that are named. The producer goes on meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still export heat -o heat.h5                 all variables of the newest version
  still export heat u v -o heat.nc             two of them, as netCDF-4
  still export heat -o heat.nc --compress 4    smaller, and slower
  still export ./checkpoints -o last.h5        the newest good checkpoint
  still export ./checkpoints --version 500 -o v500.nc
  cp -r \"$(still export heat --raw)\" backup/  the region itself, as files

--raw prints the directory of a region, or of a group, that has no producer: a copy of it in another
directory of regions is the region. A copy made while somebody publishes may be torn, and is
refused. With --json: {\"region\", \"version\", \"path\", \"bytes\"}.

A name that begins with / or . is a directory; another one only if there is no such region. The
file's ending says the format: .h5 or .hdf5, .nc or .nc4. The file is written aside, synced and then
put in its place: it is the old one, or whole. Arrays go through memory piece by piece.

In the file:
  dtypes      as h5py writes and reads them; in netCDF complex numbers and records are
              compounds, bool is a byte with the attribute dtype, bytesN are characters along
              one more dimension
  dimensions  named by the variable's attribute dims, as in \"y x\", else by their length, as in n128
  order       a column-major variable has its dimensions reversed, as Fortran programs write
              it, and the attribute order = \"fortran\"
  attributes  of the file: region, version, published_ns, ranks and the version's own; of an
              array: units and its own
  groups      variables that say with the attributes offset and global_shape which part of a
              global array they are become that array; others lie in one group per rank

With --json: {\"path\", \"format\", \"region\", \"version\", \"variables\", \"bytes\",
\"skipped\": [{\"path\", \"error\"}], \"missing\": [{\"variable\", \"elements\"}], \"left_out\",
\"unseen\"}. Skipped are newer checkpoints that are damaged, missing the elements that are in no
rank's part, left out the attributes whose names the format keeps for itself, or whose texts have a
zero byte, and unseen the variables of a .h5 that readers of netCDF do not see.

Exit codes: 0 well, 1 when there is no such region or the file cannot be written, 2 when there is no
such variable, or the format has no room for a name or a type.")]
pub struct Args {
    /// Region, group, or directory of checkpoints
    source: String,
    /// Variables to export; all if none is named
    #[arg(value_name = "VARIABLE")]
    variables: Vec<String>,
    /// The file to write
    #[arg(short, long, value_name = "FILE", required_unless_present = "raw")]
    output: Option<PathBuf>,
    /// Name the files of a region without a producer, whose copy is the region
    #[arg(long, conflicts_with_all = ["output", "variables", "version", "compress"])]
    raw: bool,
    /// Export this version instead of the newest
    #[arg(long, value_name = "V", value_parser = parse_version, allow_negative_numbers = true)]
    version: Option<u64>,
    /// Compress with deflate, 1 (fast) to 9 (small)
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(1..=9))]
    compress: Option<u8>,
    #[command(flatten)]
    polite: PoliteArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const PROGRAM: &str = "still-export";
const HOW: &str = "it is built where the libraries of HDF5 and netCDF are installed (Debian: apt-get install libhdf5-dev \
    libnetcdf-dev), by `make build`; docs/install.md says how without root";

/// Becomes the program that writes the file.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let Some(output) = &args.output else {
        return raw::run(context, &args.source, args.json);
    };
    let program = beside::find(PROGRAM, HOW)?;
    let mut command = Command::new(program);
    // A lock of the library's is not needed for a file that nobody else knows, and not to be had on every file system.
    command.env("HDF5_USE_FILE_LOCKING", "FALSE");
    command.arg("--dir").arg(&context.dir).arg("--output").arg(output);
    command.args(args.version.map(|version| format!("--version={version}")));
    command.args(args.compress.map(|level| format!("--compress={level}")));
    command.args(args.json.then_some("--json")).args(args.polite.arguments());
    command.arg("--").arg(&args.source).args(&args.variables);
    match beside::become_it(command)? {}
}
