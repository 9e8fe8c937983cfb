//! Why calls fail, and what is said of it.

use crate::kind::{Got, Kind};
use crate::status::*;
use crate::text::with_begin;
use drepl::executor::ExecuteError;
use std::any::Any;

/// Why a call fails. Those that a signal handler may meet are made and told without allocating. The others keep their words
/// elsewhere: each call that goes well moves the space of a failure, and the shortest calls would notice.
pub enum Failure {
    /// The engine says so.
    Engine(Box<engine::Error>),
    /// Something about checkpoints.
    Checkpoint(Box<checkpoint::Error>),
    /// Something about objects.
    Object(Box<object::Error>),
    /// Something about layouts.
    Drepl { status: stillframe_status_code, text: Box<str> },
    /// A handle that is none.
    Handle { kind: Kind, got: Got },
    /// A handle of the process that forked this one.
    Forked { kind: Kind },
    /// A handle that this thread is using already.
    Busy { kind: Kind },
    /// An argument that cannot be.
    Argument(Box<str>),
    /// There is no attribute of this name.
    UnknownAttribute(Box<str>),
    /// A panic of this call, or of an earlier one with the same handle.
    Panic(Box<str>),
}

impl From<engine::Error> for Failure {
    fn from(error: engine::Error) -> Failure {
        Failure::Engine(Box::new(error))
    }
}

impl From<checkpoint::Error> for Failure {
    fn from(error: checkpoint::Error) -> Failure {
        Failure::Checkpoint(Box::new(error))
    }
}

impl From<object::Error> for Failure {
    fn from(error: object::Error) -> Failure {
        Failure::Object(Box::new(error))
    }
}

impl From<drepl::Diagnostics> for Failure {
    fn from(mistakes: drepl::Diagnostics) -> Failure {
        Failure::Drepl { status: STILLFRAME_DREPL_TEXT, text: mistakes.to_string().into() }
    }
}

impl From<drepl::update::UpdateError> for Failure {
    fn from(error: drepl::update::UpdateError) -> Failure {
        match error {
            drepl::update::UpdateError::Plan(error) => error.into(),
            error => Failure::Drepl { status: STILLFRAME_DREPL_UNPLANNABLE, text: error.to_string().into() },
        }
    }
}

impl From<drepl::PlanError> for Failure {
    fn from(error: drepl::PlanError) -> Failure {
        let status = match error {
            drepl::PlanError::Dataset { .. } => STILLFRAME_DREPL_DATASETS,
            _ => STILLFRAME_DREPL_UNPLANNABLE,
        };
        Failure::Drepl { status, text: error.to_string().into() }
    }
}

impl From<ExecuteError> for Failure {
    fn from(error: ExecuteError) -> Failure {
        Failure::Drepl { status: execute_status(&error), text: error.to_string().into() }
    }
}

/// The status of an error of the executor.
fn execute_status(error: &ExecuteError) -> stillframe_status_code {
    match error {
        ExecuteError::SourceLength { .. } | ExecuteError::DestinationLength { .. } => STILLFRAME_DREPL_LENGTH,
        _ => STILLFRAME_INTERNAL,
    }
}

impl Failure {
    /// What the function returns.
    pub fn status(&self) -> stillframe_status {
        match self {
            Failure::Engine(error) => error.code(),
            Failure::Checkpoint(error) => error.code(),
            Failure::Object(error) => error.code(),
            Failure::Drepl { status, .. } => *status as stillframe_status,
            Failure::Handle { .. } => STILLFRAME_BAD_HANDLE as stillframe_status,
            Failure::Forked { .. } => STILLFRAME_FORKED as stillframe_status,
            Failure::Busy { .. } => STILLFRAME_BUSY as stillframe_status,
            Failure::Argument(_) => STILLFRAME_BAD_ARGUMENT as stillframe_status,
            Failure::UnknownAttribute(_) => STILLFRAME_UNKNOWN_ATTRIBUTE as stillframe_status,
            Failure::Panic(_) => STILLFRAME_INTERNAL as stillframe_status,
        }
    }

    /// An argument that cannot be.
    pub fn argument(name: &str, why: impl std::fmt::Display) -> Failure {
        Failure::Argument(format!("argument {name}: {why}").into())
    }

    /// There is no attribute of this name.
    pub fn unknown_attribute(name: &str, known: &[String]) -> Failure {
        let known = if known.is_empty() { "nor any other".into() } else { format!("but {}", known.join(", ")) };
        Failure::UnknownAttribute(format!("there is no attribute '{name}', {known}").into())
    }

    /// There is no view or replica of this name.
    pub fn unknown_view<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Failure {
        let known: Vec<&str> = known.collect();
        let known = if known.is_empty() { "nor any other".into() } else { format!("but {}", known.join(", ")) };
        let text = format!("the text declares no view or replica '{name}', {known}").into();
        Failure::Drepl { status: STILLFRAME_DREPL_UNKNOWN_VIEW, text }
    }

    /// No source has all that a plan is to be carried out for.
    pub fn missing(plan: &drepl::Plan) -> Failure {
        let missing: Vec<String> = plan.missing.iter().map(ToString::to_string).collect();
        let text = format!("no source has {}; pass true for partial to leave that as it is", missing.join(", ")).into();
        Failure::Drepl { status: STILLFRAME_DREPL_MISSING, text }
    }

    /// A panic, with what it said.
    pub fn panic(payload: Box<dyn Any + Send>) -> Failure {
        let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Failure::Panic(text.unwrap_or_else(|| "a panic without words".into()).into())
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Engine(error) => write!(f, "{error}"),
            Failure::Checkpoint(error) => write!(f, "{error}"),
            Failure::Object(error) => write!(f, "{error}"),
            Failure::Handle { kind, got } => match got {
                Got::Null if *kind == Kind::Region => {
                    write!(f, "the region is NULL: was it made, and did that succeed?")?;
                    with_begin(|text| if text.is_empty() { Ok(()) } else { write!(f, " {text}") })
                }
                Got::Null => write!(f, "the {kind} is NULL: was it made, and did that succeed?"),
                Got::Ended => write!(f, "this {kind} has ended: its handle was given up earlier"),
                Got::Other(other) => write!(f, "this is a handle for: {other}; the call is for: {kind}"),
                Got::Foreign(address) => {
                    write!(f, "{address:#x} is no handle of a {kind}, but an address or memory without a value")
                }
            },
            Failure::Forked { kind: kind @ (Kind::Object | Kind::Attached) } => {
                write!(f, "this {kind} belongs to the process that forked this one: open the object again in the child")
            }
            Failure::Forked { kind } => {
                write!(f, "this {kind} belongs to the process that forked this one: open the region again in the child")
            }
            Failure::Busy { kind } => write!(
                f,
                "this thread is inside another call with this {kind}: a signal handler must leave it to the program"
            ),
            Failure::Argument(text) | Failure::UnknownAttribute(text) | Failure::Drepl { text, .. } => {
                f.write_str(text)
            }
            Failure::Panic(text) => write!(f, "a defect of Stillframe, please report it: {text}"),
        }
    }
}
