//! Variables of a region.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::{self, stillframe_attribute};
use crate::call::{Call, Out, run};
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::Kind;
use crate::producer::{Producer, stillframe_region};
use crate::status::stillframe_status;
use crate::variables::{Subrange, Variables};
use engine::{DType, Declaration, Error, KeptMemory, Order, Part, Region, VariableId};
use std::ffi::{c_char, c_void};

/// A number of stillframe_kind_code.
pub type stillframe_kind = u32;

/// Who owns the memory of a variable.
#[repr(C)]
pub enum stillframe_kind_code {
    /// The region: it gives memory, which stays where it is until the variable is resized or removed or the region closed.
    STILLFRAME_MANAGED = 0,
    /// The program: it says where its array is, which may change from publish to publish.
    STILLFRAME_TRACKED = 1,
    /// The versions: memory is lent for each one, written whole, and shown without a copy.
    STILLFRAME_LOANED = 2,
}
use stillframe_kind_code::*;

/// A number of stillframe_order_code.
pub type stillframe_order = u32;

/// In which order the elements of an array follow each other in memory.
#[repr(C)]
pub enum stillframe_order_code {
    /// Row-major: the last index runs fastest.
    STILLFRAME_C = 0,
    /// Column-major: the first index runs fastest.
    STILLFRAME_FORTRAN = 1,
}
use stillframe_order_code::*;

/// Bits of the member flags of stillframe_declaration.
#[repr(C)]
pub enum stillframe_declaration_flag {
    /// A managed variable is pinned from the beginning, see stillframe_pin.
    STILLFRAME_PINNED = 1,
}
use stillframe_declaration_flag::*;

/// A variable to be declared. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_declaration {
    /// Unique in the region.
    pub name: *const c_char,
    /// Type of the elements: "int8", "int16", "int32", "int64", "uint8" to "uint64", "float16", "bfloat16" (the upper half of
    /// a float), "float32", "float64", "complex64", "complex128" (two floats, real part first), "bool" (one byte), "bytesN" (N
    /// bytes without meaning), or a record as JSON: {"fields":[{"name":"rho","dtype":"float64","offset":0}],"bytes":8}.
    pub dtype: *const c_char,
    /// Unit of measurement; NULL: none.
    pub units: *const c_char,
    /// A number of stillframe_kind_code.
    pub kind: stillframe_kind,
    /// A number of stillframe_order_code.
    pub order: stillframe_order,
    /// Dimensions, at most STILLFRAME_RANK_MAX. 0 is a single element. For a tracked variable it is of no matter, unless that
    /// is a part of a global array.
    pub rank: u32,
    pub attribute_count: u32,
    /// rank numbers; NULL for a tracked variable, which has a shape with each place.
    pub shape: *const usize,
    /// attribute_count attributes of the variable.
    pub attributes: *const stillframe_attribute,
    /// rank numbers: where the variable begins in a global array, of which the ranks of a program each have a part. NULL: it
    /// is not a part of one. Of a tracked variable too, rank is then the number of its dimensions.
    pub offset: *const usize,
    /// rank numbers, with offset: the shape of the global array. Ghost cells may be part of the part.
    pub global_shape: *const usize,
    /// Bits of stillframe_declaration_flag.
    pub flags: u64,
    /// 0.
    pub reserved: u64,
}

/// Memory of a managed variable that is no more.
pub struct stillframe_kept(());

impl Handled for KeptMemory {
    type Opaque = stillframe_kept;
    const KIND: Kind = Kind::Kept;
    fn table() -> &'static Table<KeptMemory> {
        static TABLE: Table<KeptMemory> = Table::new();
        &TABLE
    }
}

pub fn dtype_of(text: &str) -> Result<DType, Failure> {
    DType::from_text(text).map_err(|error| Failure::argument("dtype", error.to_string()))
}

pub fn order_of(order: stillframe_order) -> Result<Order, Failure> {
    match order {
        order if order == STILLFRAME_C as u32 => Ok(Order::C),
        order if order == STILLFRAME_FORTRAN as u32 => Ok(Order::Fortran),
        other => Err(Failure::argument("order", format!("there is no order {other}"))),
    }
}

fn with<R>(
    region: *mut stillframe_region,
    work: impl FnOnce(&mut Region, &mut Variables) -> Result<R, Failure>,
) -> Result<R, Failure> {
    handle::with(region, |Producer { region, variables, .. }| work(region, variables))
}

/// Where the memory of a managed variable goes.
struct Memory<'a> {
    data: Out<'a, *mut c_void>,
    bytes: Out<'a, usize>,
}

impl Memory<'_> {
    fn put(&self, region: &Region, id: VariableId) -> Result<(), Failure> {
        let (address, length) = region.managed_bytes(id)?;
        self.data.put(address.cast());
        self.bytes.put(length);
        Ok(())
    }
}

/// The part of a global array that a declaration tells.
fn part(call: &Call, given: &stillframe_declaration) -> Result<Option<Part>, Failure> {
    if given.offset.is_null() && given.global_shape.is_null() {
        return Ok(None);
    }
    let rank = call.rank(given.rank)?;
    Ok(Some(Part {
        offset: call.slice("declaration.offset", given.offset, rank)?.to_vec(),
        global_shape: call.slice("declaration.global_shape", given.global_shape, rank)?.to_vec(),
    }))
}

/// Adds a variable of any kind. variable: its number, which no other variable of the region has or had; may be NULL.
///
/// Errors: BAD_NAME; VARIABLE_EXISTS; BAD_ARGUMENT if the type is none; WRONG_SHAPE; NO_SPACE and others of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_declare(
    region: *mut stillframe_region,
    declaration: *const stillframe_declaration,
    variable: *mut u32,
) -> stillframe_status {
    run("stillframe_declare", |call| {
        let out = call.out_or_null("variable", variable)?;
        let Some(given) = call.read("declaration", declaration)? else {
            return Err(Failure::argument("declaration", "it is NULL"));
        };
        if given.reserved != 0 {
            return Err(Failure::argument("declaration.reserved", "it is not 0: set the whole structure to 0 first"));
        }
        let unknown = given.flags & !(STILLFRAME_PINNED as u64);
        if unknown != 0 {
            return Err(Failure::argument("declaration.flags", format!("bits {unknown:#x} have no meaning")));
        }
        let shape = || call.shape(given.rank, given.shape).map(<[usize]>::to_vec);
        let kind = match given.kind {
            kind if kind == STILLFRAME_MANAGED as u32 => engine::Kind::Managed { shape: shape()? },
            kind if kind == STILLFRAME_TRACKED as u32 => engine::Kind::Tracked,
            kind if kind == STILLFRAME_LOANED as u32 => engine::Kind::Loaned { shape: shape()? },
            other => return Err(Failure::argument("declaration.kind", format!("there is no kind {other}"))),
        };
        let dtype_text = call.text("declaration.dtype", given.dtype)?;
        let attributes = call.slice("declaration.attributes", given.attributes, given.attribute_count as usize)?;
        let mut declaration = Declaration {
            name: call.text("declaration.name", given.name)?.to_string(),
            dtype: dtype_of(dtype_text)?,
            order: order_of(given.order)?,
            units: call.text_or_null("declaration.units", given.units)?.unwrap_or_default().to_string(),
            attributes: attribute::take(call, attributes)?,
            kind,
            pinned: given.flags & STILLFRAME_PINNED as u64 != 0,
        };
        if let Some(part) = part(call, &given)? {
            declaration = declaration.part(part);
        }
        out.put(with(region, |region, variables| variables.declare(region, declaration, dtype_text))?);
        Ok(())
    })
}

/// Says where a tracked, row-major array is from now on; the first call of a name declares the variable. Each later publish
/// shows what is there then, but one that is itself given another array (stillframe_publish_with). Call it again whenever the array
/// has moved or changed its shape, and with NULL for data before it is freed: later versions then keep its last content. With an
/// extent of 0 in shape it is an array without elements, whatever data is, and later versions have none.
///
/// Errors: as stillframe_declare; WRONG_DTYPE if the type is not the variable's; WRONG_KIND.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_track(
    region: *mut stillframe_region,
    name: *const c_char,
    dtype: *const c_char,
    rank: u32,
    shape: *const usize,
    data: *const c_void,
) -> stillframe_status {
    run("stillframe_track", |call| {
        let (name, dtype_text) = (call.text("name", name)?, call.text("dtype", dtype)?);
        let (address, shape) = call.place(rank, shape, data)?;
        with(region, |region, variables| {
            let number = match variables.number(name) {
                Some(number) => number,
                None => {
                    let declaration = Declaration::new(name, dtype_of(dtype_text)?, engine::Kind::Tracked);
                    variables.declare(region, declaration, dtype_text)?
                }
            };
            if let Some(known) = variables.known(number)
                && known.dtype_text != dtype_text
            {
                let expected = dtype_of(dtype_text)?;
                if known.dtype != expected {
                    let (name, found) = (name.to_string(), known.dtype.clone());
                    return Err(Error::WrongDType { name, expected, found }.into());
                }
            }
            variables.place(region, number, address, shape, Order::C)
        })
    })
}

/// Says where the array of a declared tracked variable is from now on, as stillframe_track does, in any order.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND; WRONG_SHAPE; BAD_ARGUMENT.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_track_at(
    region: *mut stillframe_region,
    variable: u32,
    rank: u32,
    shape: *const usize,
    order: stillframe_order,
    data: *const c_void,
) -> stillframe_status {
    run("stillframe_track_at", |call| {
        let order = order_of(order)?;
        let (address, shape) = call.place(rank, shape, data)?;
        with(region, |region, variables| variables.place(region, variable, address, shape, order))
    })
}

/// Says which elements of an array versions of a declared tracked variable show from now on: any that have a shape and a distance
/// along each dimension. They are gathered at each publish; what lies between them is not copied. All memory from the first of
/// their bytes to the last has to be there. See docs/concepts.md, "Less to copy". Call it again, or stillframe_track_at, as
/// stillframe_track is called again.
///
/// shape: rank numbers. strides: rank distances in bytes, which may be negative. dtype: the type that the elements have in memory,
/// if they are rounded to the variable's: "float64" to "float32", "float16" or "bfloat16", "float32" to the last two,
/// "complex128" to "complex64"; NULL if it is the variable's. order: in which order versions show them. data: the element of
/// which all indices are the lowest; NULL as for stillframe_track.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND; WRONG_SHAPE; BAD_ARGUMENT. The publish fails with WRONG_SHAPE if elements cannot be
/// rounded so, or if they leave the address space.
#[unsafe(no_mangle)]
#[allow(clippy::too_many_arguments)]
pub extern "C" fn stillframe_track_section(
    region: *mut stillframe_region,
    variable: u32,
    rank: u32,
    shape: *const usize,
    strides: *const isize,
    dtype: *const c_char,
    order: stillframe_order,
    data: *const c_void,
) -> stillframe_status {
    run("stillframe_track_section", |call| {
        let order = order_of(order)?;
        let dtype = call.text_or_null("dtype", dtype)?.map(dtype_of).transpose()?;
        let (address, shape) = call.place(rank, shape, data)?;
        // Without elements there is no way from one to the next.
        let none = vec![0; if strides.is_null() && shape.contains(&0) { shape.len() } else { 0 }];
        let strides = if none.is_empty() { call.slice("strides", strides, shape.len())? } else { &none[..] };
        with(region, |region, variables| {
            variables.place_section(region, variable, address, shape, order, (strides, dtype))
        })
    })
}

/// Narrows what the next version takes of a tracked variable's array to some bytes, in whole pages of 4 KiB: all others stay
/// as the newest version shows them, and what was written there is part of the first later version that takes them. Counts for
/// one version, and until the array is said to be elsewhere. For programs that publish as msync does.
///
/// before: the content of the whole array as it was, for pages that no version shows yet; NULL if there are none.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND; OUT_OF_RANGE, also if it has no array, or a section of one. The publish fails with WRONG_SHAPE if before is
/// NULL and needed.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_track_part(
    region: *mut stillframe_region,
    variable: u32,
    offset: usize,
    bytes: usize,
    before: *const c_void,
) -> stillframe_status {
    run("stillframe_track_part", |_| {
        let range = offset..offset.saturating_add(bytes);
        let before = (!before.is_null()).then_some(before as usize);
        with(region, |region, variables| variables.narrow(region, variable, Subrange { range, before }))
    })
}

/// Adds a managed, row-major variable. data: its memory, on a page boundary, zero or as recovered; it stays until the
/// variable is resized or removed or the region closed.
///
/// Errors: as stillframe_declare.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_array(
    region: *mut stillframe_region,
    name: *const c_char,
    dtype: *const c_char,
    rank: u32,
    shape: *const usize,
    data: *mut *mut c_void,
) -> stillframe_status {
    run("stillframe_array", |call| {
        let memory = Memory { data: call.out_pointer("data", data)?, bytes: Out::nowhere() };
        let (name, dtype_text) = (call.text("name", name)?, call.text("dtype", dtype)?);
        let kind = engine::Kind::Managed { shape: call.shape(rank, shape)?.to_vec() };
        let declaration = Declaration::new(name, dtype_of(dtype_text)?, kind);
        with(region, |region, variables| {
            let number = variables.declare(region, declaration, dtype_text)?;
            memory.put(region, variables.id(region, number)?)
        })
    })
}

/// The memory of a managed variable. bytes: its length; may be NULL.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_data(
    region: *mut stillframe_region,
    variable: u32,
    data: *mut *mut c_void,
    bytes: *mut usize,
) -> stillframe_status {
    run("stillframe_data", |call| {
        let memory = Memory { data: call.out_pointer("data", data)?, bytes: call.out_or_null("bytes", bytes)? };
        with(region, |region, variables| memory.put(region, variables.id(region, variable)?))
    })
}

/// The number of the variable of this name.
///
/// Errors: UNKNOWN_VARIABLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_find(
    region: *mut stillframe_region,
    name: *const c_char,
    variable: *mut u32,
) -> stillframe_status {
    run("stillframe_find", |call| {
        let out = call.out("variable", variable)?;
        let name = call.text("name", name)?;
        out.put(with(region, |region, variables| {
            variables.number(name).ok_or_else(|| variables.unknown(region, name))
        })?);
        Ok(())
    })
}

/// Gives a managed or loaned variable another shape. A managed one keeps its leading bytes and may move: pointers to its
/// memory dangle. What it gets beyond its old bytes is zero, also where it had bytes before that it gave up. Of a loaned one
/// versions show zeros until a loan of the new shape is submitted. data: where a managed variable is then, NULL for a loaned
/// one; may be NULL.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND if it is tracked; WRONG_SHAPE; IS_PINNED if it is pinned and would have to
/// move; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_resize(
    region: *mut stillframe_region,
    variable: u32,
    rank: u32,
    shape: *const usize,
    data: *mut *mut c_void,
) -> stillframe_status {
    run("stillframe_resize", |call| {
        let out = call.out_or_null("data", data)?;
        let shape = call.shape(rank, shape)?;
        with(region, |region, variables| {
            let id = variables.id(region, variable)?;
            region.resize(id, shape)?;
            out.put(region.managed_bytes(id).map_or(std::ptr::null_mut(), |(address, _)| address.cast()));
            Ok(())
        })
    })
}

/// Says that a variable is another part of its global array from the next version on, as after balancing the load, and gives
/// it the shape of that part as stillframe_resize does: pointers to the memory of a managed one dangle, and moving its
/// elements is left to the program. Of a tracked one say with stillframe_track where the array of that shape is: a publish
/// refuses one that does not fit the part.
///
/// offset, global_shape: rank numbers, as those of a declaration. data: as in stillframe_resize, and NULL for a tracked
/// variable.
///
/// Errors, after which nothing has changed: UNKNOWN_VARIABLE; WRONG_SHAPE if the shape does not fit the part; BAD_ARGUMENT;
/// IS_PINNED as in stillframe_resize; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_repart(
    region: *mut stillframe_region,
    variable: u32,
    rank: u32,
    shape: *const usize,
    offset: *const usize,
    global_shape: *const usize,
    data: *mut *mut c_void,
) -> stillframe_status {
    run("stillframe_repart", |call| {
        let out = call.out_or_null("data", data)?;
        let shape = call.shape(rank, shape)?;
        let part = Part {
            offset: call.slice("offset", offset, shape.len())?.to_vec(),
            global_shape: call.slice("global_shape", global_shape, shape.len())?.to_vec(),
        };
        with(region, |region, variables| {
            let id = variables.repart(region, variable, shape, part)?;
            out.put(region.managed_bytes(id).map_or(std::ptr::null_mut(), |(address, _)| address.cast()));
            Ok(())
        })
    })
}

/// Removes a variable from the versions to come; those that exist keep it. Pointers to the memory of a managed one dangle.
///
/// Errors: UNKNOWN_VARIABLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_remove(region: *mut stillframe_region, name: *const c_char) -> stillframe_status {
    run("stillframe_remove", |call| {
        let name = call.text("name", name)?;
        with(region, |region, variables| {
            region.remove(name)?;
            variables.forget_named(name);
            Ok(())
        })
    })
}

/// Removes a managed variable as stillframe_remove does, but leaves its memory to the program, beyond the region's end too,
/// until stillframe_kept_free. For allocators, which may not move what they gave out.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND; those of the environment.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_remove_keeping(
    region: *mut stillframe_region,
    variable: u32,
    kept: *mut *mut stillframe_kept,
) -> stillframe_status {
    run("stillframe_remove_keeping", |call| {
        let out = call.out_pointer("kept", kept)?;
        let memory = with(region, |region, variables| {
            let memory = region.remove_keeping(variables.id(region, variable)?)?;
            variables.forget(variable);
            Ok(memory)
        })?;
        out.put(handle::insert(memory));
        Ok(())
    })
}

/// Gives up memory that stillframe_remove_keeping left. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_kept_free(kept: *mut stillframe_kept) -> stillframe_status {
    run("stillframe_kept_free", |_| handle::remove_or_null::<KeptMemory>(kept).map(drop))
}

/// Pins a managed variable: its memory stays where it is, in the same pages, until stillframe_unpin or its end. Call it before
/// a device is told of the memory (ibv_reg_mr, cudaHostRegister, MPI_Win_create, fixed buffers of io_uring) and before the
/// memory is advised, locked or bound (madvise, mlock, mbind): otherwise Stillframe exchanges pages, so that what is cold
/// exists once, and the device goes on with those that are gone. What a device writes has to be told with
/// stillframe_mark_dirty.
///
/// Until then the memory exists in full beside the versions, and stillframe_resize works within the whole windows of 2 MiB
/// that the variable has. Parts that were shared are copied by this call and by the next publish; the tracker "private_cow"
/// compares a pinned variable. The kernel may still move or swap pages that no device has registered: this is not mlock.
/// Memory of a tracked variable is never exchanged, and pinning it says nothing new.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND if it is loaned; those of the environment, after which it is not pinned.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_pin(region: *mut stillframe_region, variable: u32) -> stillframe_status {
    run("stillframe_pin", |_: &Call| {
        with(region, |region, variables| {
            let id = variables.id(region, variable)?;
            Ok(region.pin(id)?)
        })
    })
}

/// Ends what stillframe_pin began. Devices have to be told to forget the memory first.
///
/// Errors: UNKNOWN_VARIABLE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_unpin(region: *mut stillframe_region, variable: u32) -> stillframe_status {
    run("stillframe_unpin", |_: &Call| {
        with(region, |region, variables| {
            let id = variables.id(region, variable)?;
            Ok(region.unpin(id)?)
        })
    })
}

/// Declares bytes of a variable written that were written where the kernel does not see it, as by a network card or a GPU.
/// For a tracked variable the range is in the memory of its last publish. A managed one has to be pinned before a device is
/// told of its memory, see stillframe_pin.
///
/// Errors: UNKNOWN_VARIABLE; OUT_OF_RANGE.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_mark_dirty(
    region: *mut stillframe_region,
    variable: u32,
    offset: usize,
    bytes: usize,
) -> stillframe_status {
    run("stillframe_mark_dirty", |_: &Call| {
        with(region, |region, variables| {
            let id = variables.id(region, variable)?;
            Ok(region.mark_dirty(id, offset..offset.saturating_add(bytes))?)
        })
    })
}
