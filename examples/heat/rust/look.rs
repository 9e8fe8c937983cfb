//! Watches a heat run: the plate as a picture in the terminal, of the newest version each time.
//!
//!     look [NAME]
use std::process::ExitCode;
use std::time::Duration;
use stillframe::{Group, GroupSnapshot, Polite, Result};

/// Most characters of a line of the picture. They are twice as high as they are wide.
const PICTURE_WIDTH: usize = 64;
/// From cold to hot.
const SHADES: &[u8] = b" .:-=+*#%@";
/// What the hottest cell was in the beginning.
const HOTTEST: f64 = 100.0;

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_else(|| "heat".into());
    match watch(&name) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("look: {error}");
            ExitCode::FAILURE
        }
    }
}

fn watch(name: &str) -> Result<()> {
    let group = Group::options().wait(Duration::from_secs(30)).polite(Polite::new()).open(name)?;
    // Ends when all ranks have ended; that one died while others go on is an error.
    for snapshot in group.snapshots(false, None) {
        show(&snapshot?)?;
    }
    Ok(())
}

fn show(snapshot: &GroupSnapshot) -> Result<()> {
    let plate = assemble(snapshot)?;
    let cells = || plate.iter().flatten();
    let (heat, bits) = (cells().sum::<f64>(), cells().fold(0, |bits, cell| bits ^ cell.to_bits()));
    println!("version {}: heat {heat:.4}, bits {bits:016x}", snapshot.version());

    let width = plate.first().map_or(0, Vec::len);
    let columns = width.min(PICTURE_WIDTH);
    let lines = (plate.len() * columns / width.max(1) / 2).max(1);
    for line in 0..lines {
        let row = &plate[line * plate.len() / lines];
        let shade = |column: usize| {
            let warmth = row[column * width / columns] / HOTTEST * SHADES.len() as f64;
            char::from(SHADES[(warmth as usize).min(SHADES.len() - 1)])
        };
        println!("{}", (0..columns).map(shade).collect::<String>().trim_end());
    }
    Ok(())
}

/// The whole plate, row by row. The ranks lie row by row on as square a grid as their number allows.
fn assemble(snapshot: &GroupSnapshot) -> Result<Vec<Vec<f64>>> {
    let ranks = snapshot.ranks();
    let is_side = |divisor: &usize| divisor * divisor <= ranks.len() && ranks.len().is_multiple_of(*divisor);
    let columns = (1..=ranks.len()).filter(is_side).max().unwrap_or(1);
    let mut plate: Vec<Vec<f64>> = Vec::new();
    for beside in ranks.chunks(columns) {
        let top = plate.len();
        for part in beside {
            let (variable, cells) = (part.variable("u")?, part.slice::<f64>("u")?);
            // Axes are (y, x) with a frame of ghost cells; the strides, in bytes, tell C order from Fortran order.
            let strides: Vec<usize> = variable.strides().iter().map(|bytes| bytes / size_of::<f64>()).collect();
            let (height, width) = (variable.shape[0] - 2, variable.shape[1] - 2);
            plate.resize(top + height, Vec::new());
            for y in 0..height {
                plate[top + y].extend((0..width).map(|x| cells[(y + 1) * strides[0] + (x + 1) * strides[1]]));
            }
        }
    }
    Ok(plate)
}
