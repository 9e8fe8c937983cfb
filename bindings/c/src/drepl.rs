//! DRepl: layouts described in a language, and bytes moved from one into another.
//!
//! # Safety
//! The buffers of a plan may be memory that other processes write, as that of another's region: no reference is made to
//! them. Their callers vouch for as many bytes as they say; that a destination overlaps no source is checked here, and that
//! no move leaves its buffers, the executor checks before it moves a byte.
#![allow(unsafe_code)]

use crate::call::{Call, run};
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::status::*;
use crate::truth::stillframe_truth;
use ::drepl::executor::Executor;
use ::drepl::{Bindings, Fragment, Participant, Plan, Program, Schema, Source, Updates, Wanted, Written};
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;

/// A text of the layout language whose names have their numbers: objects, and views of them. Handle.
pub struct stillframe_drepl_schema {
    _private: [u8; 0],
}

/// What lies where in one buffer. Handle.
pub struct stillframe_drepl_fragment {
    _private: [u8; 0],
}

/// How to make a wanted fragment from others. Handle.
pub struct stillframe_drepl_plan {
    _private: [u8; 0],
}

impl Handled for Arc<Schema> {
    type Opaque = stillframe_drepl_schema;
    const KIND: Kind = Kind::Schema;
    fn table() -> &'static Table<Arc<Schema>> {
        static TABLE: Table<Arc<Schema>> = Table::new();
        &TABLE
    }
}

impl Handled for Arc<Fragment> {
    type Opaque = stillframe_drepl_fragment;
    const KIND: Kind = Kind::Fragment;
    fn table() -> &'static Table<Arc<Fragment>> {
        static TABLE: Table<Arc<Fragment>> = Table::new();
        &TABLE
    }
}

/// A plan, and how many sources it was made with.
pub struct Planned {
    plan: Plan,
    sources: usize,
}

impl Handled for Arc<Planned> {
    type Opaque = stillframe_drepl_plan;
    const KIND: Kind = Kind::Plan;
    fn table() -> &'static Table<Arc<Planned>> {
        static TABLE: Table<Arc<Planned>> = Table::new();
        &TABLE
    }
}

/// What a handle stands for, so that a thread that moves bytes keeps no other from using it.
fn get<T>(handle: *mut <Arc<T> as Handled>::Opaque) -> Result<Arc<T>, Failure>
where
    Arc<T>: Handled,
{
    handle::with(handle, |value: &mut Arc<T>| Ok(value.clone()))
}

/// The number of a name that a text uses and does not declare.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_drepl_binding {
    pub name: *const c_char,
    pub value: i64,
}

fn bindings(call: &Call, given: *const stillframe_drepl_binding, count: usize) -> Result<Bindings, Failure> {
    let mut bindings = Bindings::new();
    for binding in call.slice("bindings", given, count)? {
        bindings.set(call.text("bindings.name", binding.name)?, binding.value);
    }
    Ok(bindings)
}

/// Reads a text of the layout language (docs/drepl-language.md), such as "var grid [length,height] float64". It can include
/// no file.
///
/// bindings: the numbers of names that it does not declare, `count` of them; NULL if there are none. schema: the handle; NULL
/// on errors.
///
/// Errors: DREPL_TEXT, whose error text shows each mistake with its line and column.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_parse(
    text: *const c_char,
    bindings: *const stillframe_drepl_binding,
    count: usize,
    schema: *mut *mut stillframe_drepl_schema,
) -> stillframe_status {
    run("stillframe_drepl_parse", |call| {
        let out = call.out_pointer("schema", schema)?;
        let program = Program::parse(call.text("text", text)?)?;
        out.put(handle::insert(Arc::new(program.bind(&self::bindings(call, bindings, count)?)?)));
        Ok(())
    })
}

/// Reads a file of the layout language, as stillframe_drepl_parse reads a text. It can include files of its own folder and
/// of folders therein.
///
/// Errors: DREPL_TEXT, also for a file that cannot be read.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_load(
    path: *const c_char,
    bindings: *const stillframe_drepl_binding,
    count: usize,
    schema: *mut *mut stillframe_drepl_schema,
) -> stillframe_status {
    run("stillframe_drepl_load", |call| {
        let out = call.out_pointer("schema", schema)?;
        let program = Program::parse_file(Path::new(call.text("path", path)?))?;
        out.put(handle::insert(Arc::new(program.bind(&self::bindings(call, bindings, count)?)?)));
        Ok(())
    })
}

/// Gives up a schema. Its fragments stay. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_schema_free(schema: *mut stillframe_drepl_schema) -> stillframe_status {
    run("stillframe_drepl_schema_free", |_| handle::remove_or_null::<Arc<Schema>>(schema).map(drop))
}

/// The fragment of a view, or of a replica, that the text declares under this name.
///
/// Errors: DREPL_UNKNOWN_VIEW.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_find(
    schema: *mut stillframe_drepl_schema,
    name: *const c_char,
    fragment: *mut *mut stillframe_drepl_fragment,
) -> stillframe_status {
    run("stillframe_drepl_find", |call| {
        let out = call.out_pointer("fragment", fragment)?;
        let (schema, name) = (get::<Schema>(schema)?, call.text("name", name)?);
        let view = schema.view(name).map(|view| &view.fragment);
        let found = view.or_else(|| schema.replica(name).map(|replica| &replica.fragment));
        let found = found.ok_or_else(|| {
            let views = schema.views().iter().filter_map(|view| view.name.as_deref());
            Failure::unknown_view(name, views.chain(schema.replicas().iter().map(|replica| &*replica.name)))
        })?;
        out.put(handle::insert(found.clone()));
        Ok(())
    })
}

/// One more fragment of a schema's objects, from a text of its own: "{ var g[x:16,y:32] = grid[x+xmin,y+ymin] }". It may use
/// the schema's constants, types and bindings; these bindings come on top of them.
///
/// Errors: DREPL_TEXT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_describe(
    schema: *mut stillframe_drepl_schema,
    text: *const c_char,
    bindings: *const stillframe_drepl_binding,
    count: usize,
    fragment: *mut *mut stillframe_drepl_fragment,
) -> stillframe_status {
    run("stillframe_drepl_describe", |call| {
        let out = call.out_pointer("fragment", fragment)?;
        let bindings = self::bindings(call, bindings, count)?;
        out.put(handle::insert(get::<Schema>(schema)?.fragment(call.text("text", text)?, &bindings)?));
        Ok(())
    })
}

/// The bytes that a buffer of a fragment has.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_bytes(
    fragment: *mut stillframe_drepl_fragment,
    bytes: *mut u64,
) -> stillframe_status {
    run("stillframe_drepl_bytes", |call| {
        let out = call.out("bytes", bytes)?;
        out.put(get::<Fragment>(fragment)?.size_bytes());
        Ok(())
    })
}

/// Makes a buffer of a fragment begin, whose length is at least the fragment's: with zeros, and in holes with what the text says by
/// `fill`. Moves write elements alone, so that holes keep it.
///
/// Errors: BAD_HANDLE; BAD_ARGUMENT if the buffer is shorter; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_clear(
    fragment: *mut stillframe_drepl_fragment,
    buffer: *mut c_void,
    bytes: u64,
) -> stillframe_status {
    run("stillframe_drepl_clear", |call| {
        let fragment = get::<Fragment>(fragment)?;
        if bytes < fragment.size_bytes() {
            let why = format!("the buffer has {bytes} bytes, and the fragment {}", fragment.size_bytes());
            return Err(Failure::argument("bytes", why));
        }
        // A fragment has less than 2^63 bytes.
        fragment.clear(call.bytes_mut("buffer", buffer.cast(), fragment.size_bytes() as usize)?);
        Ok(())
    })
}

/// Gives up a fragment; plans that were made with it stay. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_fragment_free(fragment: *mut stillframe_drepl_fragment) -> stillframe_status {
    run("stillframe_drepl_fragment_free", |_| handle::remove_or_null::<Arc<Fragment>>(fragment).map(drop))
}

/// A fragment that exists. Each element of a wanted one is taken from the newest version, and where several have that, from
/// the cheapest, and of those from the first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_drepl_source {
    pub fragment: *mut stillframe_drepl_fragment,
    pub version: u64,
    /// What reading from it costs, in any unit.
    pub cost: u64,
    /// 1: it cannot be read now, and is left out.
    pub unreadable: u32,
    /// 0.
    pub reserved: u32,
}

/// Plans how to make a fragment from sources of the same objects: of one schema, or of equal texts. Nothing is moved.
///
/// version_min, version_max: which versions will do; 0 and UINT64_MAX: any. plan: the handle; NULL on errors. What no source
/// has is no error: see stillframe_drepl_explain.
///
/// Errors: DREPL_DATASETS if a source has other objects; DREPL_UNPLANNABLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_make_plan(
    wanted: *mut stillframe_drepl_fragment,
    sources: *const stillframe_drepl_source,
    count: usize,
    version_min: u64,
    version_max: u64,
    plan: *mut *mut stillframe_drepl_plan,
) -> stillframe_status {
    run("stillframe_drepl_make_plan", |call| {
        let out = call.out_pointer("plan", plan)?;
        if version_min > version_max {
            return Err(Failure::argument(
                "version_max",
                format!("{version_max} is less than version_min, {version_min}"),
            ));
        }
        let wanted = get::<Fragment>(wanted)?;
        let sources = call.slice("sources", sources, count)?.iter().map(|source| {
            if source.reserved != 0 {
                let why = "it is not 0: set the whole structure to 0 first";
                return Err(Failure::argument("sources.reserved", why));
            }
            let readable = source.unreadable == 0;
            Ok(Source {
                fragment: get::<Fragment>(source.fragment)?,
                version: source.version,
                cost: source.cost,
                readable,
            })
        });
        let sources: Vec<Source> = sources.collect::<Result<_, Failure>>()?;
        let plan = ::drepl::plan(&Wanted { fragment: &wanted, versions: version_min..=version_max }, &sources)?;
        out.put(handle::insert(Arc::new(Planned { plan, sources: sources.len() })));
        Ok(())
    })
}

/// Plans what a write to one buffer means for another that holds some of the same elements, to keep the two equal: those whose
/// bytes were written go into the other's buffer. Nothing is moved.
///
/// written: the fragment that was written to. begin, end: the bytes of its buffer that were; 0 and UINT64_MAX: all. other:
/// what has to follow. plan: the handle, of a plan with one source, the buffer that was written; NULL on errors. Where the two
/// have none of these elements in common, it moves nothing.
///
/// Errors: DREPL_DATASETS if they have other objects; DREPL_UNPLANNABLE, also if what was written holds an element twice.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_make_update(
    written: *mut stillframe_drepl_fragment,
    begin: u64,
    end: u64,
    other: *mut stillframe_drepl_fragment,
    plan: *mut *mut stillframe_drepl_plan,
) -> stillframe_status {
    run("stillframe_drepl_make_update", |call| {
        let out = call.out_pointer("plan", plan)?;
        if begin > end {
            return Err(Failure::argument("end", format!("{end} is less than begin, {begin}")));
        }
        let participant = |fragment, readonly| -> Result<Participant, Failure> {
            Ok(Participant { fragment: get::<Fragment>(fragment)?, materialised: true, readonly })
        };
        let updates = Updates::new(vec![participant(written, false)?, participant(other, true)?])?;
        let update = updates.write(0, &Written::Bytes(begin..end))?.pop();
        let plan = update.map_or_else(Plan::default, |update| update.plan);
        out.put(handle::insert(Arc::new(Planned { plan, sources: 1 })));
        Ok(())
    })
}

/// What a plan is about.
#[repr(C)]
pub struct stillframe_drepl_plan_info {
    /// Runs of elements that one source gives.
    pub pieces: u64,
    /// Bytes that are moved.
    pub moved_bytes: u64,
    /// Elements of the wanted fragment that no source has; 0: the plan is complete.
    pub missing_elements: u64,
    /// Bytes that all of the text takes, its zero included.
    pub text_bytes: u64,
    /// 0.
    pub reserved: u64,
}

/// What a plan is about. text: room for text_bytes bytes, where as much as fits is put of which source gives which elements
/// and which are missing, one per line, ended by a zero; NULL if nobody wants it. info: may be NULL; it says how much room
/// all of the text takes.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_explain(
    plan: *mut stillframe_drepl_plan,
    info: *mut stillframe_drepl_plan_info,
    text: *mut c_char,
    text_bytes: usize,
) -> stillframe_status {
    run("stillframe_drepl_explain", |call| {
        let out = call.out_or_null("info", info)?;
        let room: &[Cell<MaybeUninit<u8>>] = match text.is_null() {
            true => &[],
            false => call.slice_mut("text", text.cast(), text_bytes)?,
        };
        let planned = get::<Planned>(plan)?;
        let plan = &planned.plan;
        let words = plan.to_string();
        let missing = plan.missing.iter().map(|missing| missing.elements.count()).sum::<u128>();
        out.put(stillframe_drepl_plan_info {
            pieces: plan.pieces.len() as u64,
            moved_bytes: plan.moved_bytes(),
            missing_elements: u64::try_from(missing).unwrap_or(u64::MAX),
            text_bytes: words.len() as u64 + 1,
            reserved: 0,
        });
        if let Some(room_bytes) = room.len().checked_sub(1) {
            let end = (0..=room_bytes.min(words.len())).rev().find(|end| words.is_char_boundary(*end)).unwrap_or(0);
            let bytes = words.as_bytes()[..end].iter().chain(&[0]);
            room.iter().zip(bytes).for_each(|(to, byte)| to.set(MaybeUninit::new(*byte)));
        }
        Ok(())
    })
}

/// Gives up a plan. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_plan_free(plan: *mut stillframe_drepl_plan) -> stillframe_status {
    run("stillframe_drepl_plan_free", |_| handle::remove_or_null::<Arc<Planned>>(plan).map(drop))
}

/// Bytes of a source.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_drepl_buffer {
    pub data: *const c_void,
    pub bytes: u64,
}

/// Moves the bytes of a plan. Bytes of the destination that belong to no element that a source has stay as they are.
///
/// buffers: those of the sources that the plan was made with, in their order and as many. destination: the buffer of the
/// wanted fragment, of `bytes` bytes; it overlaps no source. threads: 0: as many as there are processors. partial: false
/// refuses a plan that leaves elements missing. Other processes may write the sources meanwhile; what they write arrives in
/// part, or not.
///
/// Errors: DREPL_MISSING; DREPL_LENGTH if a buffer is too short; BAD_ARGUMENT. After any of them nothing was moved.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_drepl_execute(
    plan: *mut stillframe_drepl_plan,
    buffers: *const stillframe_drepl_buffer,
    count: usize,
    destination: *mut c_void,
    bytes: u64,
    threads: u32,
    partial: stillframe_truth,
) -> stillframe_status {
    run("stillframe_drepl_execute", |call| {
        let planned = get::<Planned>(plan)?;
        let buffers = call.slice("buffers", buffers, count)?;
        if count != planned.sources {
            let why = format!("there are {count}, and the plan was made with {} sources", planned.sources);
            return Err(Failure::argument("buffers", why));
        }
        if !partial.holds() && !planned.plan.is_complete() {
            return Err(Failure::missing(&planned.plan));
        }
        // The range of a buffer, which is checked not to end beyond all addresses.
        let range = |name, data: *const c_void, bytes: u64| {
            let begin = data as usize as u64;
            let end = begin.checked_add(bytes).filter(|_| bytes <= isize::MAX as u64);
            match end {
                Some(_) if data.is_null() && bytes > 0 => Err(Failure::argument(name, "it is NULL")),
                Some(end) => Ok(begin..end),
                None => Err(Failure::argument(name, format!("{bytes} bytes are more than memory has"))),
            }
        };
        let to = range("destination", destination, bytes)?;
        let mut transfers = Vec::with_capacity(planned.plan.transfers.len());
        for (source, transfer) in &planned.plan.transfers {
            let Some(buffer) = buffers.get(*source) else { unreachable!("a plan names its own sources") };
            let from = range("buffers.data", buffer.data, buffer.bytes)?;
            if from.start < to.end && to.start < from.end {
                let why = format!("it overlaps the destination, {bytes} bytes at {destination:p}");
                return Err(Failure::argument("buffers.data", why));
            }
            transfers.push((transfer, buffer.data.cast::<u8>(), buffer.bytes as usize));
        }
        let executor = Executor::new(threads as usize);
        // SAFETY: the caller vouches for the buffers, and none of the sources overlaps the destination.
        unsafe { executor.run_raw(&transfers, destination.cast(), bytes as usize) }.map_err(Failure::from)
    })
}
