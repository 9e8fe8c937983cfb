//! Fragments: what a process holds of an object.
//!
//! # Safety
//! Addresses of fragments are handed out, and nothing here follows them. That nobody writes a fragment while it is published, and
//! that pointers are not used beyond what the header says, it asks of its reader. The names of exported functions are this
//! library's own.
#![allow(unsafe_code)]

use crate::attribute::c_text;
use crate::call::{Call, run};
use crate::drepl::stillframe_drepl_binding;
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::object::{bindings, get, limit_of, stillframe_object};
use crate::publication::{stillframe_published, told};
use crate::snapshot::{STILLFRAME_RANK_MAX, per_dimension, stillframe_variable};
use crate::status::stillframe_status;
use engine::{DType, Order};
use object::{Array, ReadFragment, WriteFragment};
use std::ffi::{CString, c_char, c_void};
use std::time::Duration;

/// What a process holds of an object: memory in the layout that it asked for, to be written or to be read. Calls with the same
/// fragment wait for each other, also for one that waits for a version.
pub struct stillframe_fragment {
    _private: [u8; 0],
}

/// Bits of the member flags of stillframe_attach_options.
#[repr(C)]
pub enum stillframe_attach_flag {
    /// Memory of each version is lent, to be written whole, and a publish copies nothing. It is at another address after each
    /// publish: see stillframe_fragment_next and stillframe_fragment_previous.
    STILLFRAME_ATTACH_LOANED = 1,
    /// It begins with zeros, whatever content the version has that it is attached at: for content that cannot be had any more, as that
    /// of a node that died.
    STILLFRAME_ATTACH_ZEROS = 2,
}
use stillframe_attach_flag::*;

/// How a fragment to write is attached. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_attach_options {
    /// Numbers of the names that the fragment's text leaves open, `binding_count` of them.
    pub bindings: *const stillframe_drepl_binding,
    pub binding_count: usize,
    /// With has_version, the version whose content the fragment has at first, and above which it publishes. Without, it is
    /// the newest complete one: zeros before anything was published. Who had its elements until then does not matter: so a
    /// program goes on with another number of processes.
    pub version: u64,
    /// How long to wait for a living writer to detach elements that this fragment wants, and for that version, in milliseconds;
    /// 0: 10 000.
    pub wait_ms: u64,
    /// The most bytes that its versions may take; 0: no bound.
    pub bound_bytes: u64,
    /// 1 if version is given, else 0.
    pub has_version: u32,
    /// 1 if rank is given, else 0.
    pub has_rank: u32,
    /// The rank in a parallel program, for messages to people.
    pub rank: u32,
    /// How many writers there are, if they do not cover the object together: a version is complete when so many have published
    /// it. 0: when all elements were.
    pub writers: u32,
    /// How many of the newest versions stay in any case; 0: 1. What other writers have still to publish stays besides.
    pub keep: u32,
    /// Bits of stillframe_attach_flag.
    pub flags: u32,
    /// 0.
    pub reserved: [u64; 4],
}

/// How a fragment to read is attached. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_attach_read_options {
    /// Numbers of the names that the fragment's text leaves open, `binding_count` of them.
    pub bindings: *const stillframe_drepl_binding,
    pub binding_count: usize,
    /// With has_version, the version that it shows at first, as after stillframe_fragment_reattach. Without, it is the initial one,
    /// zeros.
    pub version: u64,
    /// How long to wait for that version, in milliseconds; 0: not at all.
    pub wait_ms: u64,
    /// 1 if version is given, else 0.
    pub has_version: u32,
    /// Threads that copy, the calling one included; 0: as many as there are processors.
    pub threads: u32,
    /// 1: while the program works with a version, the runtime of its node fetches the next from other nodes: that which is as far above it
    /// as it is above the one before. For programs that read version after version. 0: each is fetched when it is asked for.
    pub prefetch: u32,
    /// 0.
    pub reserved: [u32; 7],
}

/// What a fragment is.
#[repr(C)]
pub struct stillframe_fragment_info {
    /// Of one to write the newest version, or the one at which it was attached. Of one to read the version that it shows.
    pub version: u64,
    /// Of one to read, when that version was published, by the last of its writers, in nanoseconds since 1970; 0 of the initial one.
    pub published_ns: u64,
    /// Bytes of its memory.
    pub bytes: u64,
    /// Variables of its text.
    pub variable_count: u32,
    /// 1 if it was attached to write, 0 if to read.
    pub writable: u32,
    /// Of one to write, its number, which no other fragment of the object has or had.
    pub number: u32,
    /// Of one to read, 1 if it shows pages of a writer rather than a copy.
    pub shown: u32,
    /// 0.
    pub reserved: [u64; 4],
}

enum Held {
    Write(Box<WriteFragment>),
    Read(Box<ReadFragment>),
}

/// What a handle of a fragment stands for.
pub struct Attached {
    held: Held,
    /// Texts that were handed out, of each variable that was asked for.
    texts: Vec<(CString, CString)>,
}

impl Handled for Attached {
    type Opaque = stillframe_fragment;
    const KIND: Kind = Kind::Attached;
    fn table() -> &'static Table<Attached> {
        static TABLE: Table<Attached> = Table::new();
        &TABLE
    }
}

fn insert(held: Held) -> *mut stillframe_fragment {
    handle::insert(Attached { held, texts: Vec::new() })
}

impl Attached {
    fn writing(&mut self) -> Result<&mut WriteFragment, Failure> {
        match &mut self.held {
            Held::Write(fragment) => Ok(fragment),
            Held::Read(_) => Err(Failure::argument("fragment", "it was attached to be read: attach one to write")),
        }
    }

    fn reading(&mut self) -> Result<&mut ReadFragment, Failure> {
        match &mut self.held {
            Held::Read(fragment) => Ok(fragment),
            Held::Write(_) => Err(Failure::argument("fragment", "it was attached to be written: attach one to read")),
        }
    }

    fn array(&self, name: Option<&str>) -> Result<Array, Failure> {
        Ok(match &self.held {
            Held::Write(fragment) => fragment.array(name)?,
            Held::Read(fragment) => fragment.array(name)?,
        })
    }

    /// The texts of a variable, which stay at their place until the fragment ends.
    fn texts(&mut self, array: &Array) -> (*const c_char, *const c_char) {
        let texts = (c_text(&array.name), c_text(&array.dtype.to_text()));
        let known = self.texts.iter().position(|known| *known == texts);
        let index = known.unwrap_or_else(|| {
            self.texts.push(texts);
            self.texts.len() - 1
        });
        (self.texts[index].0.as_ptr(), self.texts[index].1.as_ptr())
    }
}

/// Attaches a fragment to write. From then on it is waited for in all versions above the one that it begins with.
///
/// text: which elements it has and how they lie, in the layout language: "{ var g [x:16,y:32] = grid[x+xmin,y+ymin] }", or any view
/// with its attributes, as "view g columnmajor { … }", or the name of a view that the object's text declares. options: NULL for all
/// defaults. fragment: the handle, to be ended by stillframe_fragment_detach; NULL on errors. data: its memory, on a page boundary,
/// which stays there until it is detached, but for a loaned one; may be NULL.
///
/// Errors: OBJECT_OVERLAP, whose text names both fragments, if another one that does not go has some of the elements; DREPL_TEXT with
/// all mistakes; OBJECT_NOT_WRITABLE; OBJECT_REFUSED if a newer version is complete already; with has_version TIMEOUT and OBJECT_LOST;
/// OBJECT_REMOVED if somebody removed the object; BAD_HANDLE; FORKED; ARENA_FULL and others of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_attach(
    object: *mut stillframe_object,
    text: *const c_char,
    options: *const stillframe_attach_options,
    fragment: *mut *mut stillframe_fragment,
    data: *mut *mut c_void,
) -> stillframe_status {
    run("stillframe_object_attach", |call| {
        let out = call.out_pointer("fragment", fragment)?;
        let address = call.out_or_null("data", data)?;
        address.put(std::ptr::null_mut());
        let known = get(object)?;
        let mut write = known.object.write(call.text("text", text)?);
        if let Some(given) = call.read("options", options)? {
            write = with_options(call, write, &given)?;
        }
        let mut attached = write.attach()?;
        address.put(attached.bytes_mut()?.as_mut_ptr().cast());
        out.put(insert(Held::Write(Box::new(attached))));
        Ok(())
    })
}

fn with_options(
    call: &Call,
    mut write: object::WriteOptions,
    given: &stillframe_attach_options,
) -> Result<object::WriteOptions, Failure> {
    if given.reserved != [0; 4] {
        return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let unknown = given.flags & !(STILLFRAME_ATTACH_LOANED as u32 | STILLFRAME_ATTACH_ZEROS as u32);
    if unknown != 0 {
        return Err(Failure::argument("options.flags", format!("bits {unknown:#x} have no meaning")));
    }
    for (name, value) in bindings(call, given.bindings, given.binding_count)? {
        write = write.bind(name, value);
    }
    if given.has_version != 0 {
        write = write.version(given.version);
    }
    if given.wait_ms != 0 {
        write = write.wait(Duration::from_millis(given.wait_ms));
    }
    if given.bound_bytes != 0 {
        write = write.bound_bytes(given.bound_bytes);
    }
    if given.has_rank != 0 {
        write = write.rank(given.rank);
    }
    if given.writers != 0 {
        write = write.writers(given.writers);
    }
    if given.keep != 0 {
        write = write.keep(given.keep as usize);
    }
    if given.flags & STILLFRAME_ATTACH_LOANED as u32 != 0 {
        write = write.loaned();
    }
    Ok(if given.flags & STILLFRAME_ATTACH_ZEROS as u32 != 0 { write.zeros() } else { write })
}

/// Attaches a fragment to read. What lies beyond the rim of the object is zero in a view that says clipped, or what it says by fill.
///
/// text: which elements it has and how they lie, as for stillframe_object_attach. options: NULL for all defaults: the fragment shows
/// the initial version, which is zeros, until stillframe_fragment_reattach fills it. fragment: the handle, to be ended by
/// stillframe_fragment_detach; NULL on errors. data: its memory, which stays there until it is detached and must not be written; may
/// be NULL.
///
/// Errors: DREPL_TEXT with all mistakes; with has_version those of stillframe_fragment_reattach; BAD_HANDLE; FORKED; those of the
/// environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_attach_read(
    object: *mut stillframe_object,
    text: *const c_char,
    options: *const stillframe_attach_read_options,
    fragment: *mut *mut stillframe_fragment,
    data: *mut *const c_void,
) -> stillframe_status {
    run("stillframe_object_attach_read", |call| {
        let out = call.out_pointer("fragment", fragment)?;
        let address = call.out_or_null("data", data)?;
        address.put(std::ptr::null());
        let known = get(object)?;
        let mut read = known.object.read(call.text("text", text)?);
        let given = call.read("options", options)?;
        if let Some(given) = &given {
            if given.reserved != [0; 7] {
                return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
            }
            for (name, value) in bindings(call, given.bindings, given.binding_count)? {
                read = read.bind(name, value);
            }
            read = read.threads(given.threads as usize);
            if given.prefetch != 0 {
                read = read.prefetch();
            }
        }
        let mut attached = read.attach()?;
        // Before anything is shown in it, so that it begins at a page and stays there.
        let data = attached.address();
        if let Some(given) = given.filter(|given| given.has_version != 0) {
            attached.reattach(given.version, Duration::from_millis(given.wait_ms))?;
        }
        address.put(data.cast());
        out.put(insert(Held::Read(Box::new(attached))));
        Ok(())
    })
}

/// Makes what a fragment to write holds now the next version of its elements. Nobody writes its memory meanwhile.
///
/// version: above the newest version of the fragment, and above the one at which it was attached. published: what was done; may be
/// NULL.
///
/// Errors: NOT_INCREASING; OBJECT_GREATEST_NUMBER of UINT64_MAX; BAD_ARGUMENT if it was attached to be read; those of
/// stillframe_publish, and then there is no new version; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_publish(
    fragment: *mut stillframe_fragment,
    version: u64,
    published: *mut stillframe_published,
) -> stillframe_status {
    run("stillframe_fragment_publish", |call| {
        let out = call.out_or_null("published", published)?;
        let done = handle::with(fragment, |attached: &mut Attached| Ok(attached.writing()?.publish(version)?))?;
        out.put(told(&done));
        Ok(())
    })
}

/// The memory of the next version of a fragment to write. That of a loaned one is lent anew for each version, and holds anything
/// at first: write all of it. That of others is where it was when it was attached.
///
/// bytes: may be NULL.
///
/// Errors: BAD_ARGUMENT if it was attached to be read; of a loaned one BOUND, NO_SPACE or NO_SLOT if there is no room; BAD_HANDLE;
/// FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_next(
    fragment: *mut stillframe_fragment,
    data: *mut *mut c_void,
    bytes: *mut usize,
) -> stillframe_status {
    run("stillframe_fragment_next", |call| {
        let (out, length) = (call.out_pointer("data", data)?, call.out_or_null("bytes", bytes)?);
        handle::with(fragment, |attached: &mut Attached| {
            let next = attached.writing()?.bytes_mut()?;
            out.put(next.as_mut_ptr().cast());
            length.put(next.len());
            Ok(())
        })
    })
}

/// The newest version of a fragment to write, as this process published it, which stays as it is until the next publish: for
/// programs that compute a new array from an old one. Writing there is a signal.
///
/// data: NULL before the first publish. bytes: 0 then; may be NULL.
///
/// Errors: BAD_ARGUMENT if it was attached to be read; NO_MAPPINGS; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_previous(
    fragment: *mut stillframe_fragment,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> stillframe_status {
    run("stillframe_fragment_previous", |call| {
        let (out, length) = (call.out("data", data)?, call.out_or_null("bytes", bytes)?);
        out.put(std::ptr::null());
        handle::with(fragment, |attached: &mut Attached| {
            let previous = attached.writing()?.previous()?;
            out.put(if previous.is_empty() { std::ptr::null() } else { previous.as_ptr().cast() });
            length.put(previous.len());
            Ok(())
        })
    })
}

/// Fills a fragment to read with a version, at the same address: waits at most timeout_ms milliseconds, below 0 for ever, until all
/// elements that it wants were published, and only those.
///
/// Where they lie together in the memory of one writer, and are many, its pages are shown and nothing is copied. Then the version
/// is held until the next reattach.
///
/// Errors: TIMEOUT, whose text says whom was waited for; OBJECT_LOST if elements cannot be had, because their writer died or let the
/// version go; OBJECT_NO_MEMORY if the runtime of this node has none for what other nodes have of it; BAD_ARGUMENT if it was attached to
/// be written; CORRUPT; BAD_HANDLE; FORKED. The fragment shows what it showed before.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_reattach(
    fragment: *mut stillframe_fragment,
    version: u64,
    timeout_ms: i64,
) -> stillframe_status {
    run("stillframe_fragment_reattach", |_| {
        let fill = |attached: &mut Attached| Ok(attached.reading()?.reattach(version, limit_of(timeout_ms))?);
        handle::with(fragment, fill)
    })
}

/// Fills a fragment to read with the newest complete version above after, waiting for one as stillframe_fragment_reattach does.
/// version: its number; may be NULL.
///
/// Errors: those of stillframe_object_wait_newer and of stillframe_fragment_reattach.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_reattach_newer(
    fragment: *mut stillframe_fragment,
    after: u64,
    timeout_ms: i64,
    version: *mut u64,
) -> stillframe_status {
    run("stillframe_fragment_reattach_newer", |call| {
        let out = call.out_or_null("version", version)?;
        let fill = |attached: &mut Attached| Ok(attached.reading()?.reattach_newer(after, limit_of(timeout_ms))?);
        out.put(handle::with(fragment, fill)?);
        Ok(())
    })
}

/// What a fragment is.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_describe(
    fragment: *mut stillframe_fragment,
    info: *mut stillframe_fragment_info,
) -> stillframe_status {
    run("stillframe_fragment_describe", |call| {
        let out = call.out("info", info)?;
        handle::with(fragment, |attached: &mut Attached| {
            let (layout, version, published_ns, number, shown) = match &attached.held {
                Held::Write(fragment) => (fragment.fragment(), fragment.version(), 0, fragment.number(), false),
                Held::Read(fragment) => {
                    (fragment.fragment(), fragment.version(), fragment.published_ns(), 0, fragment.is_shown())
                }
            };
            out.put(stillframe_fragment_info {
                version,
                published_ns,
                bytes: layout.size_bytes(),
                variable_count: layout.variables().len() as u32,
                writable: u32::from(matches!(attached.held, Held::Write(_))),
                number,
                shown: u32::from(shown),
                reserved: [0; 4],
            });
            Ok(())
        })
    })
}

/// What a variable of a fragment is, and at which byte of its memory it begins.
///
/// name: NULL for the only one. variable: units are "", and there are no attributes; texts live as long as the fragment.
///
/// Errors: OBJECT_VARIABLE if there is no such variable, or its numbers lie apart, in another byte order, or where the processor does
/// not want such numbers (a view that says aligned has none of these); BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_variable(
    fragment: *mut stillframe_fragment,
    name: *const c_char,
    variable: *mut stillframe_variable,
    offset_bytes: *mut usize,
) -> stillframe_status {
    run("stillframe_fragment_variable", |call| {
        let (out, offset) = (call.out("variable", variable)?, call.out("offset_bytes", offset_bytes)?);
        let name = call.text_or_null("name", name)?;
        handle::with(fragment, |attached: &mut Attached| {
            let array = attached.array(name)?;
            if array.bytes.start % alignment_of(&array.dtype) != 0 {
                let name = match &attached.held {
                    Held::Write(fragment) => fragment.object(),
                    Held::Read(fragment) => fragment.object(),
                };
                let found = format!("'{}' of {} from byte {} on", array.name, array.dtype, array.bytes.start);
                let wanted = "aligned ones: say 'aligned' in its view".into();
                return Err(object::Error::Variable { name: name.into(), found, wanted }.into());
            }
            let texts = attached.texts(&array);
            out.put(described(&array, texts)?);
            offset.put(array.bytes.start);
            Ok(())
        })
    })
}

/// At which addresses numbers of a type may lie.
fn alignment_of(dtype: &DType) -> usize {
    match dtype {
        DType::Complex(bytes) => *bytes as usize / 2,
        DType::Bytes(_) => 1,
        other => other.bytes(),
    }
}

fn described(array: &Array, (name, dtype): (*const c_char, *const c_char)) -> Result<stillframe_variable, Failure> {
    let (rank, item_bytes) = (array.shape.len(), array.dtype.bytes());
    let shape = per_dimension(&array.name, array.shape.iter().copied())?;
    let mut strides = [0; STILLFRAME_RANK_MAX];
    let mut distance = item_bytes as isize;
    for step in 0..rank {
        let axis = if array.order == Order::C { rank - 1 - step } else { step };
        strides[axis] = distance;
        distance *= array.shape[axis] as isize;
    }
    Ok(stillframe_variable {
        name,
        dtype,
        units: c"".as_ptr(),
        order: array.order as u32,
        rank: rank as u32,
        shape,
        strides,
        bytes: array.bytes.len(),
        item_bytes,
        attribute_count: 0,
        offset: std::ptr::null(),
        global_shape: std::ptr::null(),
        reserved: [0; 2],
    })
}

/// Lets go of a fragment, and ends the handle; its memory is there no more. What it published stays as long as a complete version
/// needs it, and above that it is waited for no more. A process that ends without it counts as one that died. NULL is nothing to
/// do.
///
/// Errors: BAD_HANDLE; FORKED; OBJECT_LOCKED and others of the environment. The handle has ended all the same, but others may take the
/// fragment for one whose process died.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fragment_detach(fragment: *mut stillframe_fragment) -> stillframe_status {
    run("stillframe_fragment_detach", |_| {
        match handle::remove_or_null::<Attached>(fragment)?.map(|attached| attached.held) {
            Some(Held::Write(fragment)) => Ok(fragment.detach()?),
            Some(Held::Read(_)) | None => Ok(()),
        }
    })
}
