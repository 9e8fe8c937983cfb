//! netCDF-4: complex numbers as compounds {r, i}, bool as bytes with an attribute `dtype`, bytesN as characters along one
//! more dimension; what xarray and netCDF4-python undo.
//!
//! # Safety
//!
//! The calls of the C library. Their invariant: every pointer handed over points to what lives until the call returns; lists of
//! dimensions are as long as the variable has dimensions; and what is written is as long as the box, in elements of the
//! variable's own type.
#![allow(unsafe_code)]

use crate::content::{Array, Group, Value, Values, name_fault};
use crate::error::Error;
use crate::writer::{Layout, LeftOut, Refusal, Remarks, Writer};
use netcdf_sys as nc;
use netcdf_sys::nc_type;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, CString, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use stillframe::DType;

/// An attribute that has to be of the variable's type, and of which the library keeps half when it is not.
const FILL_VALUE: &str = "_FillValue";

/// Bytes of chunks that are kept in memory while parts of them are missing.
const CACHE_BYTES: usize = 64 << 20;

/// An array of the file.
struct Variable {
    group: c_int,
    id: c_int,
    /// Bytes of an element.
    element: usize,
    /// N of bytesN.
    repeated: Option<usize>,
    path: String,
}

/// A file that is being written.
pub struct File {
    id: c_int,
    /// The group arrays go into.
    group: c_int,
    group_name: String,
    /// Dimensions of the group.
    dimensions: HashMap<String, c_int>,
    /// Names of the group's arrays and of their dimensions, which none of characters has.
    taken: BTreeSet<String>,
    /// Compounds, which all are the root's.
    compounds: HashMap<DType, nc_type>,
    /// Names of the root: types, variables and groups share them.
    names: BTreeSet<String>,
    arrays: Vec<Variable>,
    what: String,
    left_out: Vec<LeftOut>,
    open: bool,
}

fn check(code: c_int, what: &str) -> Result<(), Refusal> {
    if code == nc::NC_NOERR {
        return Ok(());
    }
    // SAFETY: the library returns a text of its own for any number.
    let text = unsafe { CStr::from_ptr(nc::nc_strerror(code)) }.to_string_lossy().into_owned();
    Err(Refusal::Library { what: what.into(), text })
}

fn text_of(name: &str, what: &str) -> Result<CString, Refusal> {
    CString::new(name).map_err(|_| Refusal::Library { what: what.into(), text: "a zero byte in a name".into() })
}

impl File {
    /// Makes a file.
    pub fn create(path: &Path) -> Result<File, Refusal> {
        let what = "the file";
        let text = CString::new(path.as_os_str().as_bytes());
        let text = text.map_err(|_| Refusal::Library { what: what.into(), text: "a zero byte in its path".into() })?;
        let mut id = 0;
        // SAFETY: the text ends in a zero, and the number is the library's to set.
        check(unsafe { nc::nc_create(text.as_ptr(), nc::NC_NETCDF4 | nc::NC_CLOBBER, &mut id) }, what)?;
        Ok(File {
            id,
            group: id,
            group_name: String::new(),
            dimensions: HashMap::new(),
            taken: BTreeSet::new(),
            compounds: HashMap::new(),
            names: BTreeSet::new(),
            arrays: Vec::new(),
            what: what.into(),
            left_out: Vec::new(),
            open: true,
        })
    }

    fn attributes(&mut self, variable: c_int, of: &str, values: &Values) -> Result<(), Refusal> {
        for (name, value) in values {
            if name == FILL_VALUE {
                self.left_out.push(LeftOut::of_name(of, name));
                continue;
            }
            let text = text_of(name, of)?;
            let (group, name_at) = (self.group, text.as_ptr());
            // SAFETY: the name ends in a zero, and the value is one of the type that is said, or as long as is said.
            let code = unsafe {
                match value {
                    Value::Bool(value) => nc::nc_put_att_schar(
                        group,
                        variable,
                        name_at,
                        nc::NC_BYTE,
                        1,
                        ptr::from_ref(&i8::from(*value)).cast(),
                    ),
                    Value::Int(value) => nc::nc_put_att_longlong(group, variable, name_at, nc::NC_INT64, 1, value),
                    Value::Uint(value) => nc::nc_put_att_ulonglong(group, variable, name_at, nc::NC_UINT64, 1, value),
                    Value::Float(value) => nc::nc_put_att_double(group, variable, name_at, nc::NC_DOUBLE, 1, value),
                    Value::Text(value) => {
                        nc::nc_put_att_text(group, variable, name_at, value.len(), value.as_ptr().cast())
                    }
                }
            };
            if [nc::NC_EBADNAME, nc::NC_ENAMEINUSE].contains(&code) {
                self.left_out.push(LeftOut::of_name(of, name));
                continue;
            }
            check(code, &format!("attribute '{name}' of {of}"))?;
        }
        Ok(())
    }

    fn dimension(&mut self, name: &str, length: usize) -> Result<c_int, Refusal> {
        if let Some(id) = self.dimensions.get(name) {
            return Ok(*id);
        }
        let text = text_of(name, &self.what)?;
        let mut id = 0;
        // A length of zero says unlimited, which is a dimension of length zero as long as nothing is written.
        // SAFETY: the name ends in a zero.
        check(unsafe { nc::nc_def_dim(self.group, text.as_ptr(), length, &mut id) }, &format!("dimension '{name}'"))?;
        self.dimensions.insert(name.into(), id);
        Ok(id)
    }

    /// The type of an element, and how many of them a bytesN is.
    fn dtype(&mut self, dtype: &DType, name: &str) -> Result<(nc_type, Option<usize>), Refusal> {
        Ok(match dtype {
            DType::Int(1) | DType::Bool => (nc::NC_BYTE, None),
            DType::Int(2) => (nc::NC_SHORT, None),
            DType::Int(4) => (nc::NC_INT, None),
            DType::Int(_) => (nc::NC_INT64, None),
            DType::Uint(1) => (nc::NC_UBYTE, None),
            // It has no real numbers of two bytes: the bits. What they are stands in an attribute.
            DType::Uint(2) | DType::Float(2) | DType::Bfloat16 => (nc::NC_USHORT, None),
            DType::Uint(4) => (nc::NC_UINT, None),
            DType::Uint(_) => (nc::NC_UINT64, None),
            DType::Float(4) => (nc::NC_FLOAT, None),
            DType::Float(_) => (nc::NC_DOUBLE, None),
            DType::Bytes(bytes) => (nc::NC_CHAR, Some(*bytes as usize)),
            DType::Complex(bytes) => {
                let half = DType::Float(bytes / 2);
                let fields = [("r", &half, 0), ("i", &half, usize::from(bytes / 2))];
                (self.compound(dtype, &fields, &format!("complex{}", usize::from(*bytes) * 8))?, None)
            }
            DType::Record { fields, .. } => {
                let fields: Vec<(&str, &DType, usize)> =
                    fields.iter().map(|field| (field.name.as_str(), &field.dtype, field.offset as usize)).collect();
                (self.compound(dtype, &fields, &format!("{name}_type"))?, None)
            }
        })
    }

    fn compound(&mut self, dtype: &DType, fields: &[(&str, &DType, usize)], name: &str) -> Result<nc_type, Refusal> {
        if let Some(id) = self.compounds.get(dtype) {
            return Ok(*id);
        }
        let mut parts = Vec::new();
        for (field, dtype, offset) in fields {
            if let Some(why) = name_fault(field) {
                return Err(misnamed("record field", field, why));
            }
            let (id, repeated) = self.dtype(dtype, &format!("{name}_{field}"))?;
            parts.push((text_of(field, &self.what)?, *offset, id, repeated));
        }
        let mut name = name.to_string();
        while !self.names.insert(name.clone()) {
            name.push('_');
        }
        let what = format!("type '{name}'");
        let text = text_of(&name, &what)?;
        let mut id = 0;
        // SAFETY: the name ends in a zero.
        check(unsafe { nc::nc_def_compound(self.id, dtype.bytes(), text.as_ptr(), &mut id) }, &what)?;
        for (field, offset, field_type, repeated) in parts {
            // SAFETY: the name ends in a zero, and the list is one long, as is said.
            let code = unsafe {
                match repeated {
                    None => nc::nc_insert_compound(self.id, id, field.as_ptr(), offset, field_type),
                    Some(length) => {
                        let lengths = [length as c_int];
                        let list = lengths.as_ptr();
                        nc::nc_insert_array_compound(self.id, id, field.as_ptr(), offset, field_type, 1, list)
                    }
                }
            };
            check(code, &what)?;
        }
        self.compounds.insert(dtype.clone(), id);
        Ok(id)
    }
}

fn misnamed(what: &'static str, name: &str, why: &'static str) -> Refusal {
    let advice = "export to .h5, or name the other variables on the command line";
    Refusal::Name(Error::Name { format: "netCDF", what, name: name.into(), why, advice })
}

impl Writer for File {
    fn group(&mut self, group: &Group) -> Result<(), Refusal> {
        if let Some(name) = &group.name {
            self.what = format!("group {name}");
            let text = text_of(name, &self.what)?;
            // SAFETY: the name ends in a zero.
            check(unsafe { nc::nc_def_grp(self.id, text.as_ptr(), &mut self.group) }, &self.what)?;
            self.group_name = format!("{name}/");
            // A dimension of the root with the same name is another.
            self.dimensions.clear();
        }
        let of_array = |array: &Array| array.dimensions.iter().chain([&array.name]).cloned().collect::<Vec<_>>();
        self.taken = group.arrays.iter().flat_map(of_array).collect();
        if group.name.is_none() {
            self.names.clone_from(&self.taken);
        }
        let of = group.name.clone().unwrap_or_else(|| "the file".into());
        self.attributes(nc::NC_GLOBAL, &of, &group.attributes)
    }

    fn array(&mut self, array: &Array, layout: Layout) -> Result<(), Refusal> {
        if let Some(why) = name_fault(&array.name) {
            return Err(misnamed("variable", &array.name, why));
        }
        self.what = format!("{}{}", self.group_name, array.name);
        let what = self.what.clone();
        let (dtype, repeated) = self.dtype(&array.dtype, &array.name)?;
        let mut dimensions = Vec::new();
        for (name, length) in array.dimensions.iter().zip(&array.shape) {
            dimensions.push(self.dimension(name, *length)?);
        }
        if let Some(length) = repeated {
            let mut name = format!("bytes{length}");
            while self.taken.contains(&name) {
                name.push('_');
            }
            dimensions.push(self.dimension(&name, length)?);
        }
        let name = text_of(&array.name, &what)?;
        let mut id = 0;
        let count = dimensions.len() as c_int;
        // SAFETY: the name ends in a zero, and the list is as long as is said.
        let code = unsafe { nc::nc_def_var(self.group, name.as_ptr(), dtype, count, dimensions.as_ptr(), &mut id) };
        check(code, &what)?;
        // A dimension of length zero is unlimited, and those have chunks of the library's choice.
        if !dimensions.is_empty() && !array.shape.contains(&0) {
            let chunk: Option<Vec<usize>> = layout.chunk.map(|chunk| chunk.iter().copied().chain(repeated).collect());
            let (storage, lengths) = match &chunk {
                Some(chunk) => (nc::NC_CHUNKED, chunk.as_ptr()),
                None => (nc::NC_CONTIGUOUS, ptr::null()),
            };
            // SAFETY: the list has a length for each dimension, or there is none and none is read.
            check(unsafe { nc::nc_def_var_chunking(self.group, id, storage, lengths) }, &what)?;
            if chunk.is_some() {
                let level = c_int::from(layout.deflate);
                // SAFETY: numbers alone.
                check(unsafe { nc::nc_def_var_deflate(self.group, id, 1, 1, level) }, &what)?;
                // SAFETY: numbers alone; the second is a prime about a hundred times the chunks kept.
                check(unsafe { nc::nc_set_var_chunk_cache(self.group, id, CACHE_BYTES, 12421, 1.0) }, &what)?;
            }
        }
        if layout.whole {
            // SAFETY: no value to fill with is read where there is nothing to fill.
            check(unsafe { nc::nc_def_var_fill(self.group, id, 1, ptr::null()) }, &what)?;
        }
        let mut values = array.attributes.clone();
        if matches!(array.dtype, DType::Bool | DType::Float(2)) {
            // Of bool this is what xarray writes and undoes.
            values.retain(|(name, _)| name != "dtype");
            values.push(("dtype".into(), Value::Text(array.dtype.to_string())));
        }
        self.attributes(id, &what, &values)?;
        self.arrays.push(Variable { group: self.group, id, element: array.dtype.bytes(), repeated, path: what });
        Ok(())
    }

    fn write(&mut self, number: usize, start: &[usize], count: &[usize], bytes: &[u8]) -> Result<(), Refusal> {
        let array = self.arrays.get(number).ok_or_else(|| Refusal::no_array(number))?;
        let Variable { group, id, element, repeated, path } = array;
        let elements: usize = count.iter().product();
        if elements * element != bytes.len() {
            let text = format!("{} bytes for {elements} elements of {element}", bytes.len());
            return Err(Refusal::Library { what: path.clone(), text });
        }
        let start: Vec<usize> = start.iter().copied().chain(repeated.map(|_| 0)).collect();
        let count: Vec<usize> = count.iter().copied().chain(*repeated).collect();
        // SAFETY: both lists have a number for each dimension, and the bytes are the elements of the box, as was checked.
        let code = unsafe { nc::nc_put_vara(*group, *id, start.as_ptr(), count.as_ptr(), bytes.as_ptr().cast()) };
        check(code, path)
    }

    fn close(mut self: Box<Self>) -> Result<Remarks, Refusal> {
        self.open = false;
        // SAFETY: the file is open, and closed once.
        check(unsafe { nc::nc_close(self.id) }, "the file")?;
        Ok(Remarks { left_out: std::mem::take(&mut self.left_out), unseen: Vec::new() })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.open {
            // SAFETY: the file is open, and closed once. It is not wanted any more, whatever the library says.
            unsafe { nc::nc_close(self.id) };
        }
    }
}
