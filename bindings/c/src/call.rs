//! What all exported functions have in common: pointers of C programs, failures, and that no panic gets out.
//!
//! # Safety
//! What a pointer has to be, the header says, and only its caller can see to. This module reads and writes through pointers
//! under that law alone, and checks what can be: none is used that is NULL or not aligned. Nothing else in this crate
//! dereferences a pointer that it was given, but `drepl` the buffers between which it moves bytes. What is borrowed from a caller lives no longer than its [`Call`].
#![allow(unsafe_code)]

use crate::handle::{Got, Kind};
use crate::status::*;
use engine::RANK_MAX;
use std::any::Any;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call of an exported function.
pub struct Call(());

/// Why a call fails. Those that a signal handler may meet are made and told without allocating. The others keep their words
/// elsewhere: each call that goes well moves the space of a failure, and the shortest calls would notice.
pub enum Failure {
    /// The engine says so.
    Engine(Box<engine::Error>),
    /// Something about checkpoints.
    Checkpoint(Box<checkpoint::Error>),
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

impl From<::drepl::Diagnostics> for Failure {
    fn from(mistakes: ::drepl::Diagnostics) -> Failure {
        Failure::Drepl { status: STILLFRAME_DREPL_TEXT, text: mistakes.to_string().into() }
    }
}

impl From<::drepl::PlanError> for Failure {
    fn from(error: ::drepl::PlanError) -> Failure {
        let status = match error {
            ::drepl::PlanError::Dataset { .. } => STILLFRAME_DREPL_DATASETS,
            _ => STILLFRAME_DREPL_UNPLANNABLE,
        };
        Failure::Drepl { status, text: error.to_string().into() }
    }
}

impl From<::drepl::executor::ExecuteError> for Failure {
    fn from(error: ::drepl::executor::ExecuteError) -> Failure {
        Failure::Drepl { status: crate::drepl::execute_status(&error), text: error.to_string().into() }
    }
}

impl Failure {
    fn status(&self) -> stillframe_status {
        match self {
            Failure::Engine(error) => error.code(),
            Failure::Checkpoint(error) => error.code(),
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
    pub fn missing(plan: &::drepl::Plan) -> Failure {
        let missing: Vec<String> = plan.missing.iter().map(ToString::to_string).collect();
        let text = format!("no source has {}; pass true for partial to leave that as it is", missing.join(", ")).into();
        Failure::Drepl { status: STILLFRAME_DREPL_MISSING, text }
    }

    fn panic(payload: Box<dyn Any + Send>) -> Failure {
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
            Failure::Handle { kind, got } => match got {
                Got::Null if *kind == Kind::Region => {
                    write!(f, "the region is NULL: was it made, and did that succeed?")?;
                    BEGIN.with(|begin| read(begin, |text| if text.is_empty() { Ok(()) } else { write!(f, " {text}") }))
                }
                Got::Null => write!(f, "the {kind} is NULL: was it made, and did that succeed?"),
                Got::Ended => write!(f, "this {kind} has ended: its handle was given up earlier"),
                Got::Other(other) => write!(f, "this is a handle for: {other}; the call is for: {kind}"),
                Got::Foreign(address) => {
                    write!(f, "{address:#x} is no handle of a {kind}, but an address or memory without a value")
                }
            },
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

/// Runs the body of the exported function of this name.
pub fn run(function: &'static str, body: impl FnOnce(&Call) -> Result<(), Failure>) -> stillframe_status {
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&Call(()))));
    let failure = match outcome {
        Ok(Ok(())) => return STILLFRAME_OK as stillframe_status,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::panic(payload),
    };
    set_error_text(function, &failure);
    failure.status()
}

const TEXT_BYTES: usize = 2048;

// Without destructor and allocation, so that they are there in signal handlers and at a thread's end.
thread_local! {
    /// What the last failed call had to say.
    static TEXT: [Cell<u8>; TEXT_BYTES] = const { [const { Cell::new(0) }; TEXT_BYTES] };
    /// Why stillframe_begin returned NULL last.
    static BEGIN: [Cell<u8>; TEXT_BYTES / 2] = const { [const { Cell::new(0) }; TEXT_BYTES / 2] };
}

/// The text in a buffer.
fn read<R>(buffer: &[Cell<u8>], work: impl FnOnce(&str) -> R) -> R {
    let mut bytes = [0; TEXT_BYTES];
    bytes.iter_mut().zip(buffer).for_each(|(to, from)| *to = from.get());
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
    work(std::str::from_utf8(&bytes[..length]).unwrap_or_default())
}

/// Puts a text into a buffer, as much of it as there is room for.
fn write_text(buffer: &[Cell<u8>], text: impl std::fmt::Display) {
    let mut cut = Cut { to: buffer, used: 0 };
    // An error here only says that the text is cut.
    let _ = write!(cut, "{text}");
    buffer[cut.used].set(0);
}

/// Text cut at the end of a buffer, between two characters, and ended by a zero.
struct Cut<'a> {
    to: &'a [Cell<u8>],
    used: usize,
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for character in text.chars().filter(|character| *character != '\0') {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            if self.used + bytes.len() >= self.to.len() {
                return Err(std::fmt::Error);
            }
            self.to[self.used..].iter().zip(bytes).for_each(|(to, byte)| to.set(*byte));
            self.used += bytes.len();
        }
        Ok(())
    }
}

fn set_error_text(function: &str, failure: &Failure) {
    TEXT.with(|text| write_text(text, format_args!("{function}: {failure}")));
}

/// Keeps what stillframe_begin had to say, because its NULL says nothing.
pub fn note_begin(status: stillframe_status) {
    BEGIN.with(|begin| match status == STILLFRAME_OK as stillframe_status {
        true => begin[0].set(0),
        false => TEXT.with(|text| read(text, |text| write_text(begin, text))),
    });
}

/// This thread's error text.
pub fn error_text() -> *const c_char {
    TEXT.with(|text| text.as_ptr().cast())
}

/// The same, for tests.
#[cfg(test)]
pub fn error_string() -> String {
    TEXT.with(|text| read(text, str::to_string))
}

/// Where a caller wants a result.
#[derive(Clone, Copy)]
pub struct Out<'a, T> {
    to: Option<&'a Cell<std::mem::MaybeUninit<T>>>,
}

impl<T> Out<'_, T> {
    /// For a result that nobody wants.
    pub fn nowhere() -> Self {
        Out { to: None }
    }

    pub fn put(&self, value: T) {
        if let Some(to) = self.to {
            to.set(std::mem::MaybeUninit::new(value));
        }
    }
}

impl Call {
    fn check<T>(&self, name: &'static str, pointer: *const T) -> Result<(), Failure> {
        if pointer.is_null() {
            return Err(Failure::argument(name, "it is NULL"));
        }
        if !pointer.is_aligned() {
            return Err(Failure::argument(name, format!("{pointer:p} is not aligned for what it should point to")));
        }
        Ok(())
    }

    /// A text that must be given.
    pub fn text(&self, name: &'static str, text: *const c_char) -> Result<&str, Failure> {
        self.check(name, text)?;
        // SAFETY: it is not NULL, and the caller vouches for a text that ends with a zero and stays during the call.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_str().map_err(|_| Failure::argument(name, format!("{text:?} is not UTF-8")))
    }

    /// A text that may be NULL.
    pub fn text_or_null(&self, name: &'static str, text: *const c_char) -> Result<Option<&str>, Failure> {
        if text.is_null() { Ok(None) } else { self.text(name, text).map(Some) }
    }

    /// A structure that may be NULL.
    pub fn read<T: Copy>(&self, name: &'static str, from: *const T) -> Result<Option<T>, Failure> {
        if from.is_null() {
            return Ok(None);
        }
        self.check(name, from)?;
        // SAFETY: it is aligned, and the caller vouches for a whole structure.
        Ok(Some(unsafe { from.read() }))
    }

    /// An array of the caller's.
    pub fn slice<T>(&self, name: &'static str, from: *const T, count: usize) -> Result<&[T], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        self.check(name, from)?;
        // SAFETY: it is aligned, and the caller vouches for so many elements that nobody writes during the call.
        Ok(unsafe { std::slice::from_raw_parts(from, count) })
    }

    /// An array that the caller wants filled.
    pub fn slice_mut<T>(
        &self,
        name: &'static str,
        to: *mut T,
        count: usize,
    ) -> Result<&[Cell<std::mem::MaybeUninit<T>>], Failure> {
        self.slice(name, to.cast_const().cast(), count)
    }

    /// Bytes that the caller wants filled, whatever they hold now. They must not be kept beyond the call.
    pub fn bytes_mut<'a>(&self, name: &'static str, to: *mut u8, count: usize) -> Result<&'a mut [u8], Failure> {
        if count == 0 {
            return Ok(&mut []);
        }
        self.check(name, to)?;
        // SAFETY: the caller vouches for so many bytes that are its own. They may never have been written, which for bytes
        // in memory, all of them written before any is read, is no matter.
        Ok(unsafe { std::slice::from_raw_parts_mut(to, count) })
    }

    /// A number of dimensions.
    pub fn rank(&self, rank: u32) -> Result<usize, Failure> {
        match rank as usize {
            rank if rank > RANK_MAX => {
                Err(Failure::argument("rank", format!("{rank} dimensions are more than {RANK_MAX}")))
            }
            rank => Ok(rank),
        }
    }

    /// A shape.
    pub fn shape(&self, rank: u32, shape: *const usize) -> Result<&[usize], Failure> {
        self.slice("shape", shape, self.rank(rank)?)
    }

    /// Where a result goes that must be wanted.
    pub fn out<T>(&self, name: &'static str, to: *mut T) -> Result<Out<'_, T>, Failure> {
        self.check(name, to)?;
        self.out_or_null(name, to)
    }

    /// Where a result goes that need not be wanted.
    pub fn out_or_null<T>(&self, name: &'static str, to: *mut T) -> Result<Out<'_, T>, Failure> {
        if to.is_null() {
            return Ok(Out { to: None });
        }
        self.check(name, to)?;
        // SAFETY: it is aligned, and the caller vouches for memory of its own that stays during the call.
        Ok(Out { to: Some(unsafe { &*to.cast() }) })
    }

    /// Where a handle goes, or an address. It is NULL until there is one, so that giving it up is always right.
    pub fn out_pointer<T>(&self, name: &'static str, to: *mut *mut T) -> Result<Out<'_, *mut T>, Failure> {
        let out = self.out(name, to)?;
        out.put(std::ptr::null_mut());
        Ok(out)
    }
}
