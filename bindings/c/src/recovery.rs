//! Create or recover: what the last run left in memory or in checkpoints, and going on from it.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::attribute::{c_text, stillframe_attribute};
use crate::beginning::{Beginning, recovered, stillframe_origin};
use crate::call::{Call, run};
use crate::failure::Failure;
use crate::handle;
use crate::producer::{self, Producer, stillframe_region};
use crate::region::{self, stillframe_region_options};
use crate::snapshot::{STILLFRAME_RANK_MAX, per_dimension};
use crate::status::stillframe_status;
use crate::truth::stillframe_truth;
use crate::variable::{dtype_of, order_of, stillframe_order};
use checkpoint::Recovery;
use engine::{DType, Order};
use std::ffi::{c_char, c_void};

/// How to recover a region. A member that is 0 or NULL is the default; set all of it to 0 first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct stillframe_recovery_options {
    /// Directory with the checkpoints of the region, or of the group; NULL: what is in memory counts alone.
    pub checkpoints: *const c_char,
    /// With has_version: the version to go on from.
    pub version: u64,
    /// 1 if version counts; 0: the newest version.
    pub has_version: u32,
    /// 0.
    pub padding: u32,
    /// How the region is made.
    pub region: stillframe_region_options,
    /// 0.
    pub reserved: [u64; 4],
}

/// Makes a region and says what it begins with: what the last run left in memory, or if that is gone or older its newest good
/// checkpoint, else nothing. Managed and loaned variables that are declared with the same name, type, order, shape and part
/// then have their content; into tracked arrays stillframe_read_recovered reads it. The ranks of a group all begin with the
/// same version.
///
/// name: as in stillframe_create. options: NULL for all defaults. region: the handle; NULL on errors. origin: what it begins
/// with; may be NULL.
///
/// Errors: as stillframe_create; NO_SUCH_VERSION if the version that was asked for is nowhere; NO_CHECKPOINT if there are
/// checkpoints and none of them is good.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_recover(
    name: *const c_char,
    options: *const stillframe_recovery_options,
    region: *mut *mut stillframe_region,
    origin: *mut stillframe_origin,
) -> stillframe_status {
    run("stillframe_recover", |call| {
        let (out, origin) = (call.out_pointer("region", region)?, call.out_or_null("origin", origin)?);
        let name = call.text("name", name)?;
        let mut recovery = Recovery::options();
        if let Some(given) = call.read("options", options)? {
            if given.reserved != [0; 4] || given.padding != 0 {
                return Err(Failure::argument("options.reserved", "it is not 0: set the whole structure to 0 first"));
            }
            recovery = recovery.region(region::options_of(call, &given.region)?);
            if let Some(dir) = call.text_or_null("options.checkpoints", given.checkpoints)? {
                recovery = recovery.checkpoints(dir);
            }
            if given.has_version != 0 {
                recovery = recovery.version(given.version);
            }
        }
        let (region, recovered) = recovery.open(name)?.into_parts();
        let beginning = Beginning::new(recovered);
        origin.put(beginning.origin());
        out.put(producer::insert(region, Some(beginning)));
        Ok(())
    })
}

/// An attribute of the version that was recovered. Its texts live as long as the region's handle.
///
/// Errors: UNKNOWN_ATTRIBUTE; BAD_ARGUMENT if the region is not from stillframe_recover; BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_recovered_attribute(
    region: *mut stillframe_region,
    name: *const c_char,
    attribute: *mut stillframe_attribute,
) -> stillframe_status {
    run("stillframe_recovered_attribute", |call| {
        let (name, out) = (call.text("name", name)?, call.out("attribute", attribute)?);
        out.put(handle::with(region, |producer: &mut Producer| match &producer.beginning {
            Some(beginning) => beginning.attributes.named(name),
            None => recovered(&producer.beginning).and(Err(Failure::unknown_attribute(name, &[]))),
        })?);
        Ok(())
    })
}

/// A variable of the version that was recovered. Texts live until the visitor returns.
#[repr(C)]
pub struct stillframe_recovered_variable {
    /// Its name.
    pub name: *const c_char,
    /// Type of its elements, as in stillframe_array.
    pub dtype: *const c_char,
    /// Dimensions.
    pub rank: u32,
    /// 0.
    pub padding: u32,
    /// Its extents: those of the global array if ranks had parts of one.
    pub shape: [usize; STILLFRAME_RANK_MAX],
    /// 0.
    pub reserved: [u64; 4],
}

/// Gets a variable of the version that was recovered; false ends the walk. As stillframe_region_visitor.
pub type stillframe_recovered_variable_visitor =
    Option<extern "C" fn(context: *mut c_void, variable: *const stillframe_recovered_variable) -> stillframe_truth>;

/// Walks over the variables of the version that was recovered, by name, before the first publish: of a group over all that any
/// of its ranks had. In a first run there are none.
///
/// Errors: BAD_ARGUMENT if the region is not from stillframe_recover, or has published; WRONG_SHAPE if a variable has more
/// dimensions than STILLFRAME_RANK_MAX; BAD_HANDLE; FORKED; those of reading checkpoints.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_recovered_variables(
    region: *mut stillframe_region,
    visitor: stillframe_recovered_variable_visitor,
    context: *mut c_void,
) -> stillframe_status {
    run("stillframe_recovered_variables", |_| {
        let see = visitor.ok_or_else(|| Failure::argument("visitor", "it is NULL"))?;
        let found = handle::with(region, |producer: &mut Producer| Ok(recovered(&producer.beginning)?.variables()?))?;
        for variable in found {
            let (name, dtype) = (c_text(&variable.name), c_text(&variable.dtype.to_text()));
            let variable = stillframe_recovered_variable {
                name: name.as_ptr(),
                dtype: dtype.as_ptr(),
                rank: variable.shape.len() as u32,
                padding: 0,
                shape: per_dimension(&variable.name, variable.shape.iter().copied())?,
                reserved: [0; 4],
            };
            if !see(context, &variable).holds() {
                break;
            }
        }
        Ok(())
    })
}

/// Where and how a box of an array is wanted.
struct Wanted {
    dtype: DType,
    order: Order,
    offset: Option<Vec<usize>>,
    shape: Vec<usize>,
}

impl Wanted {
    fn bytes(&self) -> Result<usize, Failure> {
        let bytes = self.shape.iter().try_fold(self.dtype.bytes(), |bytes, extent| bytes.checked_mul(*extent));
        bytes.ok_or_else(|| {
            Failure::argument("shape", format!("{:?} elements of {} are too many", self.shape, self.dtype))
        })
    }
}

/// Reads a box of the recovered version into memory of the program, before the first publish: of the global array if the ranks
/// that published it said which parts they had, however many ranks those were, else of the variable as it is.
///
/// variable: its name. dtype: its type. rank, offset, shape: the box; offset is as many numbers as shape, and NULL is that of
/// the part with which the variable was declared in this region, or without one all of the variable, of this shape. order: that
/// of the elements in data, whichever they were published in. data: room for the box.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_DTYPE; WRONG_SHAPE if the box is not in what was published, or is not all of it and has no
/// offset; UNCOVERED if some of it nobody has; PER_RANK if it is no part, differs between ranks, and their number is another
/// one; NOTHING_RECOVERED; DAMAGED and others of checkpoints, after which data may be written in part; BAD_ARGUMENT if the region
/// is not from stillframe_recover, or has published.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_read_recovered(
    region: *mut stillframe_region,
    variable: *const c_char,
    dtype: *const c_char,
    rank: u32,
    offset: *const usize,
    shape: *const usize,
    order: stillframe_order,
    data: *mut c_void,
) -> stillframe_status {
    run("stillframe_read_recovered", |call| {
        let name = call.text("variable", variable)?;
        let wanted = wanted(call, dtype, rank, offset, shape, order)?;
        let data = call.bytes_mut("data", data.cast(), wanted.bytes()?)?;
        handle::with(region, |producer: &mut Producer| {
            let recovered = recovered(&producer.beginning)?;
            let Wanted { dtype, order, offset, shape } = wanted;
            let part = producer.variables.named(name).and_then(|known| known.part.as_ref());
            let offset = offset.as_ref().or(part.map(|part| &part.offset)).map(Vec::as_slice);
            Ok(recovered.read_bytes(name, &dtype, order, offset, &shape, data)?)
        })
    })
}

fn wanted(
    call: &Call,
    dtype: *const c_char,
    rank: u32,
    offset: *const usize,
    shape: *const usize,
    order: stillframe_order,
) -> Result<Wanted, Failure> {
    let shape = call.shape(rank, shape)?.to_vec();
    let offset = match offset.is_null() {
        true => None,
        false => Some(call.slice("offset", offset, shape.len())?.to_vec()),
    };
    Ok(Wanted { dtype: dtype_of(call.text("dtype", dtype)?)?, order: order_of(order)?, offset, shape })
}

/// Fills a managed variable with its part of the global array as it was recovered, however many ranks had published it, before
/// the first publish. A variable that is no part, or whose region began with nothing, stays as it is.
///
/// Errors: UNKNOWN_VARIABLE; WRONG_KIND if it is not managed; else as stillframe_read_recovered, but that beginning with
/// nothing is none.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_fill(region: *mut stillframe_region, variable: u32) -> stillframe_status {
    run("stillframe_fill", |_| {
        handle::with(region, |producer: &mut Producer| {
            let recovered = recovered(&producer.beginning)?;
            let id = producer.variables.id(&producer.region, variable)?;
            Ok(recovered.fill(&mut producer.region, id)?)
        })
    })
}
