//! Memory that Python sees through the buffer protocol, and Python's own memory that the engine reads.
//!
//! # Safety
//! Everything here rests on one rule: a [`Memory`] owns what keeps its bytes mapped, and Python keeps the [`Memory`]
//! as long as any array, memoryview or buffer refers to it. So a pointer handed out can outlive the region, observer or
//! snapshot it came from, and never its bytes. No Rust reference is ever made to bytes that Python may write.
#![allow(unsafe_code)]

use crate::convert;
use drepl::executor::{ExecuteError, Executor};
use drepl::transfer::Transfer;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{CString, c_int, c_void};
use stillframe::{DType, Order, Snapshot, View};

/// How the elements lie in a stretch of memory.
pub struct Layout {
    format: CString,
    item_bytes: isize,
    shape: Box<[isize]>,
    strides: Box<[isize]>,
    order: Order,
}

impl Layout {
    /// The layout of an array without gaps.
    pub fn new(dtype: &DType, shape: &[usize], order: Order) -> Self {
        let format = CString::new(convert::buffer_format(dtype)).unwrap_or_default();
        let item_bytes = dtype.bytes() as isize;
        let shape: Box<[isize]> = shape.iter().map(|extent| *extent as isize).collect();
        let mut strides = vec![0; shape.len()].into_boxed_slice();
        let mut step = item_bytes;
        let mut axis = |axis: usize| {
            strides[axis] = step;
            // Only an array without elements can have dimensions whose product is too large, and nobody follows its strides.
            step = step.saturating_mul(shape[axis].max(1));
        };
        match order {
            Order::C => (0..shape.len()).rev().for_each(&mut axis),
            Order::Fortran => (0..shape.len()).for_each(&mut axis),
        }
        Self { format, item_bytes, shape, strides, order }
    }

    /// Bytes in a row.
    pub fn raw(bytes: usize) -> Self {
        Self::new(&DType::Uint(1), &[bytes], Order::C)
    }

    fn is_contiguous(&self, order: Order) -> bool {
        self.order == order || self.shape.contains(&0) || self.shape.iter().filter(|extent| **extent > 1).count() <= 1
    }
}

/// A stretch of memory with a layout, for numpy and everything else that knows the buffer protocol.
#[pyclass(frozen, module = "stillframe._native")]
pub struct Memory {
    start: *mut u8,
    bytes: usize,
    writable: bool,
    layout: Layout,
    /// Keeps the bytes where they are.
    _owner: Box<dyn Send + Sync>,
}

// SAFETY: the bytes are only handed on to Python, whose users answer for races in them as with any array; the owner is
// Send and Sync itself, and nothing else changes after construction.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// # Safety
    /// As long as `owner` lives, `bytes` bytes from `start` stay mapped; they are writable if `writable` says so, and
    /// else nobody writes them but `owner`.
    pub unsafe fn new(
        start: *mut u8,
        bytes: usize,
        writable: bool,
        layout: Layout,
        owner: impl Send + Sync + 'static,
    ) -> Self {
        Self { start, bytes, writable, layout, _owner: Box::new(owner) }
    }

    /// A variable of a snapshot.
    pub fn of_view(view: View, layout: Layout) -> Self {
        let (start, bytes) = (view.as_ptr().cast_mut(), view.len());
        // SAFETY: a view keeps the hold on its version and the mapping; its bytes lie in neither the view itself nor
        // change as long as it lives.
        unsafe { Self::new(start, bytes, false, layout, view) }
    }

    /// Bytes of Python's own, writable.
    pub fn of_vec(mut data: Vec<u8>) -> Self {
        let layout = Layout::raw(data.len());
        let (start, bytes) = (data.as_mut_ptr(), data.len());
        // SAFETY: the heap block of a vector stays where it is when the vector moves, and nobody else reaches it.
        unsafe { Self::new(start, bytes, true, layout, data) }
    }
}

/// So many zeros, or `None` where there is no memory for them: a vector that is made as ever ends the process then.
pub fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    if bytes == 0 {
        return Some(Vec::new());
    }
    let layout = std::alloc::Layout::array::<u8>(bytes).ok()?;
    // SAFETY: the layout has bytes. Of a large block the allocator gives pages that nobody wrote, so that nothing is written
    // twice.
    let start = unsafe { std::alloc::alloc_zeroed(layout) };
    // SAFETY: where it is not null, it is a block of this allocator with this layout, and all of it is written.
    (!start.is_null()).then(|| unsafe { Vec::from_raw_parts(start, bytes, bytes) })
}

#[pymethods]
impl Memory {
    /// SAFETY: called by Python with a view that it owns; the pointers put there live in `slf`, which the view keeps.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill"));
        }
        // SAFETY: not null, and Python's to give.
        unsafe { (*view).obj = std::ptr::null_mut() };
        let this = slf.get();
        let wants = |what: c_int| flags & what == what;
        if wants(ffi::PyBUF_WRITABLE) && !this.writable {
            return Err(PyBufferError::new_err("what was published cannot be written"));
        }
        let (c, fortran) = (this.layout.is_contiguous(Order::C), this.layout.is_contiguous(Order::Fortran));
        let plain_rows = wants(ffi::PyBUF_ND) && !wants(ffi::PyBUF_STRIDES);
        if (plain_rows || wants(ffi::PyBUF_C_CONTIGUOUS)) && !c || wants(ffi::PyBUF_F_CONTIGUOUS) && !fortran {
            return Err(PyBufferError::new_err("the array lies in the other order in memory"));
        }
        let shaped = wants(ffi::PyBUF_ND);
        let layout = &this.layout;
        let given = |list: &[isize], wanted: bool| match wanted {
            true => list.as_ptr().cast_mut(),
            false => std::ptr::null_mut(),
        };
        // SAFETY: the view is writable by contract. Shape, strides and format lie in boxes of the frozen object, which
        // `obj` keeps alive; consumers do not write through them. Without PyBUF_ND the bytes are given as they lie.
        unsafe {
            (*view).buf = this.start.cast::<c_void>();
            (*view).len = this.bytes as isize;
            (*view).readonly = c_int::from(!this.writable);
            (*view).itemsize = if shaped { layout.item_bytes } else { 1 };
            (*view).format = match wants(ffi::PyBUF_FORMAT) {
                true if shaped => layout.format.as_ptr().cast_mut(),
                true => c"B".as_ptr().cast_mut(),
                false => std::ptr::null_mut(),
            };
            (*view).ndim = if shaped { layout.shape.len() as c_int } else { 1 };
            (*view).shape = given(&layout.shape, shaped);
            (*view).strides = given(&layout.strides, wants(ffi::PyBUF_STRIDES));
            (*view).suboffsets = std::ptr::null_mut();
            (*view).internal = std::ptr::null_mut();
            (*view).obj = slf.into_any().into_ptr();
        }
        Ok(())
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }
}

/// The pieces of a variable where they lie in the planes, in ascending order: pairs of an offset and bytes.
#[pyclass(module = "stillframe._native")]
pub struct Chunks {
    snapshot: Snapshot,
    pieces: std::vec::IntoIter<(usize, *mut u8, usize)>,
}

// SAFETY: the pointers are to bytes that the snapshot, itself Send and Sync, keeps mapped and unchanged.
unsafe impl Send for Chunks {}
// SAFETY: as above.
unsafe impl Sync for Chunks {}

impl Chunks {
    /// The pieces of the variable called `name`; `None` if they are more than there is memory for.
    pub fn new(snapshot: Snapshot, name: &str) -> Result<Option<Self>, stillframe::Error> {
        let mut pieces = Vec::new();
        for chunk in snapshot.chunks(name)? {
            if pieces.try_reserve(1).is_err() {
                return Ok(None);
            }
            pieces.push((chunk.offset, chunk.bytes.as_ptr().cast_mut(), chunk.bytes.len()));
        }
        Ok(Some(Self { snapshot, pieces: pieces.into_iter() }))
    }
}

#[pymethods]
impl Chunks {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> Option<(usize, Memory)> {
        let (offset, start, bytes) = self.pieces.next()?;
        // SAFETY: the engine borrows these bytes from the snapshot, so they stay while a clone of it lives.
        Some((offset, unsafe { Memory::new(start, bytes, false, Layout::raw(bytes), self.snapshot.clone()) }))
    }
}

/// Memory of another Python object, held for as long as the engine reads it.
pub struct Borrowed {
    /// In a box because consumers of the protocol may not move a view.
    view: Box<ffi::Py_buffer>,
}

// SAFETY: the fields are read from any thread; the release, which needs the interpreter, attaches to it.
unsafe impl Send for Borrowed {}
// SAFETY: as above.
unsafe impl Sync for Borrowed {}

impl Borrowed {
    /// Borrows what `object` holds, which has to be without gaps.
    pub fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with(object, ffi::PyBUF_ANY_CONTIGUOUS)
    }

    /// Borrows what `object` holds to write it, which has to be without gaps.
    pub fn writable(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with(object, ffi::PyBUF_ANY_CONTIGUOUS | ffi::PyBUF_WRITABLE)
    }

    /// Borrows what `object` holds, with gaps; [`start`](Borrowed::start) is its first element.
    pub fn strided(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Self::with(object, ffi::PyBUF_STRIDES)
    }

    fn with(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = Box::new(ffi::Py_buffer::new());
        // SAFETY: the object is alive and the view new; a failure leaves a Python exception and nothing to release.
        let outcome = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, flags) };
        if outcome == 0 { Ok(Self { view }) } else { Err(PyErr::fetch(object.py())) }
    }

    /// Where the memory starts.
    pub fn start(&self) -> *const u8 {
        self.view.buf.cast_const().cast()
    }

    /// Lets `work` write the memory, which was borrowed to be written.
    pub fn write<R>(&mut self, work: impl FnOnce(&mut [u8]) -> R) -> R {
        if self.view.readonly != 0 || self.view.len <= 0 {
            return work(&mut []);
        }
        // SAFETY: the view keeps so many writable bytes where they are. Other threads of Python may reach them, as with any
        // array that is handed to a native function; they are bytes, of which none is relied on.
        work(unsafe { std::slice::from_raw_parts_mut(self.view.buf.cast(), self.view.len as usize) })
    }

    /// How long it is.
    pub fn bytes(&self) -> usize {
        self.view.len as usize
    }

    /// Whether it has this shape, and these distances between its elements in bytes.
    pub fn has_layout(&self, shape: &[usize], strides: &[isize]) -> bool {
        let rank = self.view.ndim as usize;
        if rank != shape.len() || rank != strides.len() {
            return false;
        }
        if rank == 0 {
            return true;
        }
        if self.view.shape.is_null() || self.view.strides.is_null() {
            return false;
        }
        // SAFETY: of a view that was asked for with its strides both lists have a number for each dimension, and live as long as it.
        let (extents, distances) = unsafe {
            (std::slice::from_raw_parts(self.view.shape, rank), std::slice::from_raw_parts(self.view.strides, rank))
        };
        let is_shape = extents.iter().zip(shape).all(|(found, expected)| *found == *expected as isize);
        // Where there are fewer than two elements, the distance between them says nothing, and numpy shows another than it has.
        let is_empty = shape.contains(&0);
        let mut distances = distances.iter().zip(strides).zip(shape);
        is_shape && distances.all(|((found, expected), extent)| is_empty || *extent < 2 || found == expected)
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // SAFETY: the view was filled by PyObject_GetBuffer and is released once, attached to the interpreter.
        Python::attach(|_| unsafe { ffi::PyBuffer_Release(&raw mut *self.view) });
    }
}

/// Why bytes were not moved.
pub enum MoveError {
    /// The source at this position shares bytes with the destination.
    Overlap {
        /// Its position in the list.
        position: usize,
    },
    /// The executor's reasons.
    Execute(ExecuteError),
}

impl From<ExecuteError> for MoveError {
    fn from(error: ExecuteError) -> Self {
        Self::Execute(error)
    }
}

/// Executes transfers, each from its own memory, into `destination`, which was borrowed to be written.
pub fn move_bytes(
    executor: &Executor,
    transfers: &[(&Transfer, Borrowed)],
    destination: &Borrowed,
) -> Result<(), MoveError> {
    let range = |memory: &Borrowed| (memory.start() as usize, memory.start() as usize + memory.bytes());
    let (begin, end) = range(destination);
    let overlaps = |memory: &Borrowed| {
        let (from, to) = range(memory);
        from.max(begin) < to.min(end)
    };
    if let Some(position) = transfers.iter().position(|(_, source)| overlaps(source)) {
        return Err(MoveError::Overlap { position });
    }
    let raw: Vec<_> = transfers.iter().map(|(transfer, source)| (*transfer, source.start(), source.bytes())).collect();
    let writable_bytes = if destination.view.readonly == 0 { destination.bytes() } else { 0 };
    // SAFETY: each view keeps so many bytes where they are until it is dropped, those of the destination writable, and
    // they do not overlap. The executor makes no references; threads of Python that write the same arrays meanwhile race
    // with it as with any native function, and no value of a byte is relied on.
    unsafe { executor.run_raw(&raw, destination.start().cast_mut(), writable_bytes)? };
    Ok(())
}
