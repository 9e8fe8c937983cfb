//! The numbers that functions return.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char};

/// What a function returns: a number of stillframe_status_code.
pub type stillframe_status = i32;

/// All numbers, for ever. 1 to 99: the program asked for something that makes no sense. 100 to 199: the machine, its limits
/// or another process are in the way. 200 to 299: shared files are damaged. 300: a defect of Stillframe. From 1000 on they are
/// about checkpoints, from 2000 on about layouts, from 3000 on about objects, with the same hundreds.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum stillframe_status_code {
    /// All went well.
    STILLFRAME_OK = 0,
    /// A handle that is NULL, has ended, is of another kind, or is none at all.
    STILLFRAME_BAD_HANDLE = 1,
    /// An argument that cannot be: NULL, no UTF-8, a number that has no meaning.
    STILLFRAME_BAD_ARGUMENT = 2,
    /// The same thread is inside another call with this handle, as in a signal handler.
    STILLFRAME_BUSY = 3,
    /// A name that cannot be a region's or a variable's.
    STILLFRAME_BAD_NAME = 10,
    /// An option with a value that makes no sense.
    STILLFRAME_BAD_OPTION = 11,
    /// The version is not above the newest one.
    STILLFRAME_NOT_INCREASING = 12,
    /// The region, or the version, has no such variable.
    STILLFRAME_UNKNOWN_VARIABLE = 13,
    /// The region has a variable of this name.
    STILLFRAME_VARIABLE_EXISTS = 14,
    /// The elements are of another type.
    STILLFRAME_WRONG_DTYPE = 15,
    /// A shape that does not fit.
    STILLFRAME_WRONG_SHAPE = 16,
    /// The call is for another kind of variable.
    STILLFRAME_WRONG_KIND = 17,
    /// A range that reaches past the end of the variable.
    STILLFRAME_OUT_OF_RANGE = 18,
    /// The snapshots are of different regions.
    STILLFRAME_DIFFERENT_REGIONS = 19,
    /// The handle was made before fork(2), by the parent.
    STILLFRAME_FORKED = 20,
    /// A tracked array is not there any more: its memory is not mapped.
    STILLFRAME_NO_MEMORY_THERE = 21,
    /// There is no attribute of this name.
    STILLFRAME_UNKNOWN_ATTRIBUTE = 22,
    /// The name is that of a group: open it as one, or one of its ranks.
    STILLFRAME_IS_GROUP = 23,
    /// The name is that of a region, not of a group.
    STILLFRAME_NOT_GROUP = 24,
    /// An array whose elements do not follow each other in memory. For bindings of other languages.
    STILLFRAME_NOT_CONTIGUOUS = 25,
    /// More than a reader of the region accepts: of variables, attributes, or what else its text names.
    STILLFRAME_LIMIT = 26,
    /// The variable is pinned, and would have to move.
    STILLFRAME_IS_PINNED = 27,
    /// With STILLFRAME_CHECK=1: a variable was written while a publish that was started copied it.
    STILLFRAME_WRITTEN = 28,
    /// The region has a living producer.
    STILLFRAME_IN_USE = 100,
    /// There is no such region.
    STILLFRAME_NO_REGION = 101,
    /// The region is another user's, who does not share it.
    STILLFRAME_DENIED = 102,
    /// Nothing was published yet.
    STILLFRAME_NO_VERSION = 103,
    /// The version is not, or no longer, there.
    STILLFRAME_VERSION_GONE = 104,
    /// Nothing happened in time.
    STILLFRAME_TIMEOUT = 105,
    /// The producer ended, so nobody will publish what is waited for.
    STILLFRAME_PRODUCER_GONE = 106,
    /// The file system is full.
    STILLFRAME_NO_SPACE = 107,
    /// The region's own bound is reached.
    STILLFRAME_BOUND = 108,
    /// All versions that a region can have are held by observers.
    STILLFRAME_NO_SLOT = 109,
    /// The process has no memory mappings left.
    STILLFRAME_NO_MAPPINGS = 110,
    /// The process or the machine has no file descriptors left.
    STILLFRAME_NO_FILES = 111,
    /// The system's pages are not of 4 KiB.
    STILLFRAME_FOREIGN_PAGES = 112,
    /// The tracker asked for does not work here.
    STILLFRAME_NO_TRACKER = 113,
    /// Any other system call that failed.
    STILLFRAME_SYSTEM = 114,
    /// A rank of a group has not begun, or has no version.
    STILLFRAME_RANK_MISSING = 115,
    /// A rank of a group is gone, and what is waited for needs it.
    STILLFRAME_RANK_GONE = 116,
    /// No version exists on all ranks of a group.
    STILLFRAME_NO_COMMON_VERSION = 117,
    /// A region is still in memory where a checkpoint is to be restored.
    STILLFRAME_SURVIVES = 118,
    /// Another process is restoring the same region.
    STILLFRAME_STAGED = 119,
    /// A directory or file that somebody else made, or could change.
    STILLFRAME_UNTRUSTED = 120,
    /// An arena has no room left.
    STILLFRAME_ARENA_FULL = 121,
    /// There is no such arena.
    STILLFRAME_NO_ARENA = 122,
    /// Another process is changing the regions of an arena, for much longer than that takes.
    STILLFRAME_ARENA_BUSY = 123,
    /// Ranks of a group have a version of the same number, but of different runs.
    STILLFRAME_MIXED_RUNS = 124,
    /// The process that copied for a guarded publish was killed.
    STILLFRAME_CHILD_GONE = 125,
    /// Nobody hands out regions at the socket that was named.
    STILLFRAME_NO_BROKER = 126,
    /// A broker does not hand out what was asked for.
    STILLFRAME_BROKER = 127,
    /// A shared file is damaged.
    STILLFRAME_CORRUPT = 200,
    /// A defect of Stillframe, caught before it could do more harm. Please report its text.
    STILLFRAME_INTERNAL = 300,
    /// The directory has checkpoints of another region.
    STILLFRAME_OTHER_REGION = 1010,
    /// The same version is being saved already.
    STILLFRAME_SAVING = 1011,
    /// A condition on versions that cannot be understood.
    STILLFRAME_EXPRESSION = 1012,
    /// No rank has all of the box that is wanted.
    STILLFRAME_UNCOVERED = 1013,
    /// What is to be read is of a run that began with nothing.
    STILLFRAME_NOTHING_RECOVERED = 1014,
    /// The variable is another one on each rank, and the number of ranks changed.
    STILLFRAME_PER_RANK = 1015,
    /// Somebody else writes checkpoints into the directory.
    STILLFRAME_LOCKED = 1100,
    /// A checkpoint of this version is there already, and of another run.
    STILLFRAME_CONTRADICTS = 1101,
    /// The directory may not be written to.
    STILLFRAME_READ_ONLY = 1102,
    /// The directory went away while a version was being saved.
    STILLFRAME_VANISHED = 1103,
    /// The disk did not take what was written.
    STILLFRAME_NOT_SYNCED = 1104,
    /// Saving was given up because somebody asked for that.
    STILLFRAME_CANCELLED = 1105,
    /// There is no good checkpoint.
    STILLFRAME_NO_CHECKPOINT = 1106,
    /// There is no checkpoint of the version.
    STILLFRAME_NO_SUCH_VERSION = 1107,
    /// The file system of the directory has no locks.
    STILLFRAME_NO_LOCKS = 1108,
    /// There is no directory of checkpoints.
    STILLFRAME_NO_STORE = 1109,
    /// A file of a checkpoint cannot be read.
    STILLFRAME_NOT_READABLE = 1110,
    /// The directory was removed, or its file system unmounted.
    STILLFRAME_REMOVED = 1112,
    /// A checkpoint of a format that this library does not know.
    STILLFRAME_FOREIGN_FORMAT = 1200,
    /// A file of a checkpoint is damaged.
    STILLFRAME_DAMAGED = 1201,
    /// A text of the layout language has mistakes.
    STILLFRAME_DREPL_TEXT = 2010,
    /// A text declares no view or replica of this name.
    STILLFRAME_DREPL_UNKNOWN_VIEW = 2011,
    /// Fragments of different objects.
    STILLFRAME_DREPL_DATASETS = 2012,
    /// What is wanted takes too many pieces, or has two elements in the same bytes.
    STILLFRAME_DREPL_UNPLANNABLE = 2013,
    /// No source has some of what is wanted.
    STILLFRAME_DREPL_MISSING = 2014,
    /// A buffer is shorter than its fragment.
    STILLFRAME_DREPL_LENGTH = 2015,
    /// There is an object of this name with another text, bindings or initial version.
    STILLFRAME_OBJECT_OTHER_TEXT = 3010,
    /// A fragment that cannot be written: its view is readonly, it has no elements, or one of them twice.
    STILLFRAME_OBJECT_NOT_WRITABLE = 3011,
    /// Two fragments to write have elements in common.
    STILLFRAME_OBJECT_OVERLAP = 3012,
    /// A fragment to write comes too late: a newer version is complete already.
    STILLFRAME_OBJECT_REFUSED = 3013,
    /// A fragment has no such variable, or none whose numbers lie together.
    STILLFRAME_OBJECT_VARIABLE = 3014,
    /// The greatest number, which no version of an object can have.
    STILLFRAME_OBJECT_GREATEST_NUMBER = 3015,
    /// A fragment that counts on no node, because fragments of other nodes have some of its elements.
    STILLFRAME_OBJECT_NOT_ACCEPTED = 3016,
    /// There is no such object.
    STILLFRAME_NO_OBJECT = 3100,
    /// Elements of a version cannot be had, or not any more: their writer died, or let it go.
    STILLFRAME_OBJECT_LOST = 3101,
    /// All writers of an object have left.
    STILLFRAME_OBJECT_ENDED = 3102,
    /// Another process is changing who writes an object, for much longer than that takes.
    STILLFRAME_OBJECT_LOCKED = 3103,
    /// A wait ended early because its program wanted that. For bindings of other languages.
    STILLFRAME_OBJECT_INTERRUPTED = 3104,
    /// Somebody removed the object.
    STILLFRAME_OBJECT_REMOVED = 3105,
    /// The runtime of this node does not answer.
    STILLFRAME_NO_RUNTIME = 3106,
    /// The runtime of this node has no memory for what other nodes have of a fragment.
    STILLFRAME_OBJECT_NO_MEMORY = 3107,
}

pub use stillframe_status_code::*;

macro_rules! names {
    ($($name:literal => $code:ident),* $(,)?) => {
        fn name(status: stillframe_status) -> &'static CStr {
            $(if status == $code as stillframe_status { return $name; })*
            c"?"
        }
    };
}
names! {
    c"OK" => STILLFRAME_OK,
    c"BAD_HANDLE" => STILLFRAME_BAD_HANDLE,
    c"BAD_ARGUMENT" => STILLFRAME_BAD_ARGUMENT,
    c"BUSY" => STILLFRAME_BUSY,
    c"BAD_NAME" => STILLFRAME_BAD_NAME,
    c"BAD_OPTION" => STILLFRAME_BAD_OPTION,
    c"NOT_INCREASING" => STILLFRAME_NOT_INCREASING,
    c"UNKNOWN_VARIABLE" => STILLFRAME_UNKNOWN_VARIABLE,
    c"VARIABLE_EXISTS" => STILLFRAME_VARIABLE_EXISTS,
    c"WRONG_DTYPE" => STILLFRAME_WRONG_DTYPE,
    c"WRONG_SHAPE" => STILLFRAME_WRONG_SHAPE,
    c"WRONG_KIND" => STILLFRAME_WRONG_KIND,
    c"OUT_OF_RANGE" => STILLFRAME_OUT_OF_RANGE,
    c"DIFFERENT_REGIONS" => STILLFRAME_DIFFERENT_REGIONS,
    c"FORKED" => STILLFRAME_FORKED,
    c"NO_MEMORY_THERE" => STILLFRAME_NO_MEMORY_THERE,
    c"UNKNOWN_ATTRIBUTE" => STILLFRAME_UNKNOWN_ATTRIBUTE,
    c"IS_GROUP" => STILLFRAME_IS_GROUP,
    c"NOT_GROUP" => STILLFRAME_NOT_GROUP,
    c"NOT_CONTIGUOUS" => STILLFRAME_NOT_CONTIGUOUS,
    c"LIMIT" => STILLFRAME_LIMIT,
    c"IS_PINNED" => STILLFRAME_IS_PINNED,
    c"WRITTEN" => STILLFRAME_WRITTEN,
    c"IN_USE" => STILLFRAME_IN_USE,
    c"NO_REGION" => STILLFRAME_NO_REGION,
    c"DENIED" => STILLFRAME_DENIED,
    c"NO_VERSION" => STILLFRAME_NO_VERSION,
    c"VERSION_GONE" => STILLFRAME_VERSION_GONE,
    c"TIMEOUT" => STILLFRAME_TIMEOUT,
    c"PRODUCER_GONE" => STILLFRAME_PRODUCER_GONE,
    c"NO_SPACE" => STILLFRAME_NO_SPACE,
    c"BOUND" => STILLFRAME_BOUND,
    c"NO_SLOT" => STILLFRAME_NO_SLOT,
    c"NO_MAPPINGS" => STILLFRAME_NO_MAPPINGS,
    c"NO_FILES" => STILLFRAME_NO_FILES,
    c"FOREIGN_PAGES" => STILLFRAME_FOREIGN_PAGES,
    c"NO_TRACKER" => STILLFRAME_NO_TRACKER,
    c"SYSTEM" => STILLFRAME_SYSTEM,
    c"RANK_MISSING" => STILLFRAME_RANK_MISSING,
    c"RANK_GONE" => STILLFRAME_RANK_GONE,
    c"NO_COMMON_VERSION" => STILLFRAME_NO_COMMON_VERSION,
    c"SURVIVES" => STILLFRAME_SURVIVES,
    c"STAGED" => STILLFRAME_STAGED,
    c"UNTRUSTED" => STILLFRAME_UNTRUSTED,
    c"ARENA_FULL" => STILLFRAME_ARENA_FULL,
    c"NO_ARENA" => STILLFRAME_NO_ARENA,
    c"ARENA_BUSY" => STILLFRAME_ARENA_BUSY,
    c"MIXED_RUNS" => STILLFRAME_MIXED_RUNS,
    c"CHILD_GONE" => STILLFRAME_CHILD_GONE,
    c"NO_BROKER" => STILLFRAME_NO_BROKER,
    c"BROKER" => STILLFRAME_BROKER,
    c"CORRUPT" => STILLFRAME_CORRUPT,
    c"INTERNAL" => STILLFRAME_INTERNAL,
    c"OTHER_REGION" => STILLFRAME_OTHER_REGION,
    c"SAVING" => STILLFRAME_SAVING,
    c"EXPRESSION" => STILLFRAME_EXPRESSION,
    c"UNCOVERED" => STILLFRAME_UNCOVERED,
    c"NOTHING_RECOVERED" => STILLFRAME_NOTHING_RECOVERED,
    c"PER_RANK" => STILLFRAME_PER_RANK,
    c"LOCKED" => STILLFRAME_LOCKED,
    c"CONTRADICTS" => STILLFRAME_CONTRADICTS,
    c"READ_ONLY" => STILLFRAME_READ_ONLY,
    c"VANISHED" => STILLFRAME_VANISHED,
    c"NOT_SYNCED" => STILLFRAME_NOT_SYNCED,
    c"CANCELLED" => STILLFRAME_CANCELLED,
    c"NO_CHECKPOINT" => STILLFRAME_NO_CHECKPOINT,
    c"NO_SUCH_VERSION" => STILLFRAME_NO_SUCH_VERSION,
    c"NO_LOCKS" => STILLFRAME_NO_LOCKS,
    c"NO_STORE" => STILLFRAME_NO_STORE,
    c"NOT_READABLE" => STILLFRAME_NOT_READABLE,
    c"REMOVED" => STILLFRAME_REMOVED,
    c"FOREIGN_FORMAT" => STILLFRAME_FOREIGN_FORMAT,
    c"DAMAGED" => STILLFRAME_DAMAGED,
    c"DREPL_TEXT" => STILLFRAME_DREPL_TEXT,
    c"DREPL_UNKNOWN_VIEW" => STILLFRAME_DREPL_UNKNOWN_VIEW,
    c"DREPL_DATASETS" => STILLFRAME_DREPL_DATASETS,
    c"DREPL_UNPLANNABLE" => STILLFRAME_DREPL_UNPLANNABLE,
    c"DREPL_MISSING" => STILLFRAME_DREPL_MISSING,
    c"DREPL_LENGTH" => STILLFRAME_DREPL_LENGTH,
    c"OBJECT_OTHER_TEXT" => STILLFRAME_OBJECT_OTHER_TEXT,
    c"OBJECT_NOT_WRITABLE" => STILLFRAME_OBJECT_NOT_WRITABLE,
    c"OBJECT_OVERLAP" => STILLFRAME_OBJECT_OVERLAP,
    c"OBJECT_REFUSED" => STILLFRAME_OBJECT_REFUSED,
    c"OBJECT_VARIABLE" => STILLFRAME_OBJECT_VARIABLE,
    c"OBJECT_GREATEST_NUMBER" => STILLFRAME_OBJECT_GREATEST_NUMBER,
    c"OBJECT_NOT_ACCEPTED" => STILLFRAME_OBJECT_NOT_ACCEPTED,
    c"NO_OBJECT" => STILLFRAME_NO_OBJECT,
    c"OBJECT_LOST" => STILLFRAME_OBJECT_LOST,
    c"OBJECT_ENDED" => STILLFRAME_OBJECT_ENDED,
    c"OBJECT_LOCKED" => STILLFRAME_OBJECT_LOCKED,
    c"OBJECT_INTERRUPTED" => STILLFRAME_OBJECT_INTERRUPTED,
    c"OBJECT_REMOVED" => STILLFRAME_OBJECT_REMOVED,
    c"NO_RUNTIME" => STILLFRAME_NO_RUNTIME,
    c"OBJECT_NO_MEMORY" => STILLFRAME_OBJECT_NO_MEMORY,
}

/// What this thread's last failed call had to say: what happened, where, and what to do next. "" if none failed.
///
/// It stays as it is until the next call of this thread that fails; texts are cut at 2 KiB.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_error_text() -> *const c_char {
    crate::text::error_text()
}

/// The name of a status without its prefix, such as "NOT_INCREASING"; "?" if it has none.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_status_name(status: stillframe_status) -> *const c_char {
    name(status).as_ptr()
}

/// The version of this library, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_library_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}
