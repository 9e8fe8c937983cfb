//! The engine's errors as the exceptions of `stillframe._errors`.
//!
//! The classes live in Python, where they can have two bases each and are documented; here they are looked up by name.

use crate::wait;
use pyo3::call::PyCallArgs;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use std::io::ErrorKind::OutOfMemory;
use stillframe::{Error, Family};

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    let module = MODULE.get_or_try_init(py, || py.import("stillframe._errors").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// An exception of class `name` that says `message`.
pub fn new(py: Python<'_>, name: &str, message: impl Into<String>) -> PyErr {
    with(py, name, (message.into(),))
}

/// An exception of class `name`, made of these arguments.
pub fn with<'py>(py: Python<'py>, name: &str, arguments: impl PyCallArgs<'py>) -> PyErr {
    match class(py, name).and_then(|class| class.call1(arguments)) {
        Ok(exception) => PyErr::from_value(exception),
        Err(error) => error,
    }
}

/// A mistake of the caller.
pub fn misuse(py: Python<'_>, message: impl Into<String>) -> PyErr {
    new(py, "MisuseError", message)
}

/// The exception for an error about checkpoints.
pub fn raise_checkpoint(py: Python<'_>, error: stillframe_checkpoint::Error) -> PyErr {
    use stillframe_checkpoint::Error;
    let name = match error {
        Error::Engine(error) => return raise(py, error),
        Error::Locked { .. } => "InUse",
        Error::NoSpace { .. } => "OutOfSpace",
        Error::NoCheckpoint { .. } | Error::NoStore { .. } | Error::NoSuchVersion { .. } => "NoCheckpoint",
        _ => match error.family() {
            Family::Misuse => "MisuseError",
            Family::Environment => "ResourceError",
            Family::Corrupt => "CorruptError",
        },
    };
    new(py, name, error.to_string())
}

/// The exception for an error of the engine.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    let name = match &error {
        Error::UnknownVariable { .. } => "UnknownVariable",
        Error::Forked { .. } => "ForkError",
        Error::NoRegion { .. } => "NoRegion",
        Error::NoArena { .. } => "NoArena",
        Error::InUse { .. } => "InUse",
        Error::NoVersion { .. } | Error::NoCommonVersion { .. } | Error::MixedRuns { .. } => "NoVersion",
        Error::RankMissing { .. } => "RankMissing",
        Error::RankGone { .. } => "RankGone",
        Error::VersionGone { .. } => "VersionGone",
        Error::ProducerGone { .. } => "ProducerGone",
        Error::Timeout { .. } | Error::SlowRank { .. } | Error::ArenaBusy { .. } => "Timeout",
        Error::NoMappings { failure } if failure.source.kind() == OutOfMemory => "OutOfMemory",
        Error::System { failure, .. } if failure.source.kind() == OutOfMemory => "OutOfMemory",
        Error::NoSpace { .. } | Error::Bound { .. } | Error::NoSlot { .. } | Error::ArenaFull { .. } => "OutOfSpace",
        _ => match error.family() {
            Family::Misuse => "MisuseError",
            Family::Environment => "ResourceError",
            Family::Corrupt => "CorruptError",
        },
    };
    let exception = new(py, name, error.to_string());
    if let Error::VersionGone { version, oldest, newest, .. } = error {
        let value = exception.value(py);
        let set = value
            .setattr("version", version)
            .and_then(|()| value.setattr("oldest", oldest))
            .and_then(|()| value.setattr("newest", newest));
        if let Err(error) = set {
            return error;
        }
    }
    exception
}

/// Elements, the process and its rank if it has one, and why they cannot be had, if they cannot.
type PartRow = (String, Option<u32>, Option<u32>, Option<&'static str>);

fn part_row(part: &stillframe_object::error::Part) -> PartRow {
    use stillframe_object::Cause;
    let who = part.who.map(|who| who.0);
    let cause = part.cause.map(|cause| match cause {
        Cause::Died => "died",
        Cause::NodeLost => "node lost",
        Cause::Gone => "gone",
        Cause::Unwritten => "unwritten",
    });
    (part.elements.clone(), who.map(|who| who.writer.process), who.and_then(|who| who.rank), cause)
}

/// The exception for an error about objects.
pub fn raise_object(py: Python<'_>, error: stillframe_object::Error) -> PyErr {
    use stillframe_object::Error;
    let message = error.to_string();
    let rows = |parts: &[stillframe_object::error::Part]| parts.iter().map(part_row).collect::<Vec<_>>();
    let name = match error {
        Error::Interrupted { .. } => match wait::raised() {
            Some(error) => return error,
            None => "ResourceError",
        },
        Error::Region(error) => return raise(py, error),
        Error::Timeout { version, waiting, .. } => {
            return with(py, "Timeout", (message, Some(version), rows(&waiting)));
        }
        Error::NoNewer { waiting, .. } => return with(py, "Timeout", (message, None::<u64>, rows(&waiting))),
        Error::Lost { version, losses, complete, .. } => {
            return with(py, "Lost", (message, version, complete, rows(&losses)));
        }
        Error::TimeoutElsewhere { version, .. } => {
            return with(py, "Timeout", (message, Some(version), rows(&[])));
        }
        Error::LostElsewhere { version, .. } | Error::ContentLost { version, .. } => {
            return with(py, "Lost", (message, version, None::<u64>, rows(&[])));
        }
        Error::Ended { complete, .. } => return with(py, "Ended", (message, complete)),
        Error::Locked { .. } | Error::Unheard { .. } => "Timeout",
        Error::NoObject { .. } | Error::Removed { .. } => "NoObject",
        Error::NoVersion { .. } => "NoVersion",
        Error::Text { .. } => "DreplError",
        Error::Overlap { .. } | Error::NotAccepted { .. } => "Overlap",
        Error::InUse { .. } => "InUse",
        Error::NoMemory { .. } => "NodeOutOfMemory",
        Error::Forked { .. } => "ForkError",
        Error::OtherText { .. }
        | Error::NotWritable { .. }
        | Error::Refused { .. }
        | Error::NotIncreasing { .. }
        | Error::GreatestNumber { .. }
        | Error::Variable { .. } => "MisuseError",
        Error::Corrupt { .. } => "CorruptError",
        _ => "ResourceError",
    };
    new(py, name, message)
}
