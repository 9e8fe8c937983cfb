//! Checkpoints while a program runs: a checkpointer in threads of this process, and what is safe in a directory.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::c_text;
use crate::call::{Call, Out, run};
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::status::stillframe_status;
use checkpoint::{Checkpointer, CheckpointerOptions, Codec, Keep, SaveOptions, State, Status};
use engine::Trust;
use std::ffi::{CString, c_char};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Threads that save versions of a region or group as checkpoints, as they come.
pub struct stillframe_checkpointer(());

/// Bits of the member flags of stillframe_checkpoint_options.
#[repr(C)]
pub enum stillframe_checkpoint_flag {
    /// The last version is saved when the producer ends, and the newest when the checkpointer is stopped.
    STILLFRAME_CHECKPOINT_AT_END = 1,
    /// Versions that come faster than they can be saved are held, up to held and held_bytes, and saved one after the other;
    /// else the newest comes first, and those in between are left out.
    STILLFRAME_CHECKPOINT_ALL = 2,
    /// It ends with the first version.
    STILLFRAME_CHECKPOINT_ONCE = 4,
}
use stillframe_checkpoint_flag::*;

/// Whether a checkpointer is at work.
#[repr(C)]
pub enum stillframe_checkpoint_state {
    /// It is.
    STILLFRAME_CHECKPOINT_RUNNING = 0,
    /// It ended, and what it had to save is safe.
    STILLFRAME_CHECKPOINT_ENDED = 1,
    /// It ended, and something that it had to save is not safe.
    STILLFRAME_CHECKPOINT_FAILED = 2,
}
use stillframe_checkpoint_state::*;

/// Which versions are saved, and how. A member that is 0 or NULL is the default; set all of it to 0 first. Of every, every_ms,
/// when and STILLFRAME_CHECKPOINT_AT_END any one is enough for a version to be saved; without them all versions are.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_checkpoint_options {
    /// Directory of the regions; NULL: $STILLFRAME_DIR, else /dev/shm/stillframe-<uid>.
    pub dir: *const c_char,
    /// Versions whose number is a multiple of this; 0: not by their number.
    pub every: u64,
    /// A version so many milliseconds after the last; 0: not by time.
    pub every_ms: u64,
    /// Versions for which this holds, such as "step % 100 == 0 && residual < 1e-3" with attributes of the version; NULL: none.
    pub when: *const c_char,
    /// Bits of stillframe_checkpoint_flag.
    pub flags: u32,
    /// How many of the newest checkpoints stay; 0: 3.
    pub keep: u32,
    /// Those whose version is a multiple of this stay for ever; 0: none.
    pub keep_every: u64,
    /// "zstd" or "lz4"; NULL: files of plain bytes.
    pub compress: *const c_char,
    /// Bytes of a chunk, which is a file, about; 0: 1/2048 of the checkpoint or less, but 512 KiB to 32 MiB.
    pub chunk_bytes: u64,
    /// Threads that write; 0: as many as there are processors, at most 4.
    pub threads: u32,
    /// With STILLFRAME_CHECKPOINT_ALL: most versions held at once; 0: 8.
    pub held: u32,
    /// With STILLFRAME_CHECKPOINT_ALL: most bytes that held versions may take; 0: a quarter of the memory that is available.
    pub held_bytes: u64,
    /// How long to wait for the region to appear, in milliseconds; 0: not at all.
    pub wait_ms: u64,
    /// How long to wait for the next producer when one is gone, in milliseconds; 0: not at all, which ends it.
    pub follow_ms: u64,
    /// How far the threads that save step back behind others that want the processors: their nice value, 1 to 19; 0: 10; -1: they
    /// are as the thread that starts the checkpointer.
    pub nice: i32,
    /// 0.
    pub padding: u32,
    /// Whose directory of checkpoints is written into, besides the process's user's and root's: "own", "user:NUMBER",
    /// "group:NUMBER" or "any"; NULL: $STILLFRAME_TRUST, else "own".
    pub trust: *const c_char,
    /// 0.
    pub reserved: [u64; 2],
}

/// What a checkpointer has done.
#[repr(C)]
pub struct stillframe_checkpoint_info {
    /// A number of stillframe_checkpoint_state.
    pub state: u32,
    /// 1 if a version is safe, else 0.
    pub has_safe: u32,
    /// The newest version that is safe: on disk, whole, to be recovered.
    pub newest_safe: u64,
    /// Versions saved.
    pub saved: u64,
    /// Versions that were to be saved, and went before they could be.
    pub missed: u64,
    /// Versions that are being saved.
    pub saving: u64,
    /// Bytes written, and not written since files of the checkpoint before were linked.
    pub written_bytes: u64,
    pub linked_bytes: u64,
    /// What went wrong last, until it went well again; "" if all is well. It lives until the checkpointer is asked again.
    pub error: *const c_char,
    /// 0.
    pub reserved: [u64; 4],
}

/// What a handle of a checkpointer stands for.
struct Running {
    checkpointer: Checkpointer,
    /// The text that was handed out last.
    error: Mutex<CString>,
}

impl Handled for Arc<Running> {
    type Opaque = stillframe_checkpointer;
    const KIND: Kind = Kind::Checkpointer;
    fn table() -> &'static Table<Arc<Running>> {
        static TABLE: Table<Arc<Running>> = Table::new();
        &TABLE
    }
}

/// The checkpointer itself, so that a thread that waits keeps no other from using it.
fn get(checkpointer: *mut stillframe_checkpointer) -> Result<Arc<Running>, Failure> {
    handle::with(checkpointer, |running: &mut Arc<Running>| Ok(running.clone()))
}

fn options(call: &Call, given: *const stillframe_checkpoint_options) -> Result<CheckpointerOptions, Failure> {
    let mut options = Checkpointer::options();
    let Some(given) = call.read("options", given)? else { return Ok(options) };
    if given.reserved != [0; 2] || given.padding != 0 {
        return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
    }
    let flags =
        [STILLFRAME_CHECKPOINT_AT_END, STILLFRAME_CHECKPOINT_ALL, STILLFRAME_CHECKPOINT_ONCE].map(|flag| flag as u32);
    let unknown = flags.into_iter().fold(given.flags, |left, flag| left & !flag);
    if unknown != 0 {
        return Err(Failure::argument("options.flags", format!("bits {unknown:#x} have no meaning")));
    }
    let [at_end, all, once] = flags.map(|flag| given.flags & flag != 0);
    options = options.at_end(at_end).all(all).once(once);
    options = options.wait(Duration::from_millis(given.wait_ms)).follow(Duration::from_millis(given.follow_ms));
    if let Some(dir) = call.text_or_null("options.dir", given.dir)? {
        options = options.dir(dir);
    }
    if given.every != 0 {
        options = options.every(given.every);
    }
    if given.every_ms != 0 {
        options = options.every_time(Duration::from_millis(given.every_ms));
    }
    if let Some(condition) = call.text_or_null("options.when", given.when)? {
        options = options.when(condition)?;
    }
    match u32::try_from(given.nice) {
        Ok(0) => {}
        Ok(nice) => options = options.nice(nice),
        Err(_) => options = options.nice(0),
    }
    if given.held != 0 {
        options = options.held(given.held as usize);
    }
    if given.held_bytes != 0 {
        options = options.held_bytes(given.held_bytes);
    }
    let mut keep = Keep { every: (given.keep_every != 0).then_some(given.keep_every), ..Keep::default() };
    if given.keep != 0 {
        keep.newest = given.keep as usize;
    }
    let mut save = SaveOptions::new().keep(keep);
    save = match call.text_or_null("options.compress", given.compress)? {
        None => save,
        Some("zstd") => save.codec(Codec::Zstd { level: 3 }),
        Some("lz4") => save.codec(Codec::Lz4),
        Some(other) => {
            return Err(Failure::argument("options.compress", format!("'{other}' is neither 'zstd' nor 'lz4'")));
        }
    };
    if let Some(trust) = call.text_or_null("options.trust", given.trust)? {
        save = save.trust(trust.parse::<Trust>().map_err(engine::Error::from)?);
    }
    if given.chunk_bytes != 0 {
        save = save.chunk_bytes(given.chunk_bytes as usize);
    }
    if given.threads != 0 {
        save = save.threads(given.threads as usize);
    }
    Ok(options.save(save))
}

/// Begins to save versions of a region or group into a directory, in threads of this process. Each checkpoint is a directory
/// that other tools open, and all of it is on disk before it has its name.
///
/// name: the region or group. to: the directory, made if it is not there; this checkpointer's alone until it ends. options:
/// NULL for all defaults. checkpointer: the handle; NULL on errors.
///
/// Errors: NO_REGION, without wait_ms; LOCKED if somebody else writes into the directory; READ_ONLY; UNTRUSTED; OTHER_REGION;
/// BAD_OPTION; EXPRESSION, which marks the place.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_checkpoint_start(
    name: *const c_char,
    to: *const c_char,
    options: *const stillframe_checkpoint_options,
    checkpointer: *mut *mut stillframe_checkpointer,
) -> stillframe_status {
    run("stillframe_checkpoint_start", |call| {
        let out = call.out_pointer("checkpointer", checkpointer)?;
        let (name, to) = (call.text("name", name)?, call.text("to", to)?);
        let checkpointer = self::options(call, options)?.start(name, Path::new(to))?;
        out.put(handle::insert(Arc::new(Running { checkpointer, error: Mutex::default() })));
        Ok(())
    })
}

fn put(out: Out<'_, stillframe_checkpoint_info>, status: Status, error: *const c_char) {
    out.put(stillframe_checkpoint_info {
        state: match status.state {
            State::Running => STILLFRAME_CHECKPOINT_RUNNING,
            State::Ended => STILLFRAME_CHECKPOINT_ENDED,
            State::Failed => STILLFRAME_CHECKPOINT_FAILED,
        } as u32,
        has_safe: u32::from(status.newest_safe.is_some()),
        newest_safe: status.newest_safe.unwrap_or(0),
        saved: status.saved,
        missed: status.missed,
        saving: status.saving.len() as u64,
        written_bytes: status.written_bytes,
        linked_bytes: status.linked_bytes,
        error,
        reserved: [0; 4],
    });
}

/// What a checkpointer has done, and is doing.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_checkpoint_status(
    checkpointer: *mut stillframe_checkpointer,
    info: *mut stillframe_checkpoint_info,
) -> stillframe_status {
    run("stillframe_checkpoint_status", |call| {
        let out = call.out("info", info)?;
        let running = get(checkpointer)?;
        let status = running.checkpointer.status();
        let mut error = running.error.lock().unwrap_or_else(PoisonError::into_inner);
        *error = c_text(status.error.as_deref().unwrap_or_default());
        put(out, status, error.as_ptr());
        Ok(())
    })
}

/// Waits until a version is safe, at most timeout_ms milliseconds, or until the checkpointer has ended without it. safe:
/// whether it is, or was until newer ones took its place.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_checkpoint_wait_safe(
    checkpointer: *mut stillframe_checkpointer,
    version: u64,
    timeout_ms: u64,
    safe: *mut bool,
) -> stillframe_status {
    run("stillframe_checkpoint_wait_safe", |call| {
        let out = call.out("safe", safe)?;
        out.put(get(checkpointer)?.checkpointer.wait_safe(version, Duration::from_millis(timeout_ms))?);
        Ok(())
    })
}

/// Waits until that version or a newer one is safe, as stillframe_checkpoint_wait_safe does: what was done up to it need not be
/// done again then. found: whether there is one. safe: its number, else 0; may be NULL.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_checkpoint_wait_safe_from(
    checkpointer: *mut stillframe_checkpointer,
    version: u64,
    timeout_ms: u64,
    found: *mut bool,
    safe: *mut u64,
) -> stillframe_status {
    run("stillframe_checkpoint_wait_safe_from", |call| {
        let newest = get(checkpointer)?.checkpointer.wait_safe_from(version, Duration::from_millis(timeout_ms))?;
        crate::region::put_version(call, newest, found, safe)
    })
}

/// Takes no more versions, but with STILLFRAME_CHECKPOINT_AT_END the newest, waits until those that are held are safe, and
/// ends the handle. info: what it did, its member error always ""; may be NULL. NULL for the handle is nothing to do.
///
/// Errors: what ended it, if that was an error; what became of single versions stillframe_checkpoint_status tells.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_checkpoint_stop(
    checkpointer: *mut stillframe_checkpointer,
    info: *mut stillframe_checkpoint_info,
) -> stillframe_status {
    run("stillframe_checkpoint_stop", |call| {
        let out = call.out_or_null("info", info)?;
        let Some(mut running) = handle::remove_or_null::<Arc<Running>>(checkpointer)? else { return Ok(()) };
        // Calls of other threads with it end first.
        let running = loop {
            match Arc::try_unwrap(running) {
                Ok(running) => break running,
                Err(shared) => running = shared,
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        put(out, running.checkpointer.stop()?, c"".as_ptr());
        Ok(())
    })
}

/// Whether a version is safe in a directory of checkpoints: it is there, whole, on disk, and can be recovered. For any
/// process, whether a checkpointer runs or not.
///
/// Errors: those of the environment if the directory cannot be read. In one that is not there nothing is safe.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_is_safe(dir: *const c_char, version: u64, safe: *mut bool) -> stillframe_status {
    run("stillframe_is_safe", |call| {
        let (dir, out) = (call.text("dir", dir)?, call.out("safe", safe)?);
        out.put(checkpoint::is_safe(dir, version)?);
        Ok(())
    })
}

/// The newest version that is safe in a directory. found: whether there is one. version: its number, else 0; may be NULL.
///
/// Errors: as stillframe_is_safe.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_newest_safe(dir: *const c_char, found: *mut bool, version: *mut u64) -> stillframe_status {
    run("stillframe_newest_safe", |call| {
        let dir = call.text("dir", dir)?;
        crate::region::put_version(call, checkpoint::newest_safe(dir)?, found, version)
    })
}

/// Waits until a version is safe in a directory, at most timeout_ms milliseconds. safe: whether it is. A version that the
/// checkpointer leaves out never is: stillframe_wait_safe_from takes a newer one, too.
///
/// Errors: as stillframe_is_safe.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_wait_safe(
    dir: *const c_char,
    version: u64,
    timeout_ms: u64,
    safe: *mut bool,
) -> stillframe_status {
    run("stillframe_wait_safe", |call| {
        let (dir, out) = (call.text("dir", dir)?, call.out("safe", safe)?);
        out.put(checkpoint::wait_safe(dir, version, Duration::from_millis(timeout_ms))?);
        Ok(())
    })
}

/// Waits until that version or a newer one is safe in a directory, at most timeout_ms milliseconds: what was done up to it need
/// not be done again then. found: whether there is one. safe: its number, else 0; may be NULL.
///
/// Errors: as stillframe_is_safe.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_wait_safe_from(
    dir: *const c_char,
    version: u64,
    timeout_ms: u64,
    found: *mut bool,
    safe: *mut u64,
) -> stillframe_status {
    run("stillframe_wait_safe_from", |call| {
        let dir = call.text("dir", dir)?;
        let newest = checkpoint::wait_safe_from(dir, version, Duration::from_millis(timeout_ms))?;
        crate::region::put_version(call, newest, found, safe)
    })
}
