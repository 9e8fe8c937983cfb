//! HDF5, as h5py reads it: complex numbers as {r, i}, bool as its enumeration, bytesN as fixed strings.
//!
//! # Safety
//!
//! Elements are written from bytes whose type is known only when the program runs, which the library over the C library
//! does not do. Its invariant: what is handed over is as long as the box that is selected, in elements of the dataset's own
//! type; and ids belong to objects that live until the call returns.
#![allow(unsafe_code)]

use crate::content::{Array, Group, Value, Values};
use crate::error::Error;
use crate::writer::{Layout, LeftOut, Refusal, Remarks, Writer};
use hdf5_metno as hdf5;
use hdf5_metno_sys::h5::hsize_t;
use hdf5_metno_sys::h5d::H5Dwrite;
use hdf5_metno_sys::h5i::hid_t;
use hdf5_metno_sys::h5p::H5P_DEFAULT;
use hdf5_metno_sys::h5s::{H5S_ALL, H5S_seloper_t, H5Sselect_hyperslab};
use hdf5_metno_sys::h5t::H5Tencode;
use std::ffi::{CString, c_char, c_int, c_uint};
use std::path::Path;
use std::ptr;
use stillframe::DType;

// Dimension scales are in a library of their own beside the C library, for which hdf5-metno-sys has no declarations.
// SAFETY: as in H5DSpublic.h and H5LTpublic.h, of all versions since 1.8.
unsafe extern "C" {
    fn H5DSset_scale(scale: hid_t, name: *const c_char) -> c_int;
    fn H5DSattach_scale(dataset: hid_t, scale: hid_t, axis: c_uint) -> c_int;
    fn H5DSset_label(dataset: hid_t, axis: c_uint, label: *const c_char) -> c_int;
    fn H5LTset_attribute_string(place: hid_t, path: *const c_char, name: *const c_char, text: *const c_char) -> c_int;
}

/// Attributes that the library keeps for itself.
const RESERVED: [&str; 5] = ["CLASS", "NAME", "DIMENSION_LIST", "REFERENCE_LIST", "DIMENSION_LABELS"];

/// Bytes of chunks that are kept in memory while parts of them are missing.
const CACHE_BYTES: usize = 64 << 20;

/// Bytes that the description of a type may take, in HDF5 and so in netCDF-4: those of a message in an object's header.
pub const DESCRIPTION_BYTES_MAX: usize = (1 << 16) - 1;

/// A file that is being written.
pub struct File {
    file: hdf5::File,
    group: hdf5::Group,
    group_name: String,
    /// The arrays of all groups, with the names of their dimensions, their path and the type of their elements.
    arrays: Vec<(hdf5::Dataset, Vec<String>, String, hdf5::Datatype)>,
    /// How many of them have their dimensions: all but those of the group.
    linked: usize,
    /// Paths and first lengths of those arrays of the group that readers of netCDF would read wrongly.
    misread: Vec<(String, usize)>,
    remarks: Remarks,
}

/// An error of the library's on something.
fn on<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Refusal {
    let what = what.into();
    move |error| Refusal::Library { what, text: error.to_string() }
}

/// What the C library has last complained of.
fn complaint(what: &str) -> Refusal {
    let text = hdf5::Error::query().map_or_else(|error| error.to_string(), |error| error.to_string());
    Refusal::Library { what: what.into(), text }
}

impl File {
    /// Makes a file, in the oldest version of the format that has all that is in it.
    pub fn create(path: &Path) -> Result<File, Refusal> {
        let file = hdf5::File::create(path).map_err(on("the file"))?;
        let group = file.as_group().map_err(on("the file"))?;
        let (group_name, arrays, misread, remarks) = (String::new(), Vec::new(), Vec::new(), Remarks::default());
        Ok(File { file, group, group_name, arrays, linked: 0, misread, remarks })
    }

    fn attributes(&mut self, place: &hdf5::Location, of: &str, values: &Values) -> Result<(), Refusal> {
        for (name, value) in values {
            if RESERVED.contains(&name.as_str()) {
                self.remarks.left_out.push(LeftOut::of_name(of, name));
                continue;
            }
            let written = match value {
                Value::Bool(value) => attribute(place, name, value),
                Value::Int(value) => attribute(place, name, value),
                Value::Uint(value) => attribute(place, name, value),
                Value::Float(value) => attribute(place, name, value),
                Value::Text(value) => match value.parse::<hdf5::types::VarLenUnicode>() {
                    Ok(text) => attribute(place, name, &text),
                    Err(_) => {
                        self.remarks.left_out.push(LeftOut::of_text(of, name));
                        continue;
                    }
                },
            };
            written.map_err(on(format!("attribute '{name}' of {of}")))?;
        }
        Ok(())
    }

    /// Marks an array as one that readers of netCDF take for the name of a dimension alone, as netCDF marks the dimensions that have
    /// no coordinates. Other readers see the array that it is.
    fn hide_from_netcdf(&mut self, path: String, length: usize) -> Result<(), Refusal> {
        let Ok(place) = CString::new(path.as_str()) else { return Ok(()) };
        let name = CString::new(format!("This is a netCDF dimension but not a netCDF variable. {length:10}"));
        for (attribute, text) in [(c"CLASS", c"DIMENSION_SCALE"), (c"NAME", &name.unwrap_or_default())] {
            // SAFETY: the file lives, and all texts end in a zero.
            let code = hdf5::sync::sync(|| unsafe {
                H5LTset_attribute_string(self.file.id(), place.as_ptr(), attribute.as_ptr(), text.as_ptr())
            });
            if code < 0 {
                return Err(complaint(&path));
            }
        }
        self.remarks.unseen.push(path);
        Ok(())
    }

    /// Makes the arrays that are coordinates dimension scales of the others.
    fn link_dimensions(&mut self) -> Result<(), Refusal> {
        let arrays = &self.arrays[self.linked..];
        let is_scale = |name: &str, dimensions: &[String]| matches!(dimensions, [only] if only == name);
        for (array, dimensions, path, _) in arrays {
            for (axis, dimension) in dimensions.iter().enumerate() {
                let Ok(label) = CString::new(dimension.as_str()) else { continue };
                // SAFETY: the dataset lives, the axis is one of its, and the text ends in a zero.
                let code = hdf5::sync::sync(|| unsafe { H5DSset_label(array.id(), axis as c_uint, label.as_ptr()) });
                if code < 0 {
                    return Err(complaint(&format!("dimension '{dimension}' of {path}")));
                }
            }
        }
        for (scale, dimensions, path, _) in arrays {
            let name = path.rsplit('/').next().unwrap_or(path);
            let Ok(text) = CString::new(name) else { continue };
            if !is_scale(name, dimensions) {
                continue;
            }
            // SAFETY: the dataset lives, and the text ends in a zero.
            if hdf5::sync::sync(|| unsafe { H5DSset_scale(scale.id(), text.as_ptr()) }) < 0 {
                return Err(complaint(&format!("dimension scale {path}")));
            }
            for (array, dimensions, path, _) in arrays.iter().filter(|(array, ..)| array.id() != scale.id()) {
                for axis in (0..dimensions.len()).filter(|axis| dimensions[*axis] == name) {
                    // SAFETY: both datasets live, and the axis is one of the first's.
                    let code = hdf5::sync::sync(|| unsafe { H5DSattach_scale(array.id(), scale.id(), axis as c_uint) });
                    if code < 0 {
                        return Err(complaint(&format!("dimension '{name}' of {path}")));
                    }
                }
            }
        }
        self.linked = self.arrays.len();
        // A dimension scale cannot have scales of its own any more.
        for (path, length) in std::mem::take(&mut self.misread) {
            self.hide_from_netcdf(path, length)?;
        }
        Ok(())
    }
}

fn attribute<T: hdf5::H5Type>(place: &hdf5::Location, name: &str, value: &T) -> hdf5::Result<()> {
    place.new_attr::<T>().create(name)?.write_scalar(value)
}

impl Writer for File {
    fn group(&mut self, group: &Group) -> Result<(), Refusal> {
        self.link_dimensions()?;
        if let Some(name) = &group.name {
            self.group = self.file.create_group(name).map_err(on(format!("group {name}")))?;
            self.group_name = format!("{name}/");
        }
        let (place, of) = (self.group.clone(), group.name.clone().unwrap_or_else(|| "the file".into()));
        self.attributes(&place, &of, &group.attributes)
    }

    fn array(&mut self, array: &Array, layout: Layout) -> Result<(), Refusal> {
        if array.name == "." {
            return Err(Refusal::Name(Error::Name {
                format: "HDF5",
                what: "variable",
                name: array.name.clone(),
                why: "it means the group itself",
                advice: "name the other variables on the command line",
            }));
        }
        let what = format!("{}{}", self.group_name, array.name);
        let described = describe(&array.dtype);
        let dtype = hdf5::Datatype::from_descriptor(&described).map_err(on(&what))?;
        let mut builder = self.group.new_dataset_builder().empty_as(&dtype).shape(&array.shape[..]);
        builder = match layout.chunk {
            Some(chunk) => {
                // As many slots as the library's documents advise, a prime about a hundred times the chunks kept.
                let builder = builder.chunk(chunk.to_vec()).chunk_cache(12421, CACHE_BYTES, 1.0);
                builder.shuffle().deflate(layout.deflate)
            }
            None => builder.no_chunk(),
        };
        // Nothing is written twice; what no rank has is zero.
        let fill = if layout.whole { hdf5::plist::dataset_create::FillTime::Never } else { ALWAYS };
        let dataset = builder.fill_time(fill).create(array.name.as_str()).map_err(on(&what))?;
        self.attributes(&dataset, &what, &array.attributes)?;
        if !is_read_by_netcdf(&array.dtype) {
            self.misread.push((what.clone(), array.shape.first().copied().unwrap_or(1)));
        }
        self.arrays.push((dataset, array.dimensions.clone(), what, dtype));
        Ok(())
    }

    fn write(&mut self, number: usize, start: &[usize], count: &[usize], bytes: &[u8]) -> Result<(), Refusal> {
        let (dataset, _, what, dtype) = self.arrays.get(number).ok_or_else(|| Refusal::no_array(number))?;
        let fail = |error: hdf5::Error| on(what.clone())(error);
        let elements: usize = count.iter().product();
        if elements * dtype.size() != bytes.len() {
            let text = format!("{} bytes for {elements} elements of {}", bytes.len(), dtype.size());
            return Err(Refusal::Library { what: what.clone(), text });
        }
        if count.is_empty() {
            // SAFETY: the bytes are one element of the type, as was checked.
            let code = hdf5::sync::sync(|| unsafe {
                H5Dwrite(dataset.id(), dtype.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.as_ptr().cast())
            });
            return if code < 0 { Err(complaint(what)) } else { Ok(()) };
        }
        let space = dataset.space().map_err(fail)?;
        let memory = hdf5::Dataspace::try_new(count).map_err(fail)?;
        let sizes = |list: &[usize]| list.iter().map(|size| *size as hsize_t).collect::<Vec<_>>();
        let (start, count) = (sizes(start), sizes(count));
        // SAFETY: both lists are as long as the space has dimensions, which the shape of the dataset gave it; the memory
        // is all of the bytes, whose number was checked; the ids live.
        let code = hdf5::sync::sync(|| unsafe {
            let set = H5S_seloper_t::H5S_SELECT_SET;
            let chosen = H5Sselect_hyperslab(space.id(), set, start.as_ptr(), ptr::null(), count.as_ptr(), ptr::null());
            if chosen < 0 {
                return chosen;
            }
            H5Dwrite(dataset.id(), dtype.id(), memory.id(), space.id(), H5P_DEFAULT, bytes.as_ptr().cast())
        });
        if code < 0 { Err(complaint(what)) } else { Ok(()) }
    }

    fn close(mut self: Box<Self>) -> Result<Remarks, Refusal> {
        self.link_dimensions()?;
        self.file.flush().map_err(on("the file"))?;
        let File { file, group, arrays, remarks, .. } = *self;
        drop((group, arrays));
        file.close().map_err(on("the file"))?;
        Ok(remarks)
    }
}

const ALWAYS: hdf5::plist::dataset_create::FillTime = hdf5::plist::dataset_create::FillTime::Alloc;

/// Whether the library of netCDF reads elements of a type in files of HDF5 as what they are. Of the others it takes texts in records
/// for single letters and `float16` for pointers, leaves records out, or does so in some versions only.
fn is_read_by_netcdf(dtype: &DType) -> bool {
    let is_number =
        |dtype: &DType| matches!(dtype, DType::Int(_) | DType::Uint(_) | DType::Bfloat16 | DType::Float(4 | 8));
    match dtype {
        DType::Record { fields, .. } => fields.iter().all(|field| is_number(&field.dtype)),
        DType::Bool | DType::Bytes(_) | DType::Complex(_) => true,
        other => is_number(other),
    }
}

/// Bytes of the description of a type, as a file has it; `None` if the library makes none of it.
pub fn description_bytes(dtype: &DType) -> Option<usize> {
    let dtype = hdf5::Datatype::from_descriptor(&describe(dtype)).ok()?;
    let mut bytes = 0;
    // SAFETY: the type lives; without a buffer the library sets the number alone.
    let code = hdf5::sync::sync(|| unsafe { H5Tencode(dtype.id(), ptr::null_mut(), &mut bytes) });
    (code >= 0).then_some(bytes)
}

/// The type of the same bytes.
fn describe(dtype: &DType) -> hdf5::types::TypeDescriptor {
    use hdf5::types::{CompoundField, CompoundType, FloatSize, IntSize, TypeDescriptor};
    let int = |bytes: u8| match bytes {
        1 => IntSize::U1,
        2 => IntSize::U2,
        4 => IntSize::U4,
        _ => IntSize::U8,
    };
    let float = |bytes: u8| {
        TypeDescriptor::Float(match bytes {
            2 => FloatSize::U2,
            4 => FloatSize::U4,
            _ => FloatSize::U8,
        })
    };
    match dtype {
        DType::Int(bytes) => TypeDescriptor::Integer(int(*bytes)),
        DType::Uint(bytes) => TypeDescriptor::Unsigned(int(*bytes)),
        // Arrays come without it, as `stillframe::bfloat16` widens them: few readers would make numbers of it.
        DType::Bfloat16 => TypeDescriptor::Unsigned(IntSize::U2),
        DType::Float(bytes) => float(*bytes),
        DType::Complex(bytes) => {
            let half = bytes / 2;
            let fields = vec![
                CompoundField::new("r", float(half), 0, 0),
                CompoundField::new("i", float(half), usize::from(half), 1),
            ];
            TypeDescriptor::Compound(CompoundType { fields, size: usize::from(*bytes) })
        }
        DType::Bool => TypeDescriptor::Boolean,
        DType::Bytes(bytes) => TypeDescriptor::FixedAscii(*bytes as usize),
        DType::Record { fields, bytes } => {
            // The library over the C library makes the type as long as the last field that it is given.
            let mut sorted: Vec<_> = fields.iter().collect();
            sorted.sort_by_key(|field| field.offset);
            let field = |(index, field): (usize, &&stillframe::Field)| {
                CompoundField::new(&field.name, describe(&field.dtype), field.offset as usize, index)
            };
            let fields = sorted.iter().enumerate().map(field).collect();
            TypeDescriptor::Compound(CompoundType { fields, size: *bytes as usize })
        }
    }
}
