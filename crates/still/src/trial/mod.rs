//! What benchmarks and the demonstration share: temporary roots, child processes, kernel calls and clocks.
//!
//! Both run whole scenes of producers and observers. The processes of a scene are started from this executable, live in
//! a root of their own and leave nothing behind, however the scene ends.

pub mod child;
pub mod error;
pub mod host;
pub mod measure;
pub mod place;

pub use child::{Child, Parent};
pub use error::Error;
pub use place::Place;

/// Prints a line. That nobody reads it, as when the reader of a pipe has ended, is no reason to stop.
pub fn print_line(text: impl std::fmt::Display) {
    use std::io::Write;
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{text}").and_then(|()| output.flush());
}

/// The result of what a scene does.
pub type Result<T, E = Error> = std::result::Result<T, E>;
