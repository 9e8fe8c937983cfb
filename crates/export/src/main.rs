//! `still-export`: one version of a region, group or checkpoint as a file of HDF5 or netCDF-4.
//!
//! `still export` starts this program, which alone is linked with the formats' C libraries: what publishes and observes
//! needs none of them.
#![deny(unsafe_code)]

mod content;
mod error;
mod format;
mod hdf5;
mod netcdf;
mod patience;
mod pieces;
mod room;
mod source;
mod writer;

use clap::Parser;
use content::{Array, Content, Contribution};
use error::{Error, Result};
use format::Format;
use patience::Patience;
use pieces::Piece;
use source::Source;
use std::path::PathBuf;
use std::process::ExitCode;
use stillframe::{DType, bfloat16};
use stillframe_file::WholeFile;
use writer::{Layout, LeftOut, Refusal, Remarks, Writer};

/// Bytes that are read and written at a time.
const PIECE_BYTES: usize = 4 << 20;
/// Bytes of a chunk of a compressed array: what who reads one element has to decompress.
const CHUNK_BYTES: usize = 1 << 20;

/// Something was in the way.
const PROBLEM: u8 = 1;
/// The command makes no sense.
const MISUSE: u8 = 2;

/// The part of `still export` that is linked with the libraries of HDF5 and netCDF; see `still export --help`
#[derive(Debug, Parser)]
#[command(name = "still-export")]
struct Args {
    /// Directory of the regions
    #[arg(long)]
    dir: PathBuf,
    /// Region, group or directory of checkpoints
    source: String,
    /// Variables; all if none is named
    variables: Vec<String>,
    /// The file
    #[arg(short, long)]
    output: PathBuf,
    /// The version
    #[arg(long)]
    version: Option<u64>,
    /// Level of compression
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    compress: Option<u8>,
    /// Say in JSON what was written
    #[arg(long)]
    json: bool,
    /// Use these processors alone, such as 60-63,127
    #[arg(long, conflicts_with = "impolite")]
    processors: Option<String>,
    /// Take processors as any other program, whoever wants them
    #[arg(long)]
    impolite: bool,
}

/// What was written.
#[derive(Debug, serde::Serialize)]
struct Report {
    path: PathBuf,
    format: &'static str,
    region: String,
    version: u64,
    variables: Vec<String>,
    bytes: u64,
    /// Newer checkpoints that are damaged, and how.
    skipped: Vec<Skipped>,
    missing: Vec<Missing>,
    left_out: Vec<String>,
    /// Variables that readers of netCDF do not see in a file of HDF5.
    unseen: Vec<String>,
}

/// A checkpoint that is damaged.
#[derive(Debug, serde::Serialize)]
struct Skipped {
    path: PathBuf,
    error: String,
}

/// Elements of a global array that no rank has.
#[derive(Debug, serde::Serialize)]
struct Missing {
    variable: String,
    elements: u64,
}

fn main() -> ExitCode {
    stillframe_kernel::remark::write_at_once();
    let args = Args::parse();
    match export(&args) {
        Ok((report, left_out)) => {
            tell(&args, &report, &left_out);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("still: {}", error.to_string().replace(['\n', '\t'], " "));
            ExitCode::from(if error.is_misuse() { MISUSE } else { PROBLEM })
        }
    }
}

fn tell(args: &Args, report: &Report, left_out: &[LeftOut]) {
    for skipped in &report.skipped {
        eprintln!("still: skipped a newer checkpoint: {}", skipped.error);
    }
    for missing in &report.missing {
        let Missing { variable, elements } = missing;
        eprintln!("still: {elements} elements of {variable} are in no rank's part; they are filled");
    }
    for LeftOut { attribute, why } in left_out {
        eprintln!("still: left out the attribute {attribute}, {why}");
    }
    if !report.unseen.is_empty() {
        let names = report.unseen.join(", ");
        eprintln!(
            "still: readers of netCDF do not see {names} in this file: export to .nc for them; h5py reads all of it"
        );
    }
    if args.json {
        println!("{}", serde_json::to_string(report).unwrap_or_default());
        return;
    }
    let Report { path, region, version, variables, bytes, .. } = report;
    let count = variables.len();
    let what = if count == 1 { "variable" } else { "variables" };
    println!("wrote {}: version {version} of {region}, {count} {what}, {bytes} bytes of data", path.display());
}

fn export(args: &Args) -> Result<(Report, Vec<LeftOut>)> {
    let Some(format) = Format::of(&args.output) else {
        let why = "its ending says neither .h5 nor .nc";
        let advice = "end it in .h5 for HDF5 or in .nc for netCDF-4";
        let name = args.output.display().to_string();
        return Err(Error::Name { format: "still export", what: "file", name, why, advice });
    };
    let source = Source::open(&args.dir, &args.source, args.version)?;
    let content = Content::of(&source, &args.variables)?;
    let whole = WholeFile::begin_named(&args.output)?;
    if args.compress.is_none() {
        room::check(&args.output, whole.file(), content.bytes())?;
    }
    let file = format.create(&whole.aside()).map_err(Stopped::Refused);
    let written = file.and_then(|file| write(args, file, &source, &content));
    let remarks = match written {
        Ok(remarks) => remarks,
        Err(Stopped::Early(error)) => return Err(error),
        Err(Stopped::Refused(Refusal::Name(error))) => return Err(error),
        Err(Stopped::Refused(Refusal::Library { what, text })) => {
            let obstacle = room::obstacle(whole.file()).map(|error| Error::file(&args.output, error));
            let refused = || Error::Library { path: args.output.clone(), library: format.name(), what, text };
            return Err(obstacle.or_else(|| large_type(format, &content)).unwrap_or_else(refused));
        }
    };
    whole.commit()?;
    let arrays = || content.groups.iter().flat_map(|group| group.arrays.iter().map(move |array| (group, array)));
    let path = |(group, array): (&content::Group, &Array)| match &group.name {
        Some(name) => format!("{name}/{}", array.name),
        None => array.name.clone(),
    };
    let missing = arrays().filter(|(_, array)| array.missing() > 0);
    let missing = missing.map(|(group, array)| Missing { variable: path((group, array)), elements: array.missing() });
    let skipped = source.skipped().iter();
    let report = Report {
        path: args.output.clone(),
        format: format.name(),
        region: source.region().into(),
        version: source.version(),
        variables: arrays().map(path).collect(),
        bytes: content.bytes(),
        skipped: skipped.map(|skipped| Skipped { path: skipped.path.clone(), error: skipped.why.clone() }).collect(),
        missing: missing.collect(),
        left_out: remarks.left_out.iter().map(|left_out| left_out.attribute.clone()).collect(),
        unseen: remarks.unseen,
    };
    Ok((report, remarks.left_out))
}

/// The error of the first array whose type no file of the format can have. The libraries do not name it.
fn large_type(format: Format, content: &Content) -> Option<Error> {
    fn fields(dtype: &DType) -> usize {
        match dtype {
            DType::Record { fields: own, .. } => own.iter().map(|field| fields(&field.dtype)).sum(),
            _ => 1,
        }
    }
    let bytes_max = hdf5::DESCRIPTION_BYTES_MAX;
    content.groups.iter().flat_map(|group| &group.arrays).find_map(|array| {
        let bytes = hdf5::description_bytes(&array.dtype).filter(|bytes| *bytes > bytes_max)?;
        // That of netCDF-4 is the shorter one.
        let advice = if format == Format::Hdf5 { "export to .nc, which may have room, " } else { "" };
        let (format, name) = (format.name(), array.name.clone());
        Some(Error::LargeType { format, name, fields: fields(&array.dtype), bytes, bytes_max, advice })
    })
}

/// What ended the writing.
enum Stopped {
    Early(Error),
    Refused(Refusal),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Refused(refusal)
    }
}

/// Writes everything, and returns what readers do not find in it.
fn write(args: &Args, mut file: Box<dyn Writer>, source: &Source, content: &Content) -> Result<Remarks, Stopped> {
    let mut patience = Patience::begin(args).map_err(Stopped::Early)?;
    for group in &content.groups {
        file.group(group)?;
        group.arrays.iter().try_for_each(|array| add(&mut *file, array, args.compress))?;
    }
    let (mut buffer, mut wide) = (Vec::new(), Vec::new());
    let bytes_max = if args.compress.is_some() { CHUNK_BYTES } else { PIECE_BYTES };
    for (number, array) in content.groups.iter().flat_map(|group| &group.arrays).enumerate() {
        for contribution in &array.contributions {
            for piece in pieces::pieces(&contribution.shape, array.source_dtype.bytes(), bytes_max) {
                buffer.resize(piece.bytes, 0);
                fill(source, array, contribution, &piece, &mut buffer).map_err(Stopped::Early)?;
                patience.count(buffer.len()).map_err(Stopped::Early)?;
                let start: Vec<usize> = contribution.offset.iter().zip(&piece.start).map(|(at, by)| at + by).collect();
                if array.source_dtype == array.dtype {
                    file.write(number, &start, &piece.count, &buffer)?;
                } else {
                    wide.clear();
                    bfloat16::widen(&array.source_dtype, &buffer, &mut wide);
                    file.write(number, &start, &piece.count, &wide)?;
                }
            }
        }
    }
    Ok(file.close()?)
}

/// Reads a piece of a contribution, run by run as it lies in the rank's variable.
fn fill(source: &Source, array: &Array, contribution: &Contribution, piece: &Piece, buffer: &mut [u8]) -> Result<()> {
    let start: Vec<usize> = contribution.within.iter().zip(&piece.start).map(|(at, by)| at + by).collect();
    let mut rest = buffer;
    for (offset, length) in pieces::runs(&contribution.of, &start, &piece.count, array.source_dtype.bytes()) {
        let (run, behind) = rest.split_at_mut(length);
        source.read(contribution.rank, &array.name, offset, run)?;
        rest = behind;
    }
    Ok(())
}

fn add(file: &mut dyn Writer, array: &Array, deflate: Option<u8>) -> Result<(), Refusal> {
    // A chunk is one of the pieces that come, so that each is compressed once. Single numbers have no chunks, and empty
    // arrays no elements.
    let largest = array
        .contributions
        .iter()
        .map(|contribution| &contribution.shape)
        .max_by_key(|shape| shape.iter().product::<usize>());
    let chunk = largest.filter(|_| deflate.is_some() && !array.shape.is_empty() && !array.shape.contains(&0));
    let chunk = chunk.map(|shape| pieces::box_shape(shape, array.source_dtype.bytes(), CHUNK_BYTES));
    let layout = Layout { chunk: chunk.as_deref(), deflate: deflate.unwrap_or(0), whole: array.missing() == 0 };
    file.array(array, layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// A file of which only the order of the calls is known.
    struct Calls(Rc<RefCell<Vec<String>>>);

    impl Calls {
        fn add(&self, call: String) -> Result<(), Refusal> {
            self.0.borrow_mut().push(call);
            Ok(())
        }
    }

    impl Writer for Calls {
        fn group(&mut self, group: &content::Group) -> Result<(), Refusal> {
            self.add(format!("group {}", group.name.as_deref().unwrap_or("root")))
        }

        fn array(&mut self, array: &Array, _: Layout) -> Result<(), Refusal> {
            self.add(format!("array {}", array.name))
        }

        fn write(&mut self, number: usize, _: &[usize], _: &[usize], bytes: &[u8]) -> Result<(), Refusal> {
            self.add(format!("write {number}: {}", bytes[0]))
        }

        fn close(self: Box<Self>) -> Result<Remarks, Refusal> {
            self.add("close".into()).map(|()| Remarks::default())
        }
    }

    /// Else netCDF's library goes through all that there is for each array, and 3000 of them take as long as 9 000 000.
    #[test]
    fn nothing_is_written_before_all_arrays_are_there() {
        let dir = PathBuf::from(format!("/dev/shm/stillframe-test-export-{}", std::process::id()));
        let region = |rank| stillframe::Region::options().dir(&dir).rank(rank, 2).create("g").unwrap();
        let mut ranks = [region(0), region(1)];
        for (rank, region) in ranks.iter_mut().enumerate() {
            for name in ["a", "b"] {
                let number = (rank * 2 + usize::from(name == "b")) as u8;
                let array = region.array::<u8>(name, &[4]).unwrap();
                region.slice_mut(&array).fill(number);
            }
            region.publish(1).commit().unwrap();
        }
        let args = ["still-export", "--dir", dir.to_str().unwrap(), "--impolite", "-o", "x.nc", "g"];
        let args = Args::parse_from(args);
        let source = Source::open(&args.dir, "g", None).unwrap();
        let content = Content::of(&source, &[]).unwrap();
        let calls = Rc::new(RefCell::new(Vec::new()));
        assert!(write(&args, Box::new(Calls(calls.clone())), &source, &content).is_ok());
        std::fs::remove_dir_all(&dir).unwrap();
        let groups = ["group root", "group 0", "array a", "array b", "group 1", "array a", "array b"];
        let pieces = ["write 0: 0", "write 1: 1", "write 2: 2", "write 3: 3", "close"];
        assert_eq!(*calls.borrow(), [&groups[..], &pieces[..]].concat());
    }
}
