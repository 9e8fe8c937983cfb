//! Snapshots: a hold on one version.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::{Kept, c_text, stillframe_attribute};
use crate::call::run;
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::status::stillframe_status;
use crate::truth::stillframe_truth;
use crate::variable::stillframe_order;
use engine::{Part, Snapshot, VariableView};
use once_cell::race::OnceBox;
use std::ffi::{CString, c_char, c_void};
use std::ops::Range;
use std::sync::Arc;

/// Most dimensions of a variable.
pub const STILLFRAME_RANK_MAX: usize = 8;
const _: () = assert!(STILLFRAME_RANK_MAX == engine::RANK_MAX);

/// A hold on one version, in which nothing changes. It can be used from several threads.
pub struct stillframe_snapshot(());

/// What a snapshot is of. Texts live as long as the snapshot.
#[repr(C)]
pub struct stillframe_snapshot_info {
    /// Name of the region.
    pub region: *const c_char,
    /// The producer's number of the version.
    pub version: u64,
    /// Time of publishing in nanoseconds since 1970.
    pub published_ns: u64,
    /// Pages of 4 KiB that had been written.
    pub dirty_pages: u64,
    /// Pages of all variables.
    pub total_pages: u64,
    pub variable_count: usize,
    /// Of the version.
    pub attribute_count: usize,
    /// 0.
    pub reserved: [u64; 4],
}

/// A variable as it is in one version. Texts live as long as the snapshot.
#[repr(C)]
pub struct stillframe_variable {
    pub name: *const c_char,
    /// Type of the elements, as in stillframe_declaration.
    pub dtype: *const c_char,
    /// "" if there is none.
    pub units: *const c_char,
    /// A number of stillframe_order_code.
    pub order: stillframe_order,
    /// Dimensions in use of shape and strides; the others are 0.
    pub rank: u32,
    pub shape: [usize; STILLFRAME_RANK_MAX],
    /// Bytes between neighbours along each dimension.
    pub strides: [isize; STILLFRAME_RANK_MAX],
    pub bytes: usize,
    /// Bytes of one element.
    pub item_bytes: usize,
    pub attribute_count: usize,
    /// Where it begins in the global array that it is a part of, as stillframe_declaration tells; rank numbers, as long as
    /// the snapshot. NULL: it is no part, or none that fits its shape.
    pub offset: *const usize,
    /// The shape of that array; rank numbers, or NULL.
    pub global_shape: *const usize,
    /// 0.
    pub reserved: [u64; 2],
}

/// Gets a piece of a variable; false ends the walk. It may call functions of this library, but must neither throw nor
/// longjmp.
pub type stillframe_chunk_visitor =
    Option<extern "C" fn(context: *mut c_void, offset: usize, data: *const c_void, bytes: usize) -> stillframe_truth>;

/// Gets a range of bytes of a variable; false ends the walk. As stillframe_chunk_visitor.
pub type stillframe_range_visitor =
    Option<extern "C" fn(context: *mut c_void, offset: usize, bytes: usize) -> stillframe_truth>;

/// What a handle of a snapshot stands for.
struct Held {
    snapshot: Snapshot,
    texts: OnceBox<Texts>,
}

/// What C sees of a version, made when it is first asked for.
struct Texts {
    region: CString,
    attributes: Kept,
    variables: Vec<VariableTexts>,
}

struct VariableTexts {
    name: CString,
    dtype: CString,
    units: CString,
    attributes: Kept,
    part: Option<Part>,
}

impl Held {
    fn texts(&self) -> &Texts {
        let texts = || Texts {
            region: c_text(self.snapshot.region()),
            attributes: Kept::new(self.snapshot.attributes()),
            variables: self.snapshot.variables().iter().map(VariableTexts::new).collect(),
        };
        self.texts.get_or_init(|| Box::new(texts()))
    }

    /// The attributes of the version, or of a variable.
    fn attributes(&self, variable: Option<&str>) -> Result<&Kept, Failure> {
        let Some(name) = variable else { return Ok(&self.texts().attributes) };
        let index = self.index(name)?;
        Ok(&self.texts().variables[index].attributes)
    }

    fn index(&self, name: &str) -> Result<usize, Failure> {
        // The engine's lookup is what knows the error.
        let found: &VariableView = self.snapshot.variable(name)?;
        let all = self.snapshot.variables();
        Ok(all.iter().position(|variable| std::ptr::eq(variable, found)).unwrap_or_default())
    }

    fn variable(&self, index: usize) -> Result<stillframe_variable, Failure> {
        let (view, texts) = (&self.snapshot.variables()[index], &self.texts().variables[index]);
        Ok(stillframe_variable {
            name: texts.name.as_ptr(),
            dtype: texts.dtype.as_ptr(),
            units: texts.units.as_ptr(),
            order: view.order as u32,
            rank: view.shape.len() as u32,
            shape: per_dimension(&view.name, view.shape.iter().copied())?,
            strides: per_dimension(&view.name, view.strides().into_iter().map(|stride| stride as isize))?,
            bytes: view.bytes,
            item_bytes: view.dtype.bytes(),
            attribute_count: texts.attributes.count(),
            offset: texts.part.as_ref().map_or(std::ptr::null(), |part| part.offset.as_ptr()),
            global_shape: texts.part.as_ref().map_or(std::ptr::null(), |part| part.global_shape.as_ptr()),
            reserved: [0; 2],
        })
    }
}

/// Numbers of a variable, one for each dimension, as structures of this interface have them: the others are 0. The engine and
/// checkpoints refuse variables of more dimensions than there is room for; whoever gave one all the same is told, and gets no part
/// of its shape.
///
/// Errors: WRONG_SHAPE.
pub fn per_dimension<T: Default + Copy>(
    variable: &str,
    numbers: impl IntoIterator<Item = T>,
) -> Result<[T; STILLFRAME_RANK_MAX], Failure> {
    let mut room = [T::default(); STILLFRAME_RANK_MAX];
    let mut rank = 0;
    for number in numbers {
        rank += 1;
        if let Some(place) = room.get_mut(rank - 1) {
            *place = number;
        }
    }
    if rank > STILLFRAME_RANK_MAX {
        let why = format!("it has {rank} dimensions, and this interface has room for {STILLFRAME_RANK_MAX}");
        return Err(engine::Error::WrongShape { name: variable.into(), why }.into());
    }
    Ok(room)
}

impl VariableTexts {
    fn new(view: &VariableView) -> VariableTexts {
        VariableTexts {
            name: c_text(&view.name),
            dtype: c_text(&view.dtype.to_text()),
            units: c_text(&view.units),
            attributes: Kept::new(&view.attributes),
            // What does not fit is still to be read as attributes.
            part: view.part().unwrap_or_default(),
        }
    }
}

impl Handled for Arc<Held> {
    type Opaque = stillframe_snapshot;
    const KIND: Kind = Kind::Snapshot;
    fn table() -> &'static Table<Arc<Held>> {
        static TABLE: Table<Arc<Held>> = Table::new();
        &TABLE
    }
}

pub fn insert(snapshot: Snapshot) -> *mut stillframe_snapshot {
    handle::insert(Arc::new(Held { snapshot, texts: OnceBox::new() }))
}

/// The snapshot itself: a thread that reads keeps no other from it, and its hold lasts at least as long as the call.
fn get(snapshot: *mut stillframe_snapshot) -> Result<Arc<Held>, Failure> {
    handle::with(snapshot, |held: &mut Arc<Held>| Ok(held.clone()))
}

/// The snapshot, with its texts made: under the handle's lock, so that a signal handler that interrupts it is told so.
fn get_with_texts(snapshot: *mut stillframe_snapshot) -> Result<Arc<Held>, Failure> {
    handle::with(snapshot, |held: &mut Arc<Held>| {
        held.texts();
        Ok(held.clone())
    })
}

/// Ends a hold. All pointers that came from the snapshot dangle. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_release(snapshot: *mut stillframe_snapshot) -> stillframe_status {
    run("stillframe_release", |_| handle::remove_or_null::<Arc<Held>>(snapshot).map(drop))
}

/// What a snapshot is of.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_describe(
    snapshot: *mut stillframe_snapshot,
    info: *mut stillframe_snapshot_info,
) -> stillframe_status {
    run("stillframe_describe", |call| {
        let out = call.out("info", info)?;
        let held = get_with_texts(snapshot)?;
        let (dirty_pages, total_pages) = held.snapshot.dirty_and_total_pages();
        out.put(stillframe_snapshot_info {
            region: held.texts().region.as_ptr(),
            version: held.snapshot.version(),
            published_ns: held.snapshot.published_ns(),
            dirty_pages,
            total_pages,
            variable_count: held.snapshot.variables().len(),
            attribute_count: held.texts().attributes.count(),
            reserved: [0; 4],
        });
        Ok(())
    })
}

/// The variable of this index, in the order of their declaration.
///
/// Errors: BAD_ARGUMENT if there are not so many; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_variable_at(
    snapshot: *mut stillframe_snapshot,
    index: usize,
    variable: *mut stillframe_variable,
) -> stillframe_status {
    run("stillframe_variable_at", |call| {
        let out = call.out("variable", variable)?;
        let held = get_with_texts(snapshot)?;
        let count = held.snapshot.variables().len();
        if index >= count {
            return Err(Failure::argument("index", format!("there are {count} variables, so no number {index}")));
        }
        out.put(held.variable(index)?);
        Ok(())
    })
}

/// The variable of this name.
///
/// Errors: UNKNOWN_VARIABLE; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_variable_named(
    snapshot: *mut stillframe_snapshot,
    name: *const c_char,
    variable: *mut stillframe_variable,
) -> stillframe_status {
    run("stillframe_variable_named", |call| {
        let out = call.out("variable", variable)?;
        let held = get_with_texts(snapshot)?;
        out.put(held.variable(held.index(call.text("name", name)?)?)?);
        Ok(())
    })
}

/// The attribute of this index, in the order of their names. variable: whose it is; NULL: the version's. Texts live as long
/// as the snapshot.
///
/// Errors: BAD_ARGUMENT if there are not so many; UNKNOWN_VARIABLE; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_attribute_at(
    snapshot: *mut stillframe_snapshot,
    variable: *const c_char,
    index: usize,
    attribute: *mut stillframe_attribute,
) -> stillframe_status {
    run("stillframe_attribute_at", |call| {
        let out = call.out("attribute", attribute)?;
        let held = get_with_texts(snapshot)?;
        out.put(held.attributes(call.text_or_null("variable", variable)?)?.at(index)?);
        Ok(())
    })
}

/// The attribute of this name, else as stillframe_attribute_at.
///
/// Errors: UNKNOWN_ATTRIBUTE; UNKNOWN_VARIABLE; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_attribute_named(
    snapshot: *mut stillframe_snapshot,
    variable: *const c_char,
    name: *const c_char,
    attribute: *mut stillframe_attribute,
) -> stillframe_status {
    run("stillframe_attribute_named", |call| {
        let out = call.out("attribute", attribute)?;
        let held = get_with_texts(snapshot)?;
        let name = call.text("name", name)?;
        out.put(held.attributes(call.text_or_null("variable", variable)?)?.named(name)?);
        Ok(())
    })
}

/// All bytes of a variable at neighbouring addresses, read-only: writing there is a signal. They stay until the snapshot is
/// released. The first call for a variable maps it if its pages lie in several pieces; nothing is copied unless there are
/// very many.
///
/// data: never NULL, also if there are no bytes. bytes: may be NULL.
///
/// Errors: UNKNOWN_VARIABLE; NO_MAPPINGS if it cannot be mapped; CORRUPT; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_view(
    snapshot: *mut stillframe_snapshot,
    variable: *const c_char,
    data: *mut *const c_void,
    bytes: *mut usize,
) -> stillframe_status {
    run("stillframe_view", |call| {
        let (data, length) = (call.out("data", data)?, call.out_or_null("bytes", bytes)?);
        data.put(std::ptr::null());
        let held = get(snapshot)?;
        let view = held.snapshot.view(call.text("variable", variable)?)?;
        data.put(view.as_ptr().cast());
        length.put(view.len());
        Ok(())
    })
}

/// Copies bytes of a variable, from offset on. They are read from the files: if somebody cut those short, that is CORRUPT here,
/// where memory of stillframe_view and stillframe_chunks would end the process by SIGBUS.
///
/// Errors: UNKNOWN_VARIABLE; OUT_OF_RANGE; CORRUPT; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_read(
    snapshot: *mut stillframe_snapshot,
    variable: *const c_char,
    offset: usize,
    out: *mut c_void,
    bytes: usize,
) -> stillframe_status {
    run("stillframe_read", |call| {
        let to = call.bytes_mut("out", out.cast(), bytes)?;
        Ok(get(snapshot)?.snapshot.read(call.text("variable", variable)?, offset, to)?)
    })
}

/// Walks over a range of a variable's bytes in pieces as they lie in memory, ascending, without mapping anything for this
/// version. Pieces stay where they are until the snapshot is released.
///
/// visitor: called with context for each piece, with its offset in the variable.
///
/// Errors: UNKNOWN_VARIABLE; OUT_OF_RANGE; CORRUPT; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_chunks(
    snapshot: *mut stillframe_snapshot,
    variable: *const c_char,
    offset: usize,
    bytes: usize,
    visitor: stillframe_chunk_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_chunks", |call| {
        let visit = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        let held = get(snapshot)?;
        let range = offset..offset.saturating_add(bytes);
        for chunk in held.snapshot.chunks_in(call.text("variable", variable)?, range)? {
            if !visit(context, chunk.offset, chunk.bytes.as_ptr().cast(), chunk.bytes.len()).holds() {
                break;
            }
        }
        Ok(())
    })
}

/// Walks over the ranges of a variable's bytes, ascending and apart, that may differ from an older snapshot of the same
/// region. It is everything if the variable moved, was resized, or was not there.
///
/// Errors: UNKNOWN_VARIABLE; DIFFERENT_REGIONS; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_changed(
    snapshot: *mut stillframe_snapshot,
    older: *mut stillframe_snapshot,
    variable: *const c_char,
    visitor: stillframe_range_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_changed", |call| {
        let visit = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        let (new, old) = (get(snapshot)?, get(older)?);
        let ranges = new.snapshot.changed(&old.snapshot, call.text("variable", variable)?)?;
        for Range { start, end } in ranges {
            if !visit(context, start, end - start).holds() {
                break;
            }
        }
        Ok(())
    })
}

/// Ends the hold of a snapshot for that of a later version, and brings what was viewed of it along: stillframe_view of next
/// then makes its memory from what was there, by what stillframe_changed lists, where that is cheaper than to map next anew.
/// That takes memory of this process, as much as the variable has, which is copied once; from then on the work of each version is
/// proportional to what changed. snapshot is released, and all pointers that came from it dangle.
///
/// Errors, after which nothing has changed: DIFFERENT_REGIONS; BAD_ARGUMENT if both are the same; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_advance(
    snapshot: *mut stillframe_snapshot,
    next: *mut stillframe_snapshot,
) -> stillframe_status {
    run("stillframe_advance", |_| {
        if std::ptr::eq(snapshot, next) {
            return Err(Failure::argument("next", "it is the same snapshot"));
        }
        let next = get(next)?.snapshot.clone();
        next.check_region(&get(snapshot)?.snapshot)?;
        let held = handle::remove::<Arc<Held>>(snapshot)?;
        // A thread that just reads it keeps what it reads.
        let mut older = Arc::try_unwrap(held).map_or_else(|held| held.snapshot.clone(), |held| held.snapshot);
        Ok(older.advance(next)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_told_whole_or_refused() {
        let eight = per_dimension("u", 1..=8_usize).ok().unwrap();
        assert_eq!(eight, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(per_dimension("u", [5_usize, 6]).ok().unwrap(), [5, 6, 0, 0, 0, 0, 0, 0]);
        let refused = per_dimension("u", 1..=9_usize).err().unwrap();
        assert_eq!(refused.status(), crate::status::stillframe_status_code::STILLFRAME_WRONG_SHAPE as i32);
        assert!(refused.to_string().contains("it has 9 dimensions, and this interface has room for 8"), "{refused}");
    }
}
