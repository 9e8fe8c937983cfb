//! `still drepl explain`: a drawing of which part of a view comes from which source.

use super::described::Described;
use super::plan::{Answer, Question};
use crate::context::{Context, Verdict};
use crate::failure::FINE;
use crate::table::sanitize;
use crate::target;
use ::drepl::picture::Picture;
use std::path::PathBuf;

/// Draw which part of a view comes from which source
///
/// Each source has a letter, in a picture file a colour; what no source has is hatched. Arrays of more than two axes are
/// drawn as planes, and the fields of records apart where they come from different sources.
#[derive(Debug, clap::Args)]
#[command(after_long_help = "\
Examples:
  still drepl explain mesh.drepl --view soa --from aos
  still drepl explain grid.drepl --view '{ var g[x:18,y:34] = grid[x+47,y+95] }' \\
      --from '{ var b[x:16,y:32] = grid[x+16*i,y+32*j] }' --each i=0..4 --each j=0..4 --svg halo.svg

Indices at the rims are those of the object. Where parts would be too narrow to see they are drawn
wider. `still drepl plan` has everything as a table; with --json, both print the same.

Exit codes: 0 well, 1 when the text has mistakes or the picture cannot be written, 2 when the
command makes no sense.")]
pub struct Args {
    #[command(flatten)]
    described: Described,
    #[command(flatten)]
    question: Question,
    /// Write the drawing as a picture, too
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

/// Draws a view.
pub fn run(context: &mut Context, args: &Args) -> Verdict {
    let schema = args.described.read(args.question.texts())?;
    let answer = args.question.answer(&schema, &args.described)?;
    let Answer { wanted, sources, plan } = &answer;
    let names = sources.iter().map(|source| sanitize(&source.name));
    let picture = Picture::new(plan).title(sanitize(&wanted.name)).names(names);
    if !args.described.json {
        write!(context.out, "{}", picture.text())?;
    }
    if let Some(path) = &args.svg {
        target::write(path, picture.svg().as_bytes())?;
    }
    if args.described.json {
        context.write_json(&answer.to_json())?;
    } else if let Some(path) = &args.svg {
        writeln!(context.out, "wrote {}", sanitize(&path.display().to_string()))?;
    }
    Ok(FINE)
}
