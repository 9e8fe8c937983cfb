//! Objects: one name for data that many processes hold.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::c_text;
use crate::call::{Call, run};
use crate::drepl::stillframe_drepl_binding;
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::inspect::{directory, stillframe_line_visitor, visit_lines};
use crate::kind::Kind;
use crate::observer::timeout_of;
use crate::status::stillframe_status;
use crate::truth::stillframe_truth;
use engine::Trust;
use object::{Object, Objects, ObjectsOptions, WriterInfo};
use std::ffi::{CString, c_char, c_void};
use std::mem::MaybeUninit;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// A name for data that many processes hold, each a fragment of it in the layout that it wants. The handle can be used from
/// several threads.
pub struct stillframe_object {
    _private: [u8; 0],
}

/// Bits of the member flags of stillframe_object_options.
#[repr(C)]
pub enum stillframe_object_flag {
    /// The object is opened to read only, which takes no right to write. For stillframe_object_open.
    STILLFRAME_OBJECT_LOOK = 1,
}
use stillframe_object_flag::*;

/// How an object is created or opened. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_object_options {
    /// Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    pub dir: *const c_char,
    /// Whose directories and files are taken for good, as in stillframe_region_options.
    pub trust: *const c_char,
    /// Numbers of the names that the object's text leaves open, `binding_count` of them. For stillframe_object_create.
    pub bindings: *const stillframe_drepl_binding,
    pub binding_count: usize,
    /// The version that exists at once, and is zeros. For stillframe_object_create.
    pub initial: u64,
    /// How long to wait for the object to be created, in milliseconds; 0: not at all. For stillframe_object_open.
    pub wait_ms: u64,
    /// Length of the arena in which the fragments of all objects of the directory lie, in bytes: addresses, not memory. 0: 1 TiB.
    /// An arena that is there stays what it is.
    pub arena_bytes: u64,
    /// The most fragments that there can be at a time in the directory; 0: 65 536.
    pub arena_fragments: u32,
    /// Access mode of what is made; 0: 0700. With 0750 the group may read, with 0770 it may also create and write.
    pub mode: u32,
    /// Bits of stillframe_object_flag.
    pub flags: u32,
    /// 0.
    pub reserved: [u32; 9],
}

const DEFAULTS: stillframe_object_options = stillframe_object_options {
    dir: std::ptr::null(),
    trust: std::ptr::null(),
    bindings: std::ptr::null(),
    binding_count: 0,
    initial: 0,
    wait_ms: 0,
    arena_bytes: 0,
    arena_fragments: 0,
    mode: 0,
    flags: 0,
    reserved: [0; 9],
};

/// What an object is. Texts live until the object is closed.
#[repr(C)]
pub struct stillframe_object_info {
    pub name: *const c_char,
    /// The text that it was created with.
    pub text: *const c_char,
    /// The version that exists at once, and is zeros.
    pub initial: u64,
    /// 0.
    pub reserved: [u64; 4],
}

/// A fragment to write that is or was attached. Texts and bindings live until the visitor returns.
#[repr(C)]
pub struct stillframe_writer {
    /// Its number, which no other fragment of the object has or had.
    pub number: u32,
    /// Its process.
    pub pid: u32,
    /// 1 if it said its rank, else 0.
    pub has_rank: u32,
    /// Its rank.
    pub rank: u32,
    /// 1 if its process lives and has it attached, else 0.
    pub alive: u32,
    /// 1 if it was detached, else 0.
    pub has_left: u32,
    /// 1 if it has a version, else 0.
    pub has_newest: u32,
    /// Versions of it that can be had.
    pub version_count: u32,
    /// The first version that it writes.
    pub from: u64,
    /// The first version that it does not write any more.
    pub left: u64,
    /// Its newest version.
    pub newest: u64,
    /// The text of the fragment.
    pub text: *const c_char,
    /// Numbers of the names that the text leaves open, binding_count of them.
    pub bindings: *const stillframe_drepl_binding,
    pub binding_count: usize,
    /// The region in which it lies, which observers open as any other.
    pub region: *const c_char,
    /// 0.
    pub reserved: [u64; 4],
}

/// Gets a writer; false ends the walk. As stillframe_region_visitor.
pub type stillframe_writer_visitor =
    Option<extern "C" fn(context: *mut c_void, writer: *const stillframe_writer) -> stillframe_truth>;

/// What a handle of an object stands for.
pub struct Known {
    pub object: Object,
    /// Kept so that the next object of the directory finds it open.
    _objects: Arc<Objects>,
    name: CString,
    text: CString,
}

impl Handled for Arc<Known> {
    type Opaque = stillframe_object;
    const KIND: Kind = Kind::Object;
    fn table() -> &'static Table<Arc<Known>> {
        static TABLE: Table<Arc<Known>> = Table::new();
        &TABLE
    }
}

/// The object itself, so that a thread that waits keeps no other from using it.
pub fn get(object: *mut stillframe_object) -> Result<Arc<Known>, Failure> {
    handle::with(object, |known: &mut Arc<Known>| Ok(known.clone()))
}

fn insert(objects: Arc<Objects>, object: Object) -> *mut stillframe_object {
    let (name, text) = (c_text(object.name()), c_text(&object.description().text));
    handle::insert(Arc::new(Known { object, _objects: objects, name, text }))
}

/// What tells the objects of one directory, opened in one way, from others.
#[derive(PartialEq)]
struct Key {
    dir: PathBuf,
    /// Device and file of the directory: another one may have come into its place.
    place: Option<(u64, u64)>,
    options: (Option<String>, u32, u64, u32, bool),
    generation: u32,
}

/// The directories in which this process has objects: thousands of objects share what they have open.
static OPEN: Mutex<Vec<(Key, Weak<Objects>)>> = Mutex::new(Vec::new());

/// How the objects of a directory are opened.
struct Opening {
    options: ObjectsOptions,
    given: stillframe_object_options,
    trust: Option<String>,
    dir: PathBuf,
}

impl Opening {
    fn new(call: &Call, given: *const stillframe_object_options) -> Result<Opening, Failure> {
        let given = call.read("options", given)?.unwrap_or(DEFAULTS);
        if given.reserved != [0; 9] {
            return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
        }
        let unknown = given.flags & !(STILLFRAME_OBJECT_LOOK as u32);
        if unknown != 0 {
            return Err(Failure::argument("options.flags", format!("bits {unknown:#x} have no meaning")));
        }
        let dir = directory(call, given.dir)?;
        let mut options = Objects::options().dir(&dir);
        let trust = call.text_or_null("options.trust", given.trust)?;
        if let Some(trust) = trust {
            options = options.trust(trust.parse::<Trust>().map_err(engine::Error::from)?);
        }
        if given.mode != 0 {
            options = options.mode(given.mode);
        }
        if given.arena_bytes != 0 {
            options = options.arena_bytes(given.arena_bytes);
        }
        if given.arena_fragments != 0 {
            options = options.arena_fragments(given.arena_fragments);
        }
        Ok(Opening { options, given, trust: trust.map(str::to_owned), dir })
    }

    fn is_look(&self) -> bool {
        self.given.flags & STILLFRAME_OBJECT_LOOK as u32 != 0
    }

    fn key(&self) -> Key {
        let stillframe_object_options { mode, arena_bytes, arena_fragments, .. } = self.given;
        Key {
            dir: self.dir.clone(),
            place: place_of(&self.dir),
            options: (self.trust.clone(), mode, arena_bytes, arena_fragments, self.is_look()),
            generation: engine::fork_generation(),
        }
    }

    /// The objects of the directory; `None` if they are only looked at, and there are none.
    fn open(&self) -> Result<Option<Arc<Objects>>, Failure> {
        let found = |open: &Vec<(Key, Weak<Objects>)>| {
            let key = self.key();
            open.iter().find(|(other, _)| *other == key).and_then(|(_, objects)| objects.upgrade())
        };
        // A lock that another thread has, or had when it forked this process, is not waited for: the directory is opened once more.
        if let Some(objects) = OPEN.try_lock().ok().and_then(|open| found(&open)) {
            return Ok(Some(objects));
        }
        let options = self.options.clone();
        let opened = if self.is_look() { options.look()? } else { Some(options.open()?) };
        let Some(objects) = opened.map(Arc::new) else { return Ok(None) };
        if let Ok(mut open) = OPEN.try_lock() {
            open.retain(|(_, objects)| objects.strong_count() > 0);
            open.push((self.key(), Arc::downgrade(&objects)));
        }
        Ok(Some(objects))
    }
}

fn place_of(dir: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(dir.join(".objects")).ok().map(|about| (about.dev(), about.ino()))
}

/// Numbers of names that a text leaves open.
pub fn bindings(
    call: &Call,
    given: *const stillframe_drepl_binding,
    count: usize,
) -> Result<Vec<(&str, i64)>, Failure> {
    let given = call.slice("options.bindings", given, count)?;
    given.iter().map(|binding| Ok((call.text("options.bindings.name", binding.name)?, binding.value))).collect()
}

/// Creates an object, or finds the one of this name that is there and the same. When it returns, everybody finds it.
///
/// name: as a region's. text: its variables, in the layout language (docs/drepl-language.md): "var grid [length,height] float64".
/// options: NULL for all defaults. object: the handle; NULL on errors.
///
/// Errors: OBJECT_OTHER_TEXT if there is one with another text, bindings or initial version; DREPL_TEXT, whose error text shows
/// all mistakes; BAD_NAME; UNTRUSTED if somebody else made what is there; NO_SPACE; others of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_create(
    name: *const c_char,
    text: *const c_char,
    options: *const stillframe_object_options,
    object: *mut *mut stillframe_object,
) -> stillframe_status {
    run("stillframe_object_create", |call| {
        let out = call.out_pointer("object", object)?;
        let (name, text) = (call.text("name", name)?, call.text("text", text)?);
        let opening = Opening::new(call, options)?;
        let why = "STILLFRAME_OBJECT_LOOK has no meaning here: it is for stillframe_object_open";
        let refused = || Failure::argument("options.flags", why);
        let objects = if opening.is_look() { None } else { opening.open()? }.ok_or_else(refused)?;
        let mut create = objects.create(name, text).initial(opening.given.initial);
        for (name, value) in bindings(call, opening.given.bindings, opening.given.binding_count)? {
            create = create.bind(name, value);
        }
        let made = create.create()?;
        out.put(insert(objects.clone(), made));
        Ok(())
    })
}

/// Opens an object that is there, or with the option wait_ms one that comes.
///
/// options: NULL for all defaults. object: the handle; NULL on errors.
///
/// Errors: NO_OBJECT, or with a wait TIMEOUT; UNTRUSTED; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_open(
    name: *const c_char,
    options: *const stillframe_object_options,
    object: *mut *mut stillframe_object,
) -> stillframe_status {
    run("stillframe_object_open", |call| {
        let out = call.out_pointer("object", object)?;
        let name = call.text("name", name)?;
        let opening = Opening::new(call, options)?;
        let (begin, wait) = (Instant::now(), Duration::from_millis(opening.given.wait_ms));
        loop {
            let left = wait.saturating_sub(begin.elapsed());
            if let Some(objects) = opening.open()? {
                let found = objects.wait(name, left)?;
                out.put(insert(objects, found));
                return Ok(());
            }
            if left.is_zero() {
                let (name, dir, waited) = (name.into(), opening.dir, wait);
                return Err(object::Error::NoObject { name, dir, waited }.into());
            }
            // Nobody who looks only can be told that there is a directory.
            std::thread::sleep(left.min(Duration::from_millis(5)));
        }
    })
}

/// Ends the use of an object by this handle. Its fragments go on. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_close(object: *mut stillframe_object) -> stillframe_status {
    run("stillframe_object_close", |_| handle::remove_or_null::<Arc<Known>>(object).map(drop))
}

/// What an object is.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_describe(
    object: *mut stillframe_object,
    info: *mut stillframe_object_info,
) -> stillframe_status {
    run("stillframe_object_describe", |call| {
        let out = call.out("info", info)?;
        let known = get(object)?;
        let (name, text, initial) = (known.name.as_ptr(), known.text.as_ptr(), known.object.description().initial);
        out.put(stillframe_object_info { name, text, initial, reserved: [0; 4] });
        Ok(())
    })
}

/// The newest complete version: one that all writers published. The initial version is complete from the beginning.
///
/// Errors: BAD_HANDLE; FORKED; OBJECT_REMOVED; CORRUPT; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_newest(object: *mut stillframe_object, version: *mut u64) -> stillframe_status {
    run("stillframe_object_newest", |call| {
        let out = call.out("version", version)?;
        out.put(get(object)?.object.newest()?);
        Ok(())
    })
}

/// The complete versions that can be had, ascending, without the initial one. out: filled with the first capacity of them; NULL
/// if capacity is 0. count: all that there are.
///
/// Errors: as stillframe_object_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_versions(
    object: *mut stillframe_object,
    out: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> stillframe_status {
    run("stillframe_object_versions", |call| {
        let (to, count) = (call.slice_mut("out", out, capacity)?, call.out("count", count)?);
        let found = get(object)?.object.versions()?;
        to.iter().zip(&found).for_each(|(to, version)| to.set(MaybeUninit::new(*version)));
        count.put(found.len());
        Ok(())
    })
}

/// Waits for a complete version above after, at most timeout_ms milliseconds; below 0: for ever. version: the newest; may be
/// NULL.
///
/// Errors: TIMEOUT, whose text says whom was waited for; OBJECT_ENDED if all writers have left; OBJECT_LOST if those that it needs
/// died; else as stillframe_object_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_wait_newer(
    object: *mut stillframe_object,
    after: u64,
    timeout_ms: i64,
    version: *mut u64,
) -> stillframe_status {
    run("stillframe_object_wait_newer", |call| {
        let out = call.out_or_null("version", version)?;
        out.put(get(object)?.object.wait_newer(after, limit_of(timeout_ms))?);
        Ok(())
    })
}

/// Waits until a version is complete, at most timeout_ms milliseconds; below 0: for ever.
///
/// Errors: TIMEOUT, whose text says whom was waited for; OBJECT_LOST if elements of it cannot be had, or not any more; else as
/// stillframe_object_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_wait_for(
    object: *mut stillframe_object,
    version: u64,
    timeout_ms: i64,
) -> stillframe_status {
    run("stillframe_object_wait_for", |_| Ok(get(object)?.object.wait_for(version, limit_of(timeout_ms))?))
}

/// A limit in milliseconds, of which negative numbers mean none.
pub fn limit_of(timeout_ms: i64) -> Duration {
    timeout_of(timeout_ms).unwrap_or(Duration::MAX)
}

/// Walks over the fragments to write that are or were attached, in the order in which they were attached. Those of which no
/// complete version needs anything are forgotten in time.
///
/// Errors: as stillframe_object_newest.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_writers(
    object: *mut stillframe_object,
    visitor: stillframe_writer_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_object_writers", |_| {
        let see = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        for writer in get(object)?.object.writers()? {
            if !visit(&writer, |writer| see(context, writer)) {
                break;
            }
        }
        Ok(())
    })
}

fn visit(writer: &WriterInfo, see: impl FnOnce(&stillframe_writer) -> stillframe_truth) -> bool {
    let (text, region) = (c_text(&writer.text), c_text(&writer.region));
    let names: Vec<CString> = writer.bindings.keys().map(|name| c_text(name)).collect();
    let bound = names.iter().zip(writer.bindings.values());
    let bound: Vec<_> =
        bound.map(|(name, value)| stillframe_drepl_binding { name: name.as_ptr(), value: *value }).collect();
    see(&stillframe_writer {
        number: writer.number,
        pid: writer.who.0.writer.process,
        has_rank: u32::from(writer.who.0.rank.is_some()),
        rank: writer.who.0.rank.unwrap_or(0),
        alive: u32::from(writer.is_alive),
        has_left: u32::from(writer.left.is_some()),
        has_newest: u32::from(writer.newest.is_some()),
        version_count: u32::try_from(writer.versions.len()).unwrap_or(u32::MAX),
        from: writer.from,
        left: writer.left.unwrap_or(0),
        newest: writer.newest.unwrap_or(0),
        text: text.as_ptr(),
        bindings: bound.as_ptr(),
        binding_count: bound.len(),
        region: region.as_ptr(),
        reserved: [0; 4],
    })
    .holds()
}

/// Walks over the names of the objects of a directory, sorted. dir: NULL for the default. A directory that is not there has none.
///
/// Errors: UNTRUSTED; those of the environment if the directory cannot be read.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_list(
    dir: *const c_char,
    visitor: stillframe_line_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_object_list", |call| {
        let objects = Objects::options().dir(directory(call, dir)?).look()?;
        let names = objects.map_or_else(|| Ok(Vec::new()), |objects| objects.list())?;
        visit_lines(visitor, context, names)
    })
}

/// Removes an object with all that was published of it. Who reads a version keeps it until he lets go. dir: NULL for the default.
/// force: also while a writer lives, who then goes on into files that nobody can open.
///
/// Errors: NO_OBJECT; without force, IN_USE while a writer lives, and TIMEOUT where it is not known for 30 s whether one does on
/// another node; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_object_remove(
    dir: *const c_char,
    name: *const c_char,
    force: stillframe_truth,
) -> stillframe_status {
    run("stillframe_object_remove", |call| {
        let (dir, name) = (directory(call, dir)?, call.text("name", name)?);
        if Objects::options().dir(&dir).look()?.is_none() {
            return Err(object::Error::NoObject { name: name.into(), dir, waited: Duration::ZERO }.into());
        }
        Ok(Objects::options().dir(dir).open()?.remove(name, force.holds())?)
    })
}
