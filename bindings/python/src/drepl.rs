//! The layout language: what texts describe, plans, and moving bytes between buffers of Python.
//!
//! Everything crosses as plain tuples, which `stillframe.drepl` gives names to. A type crosses as the name numpy has for
//! it (`">f8"`), a record as `([(name, type, offset), ...], bytes)`, an array as `(type, extents, strides)`.

use crate::errors;
use crate::memory::{Borrowed, MoveError, move_bytes};
use drepl::executor::{ExecuteError, Executor};
use drepl::picture::Picture;
use drepl::transfer::{self, Transfer};
use drepl::types::{ByteOrder, Layout, Primitive, Type};
use drepl::{
    Bindings, Diagnostics, Fragment, IndexBox, Participant, Program, Schema, Source, Updates, Wanted, Written,
};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict};
use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

/// A mistake that no text has a place for.
fn refuse(py: Python<'_>, why: impl ToString) -> PyErr {
    errors::new(py, "DreplError", why.to_string())
}

/// All mistakes of a text.
fn raise(py: Python<'_>, diagnostics: &Diagnostics) -> PyErr {
    let rows: Vec<_> = diagnostics
        .iter()
        .map(|diagnostic| {
            let place = &diagnostic.place;
            let labels: Vec<_> = diagnostic
                .labels
                .iter()
                .map(|label| (&*label.place.file, label.place.line, label.place.column, &*label.text))
                .collect();
            let (file, line, column) = (&*place.file, place.line, place.column);
            let (code, message, text) = (diagnostic.code.name(), &*diagnostic.message, diagnostic.to_string());
            let end = (place.end_line, place.end_column);
            (code, message, file, line, column, end, labels, diagnostic.help.as_deref(), text)
        })
        .collect();
    errors::with(py, "DreplError", (diagnostics.to_string(), rows))
}

/// Describes what a text describes once its names have numbers.
#[pyfunction]
pub fn drepl_parse(py: Python<'_>, text: &str, bindings: HashMap<String, i64>) -> PyResult<DreplSchema> {
    let bindings = bindings.into_iter().collect();
    let schema = py.detach(|| Program::parse(text)?.bind(&bindings));
    schema.map(DreplSchema).map_err(|diagnostics| raise(py, &diagnostics))
}

/// As `drepl_parse`, from a file, which may include others.
#[pyfunction]
pub fn drepl_load(py: Python<'_>, path: PathBuf, bindings: HashMap<String, i64>) -> PyResult<DreplSchema> {
    let bindings = bindings.into_iter().collect();
    let schema = py.detach(|| Program::parse_file(path)?.bind(&bindings));
    schema.map(DreplSchema).map_err(|diagnostics| raise(py, &diagnostics))
}

/// Everything that a text describes.
#[pyclass(frozen, module = "stillframe._native")]
pub struct DreplSchema(pub(crate) Schema);

/// Name, fragment, and whether it is default, readonly, clipped.
type ViewRow = (Option<String>, DreplFragment, bool, bool, bool);
/// Name, file, fragment, whether it is complete and readonly, and where its views begin.
type ReplicaRow = (String, Option<String>, DreplFragment, bool, bool, Vec<(Option<String>, u64)>);

#[pymethods]
impl DreplSchema {
    /// Name, type and extents of each object.
    fn objects(&self) -> Vec<(String, String, Vec<u64>)> {
        let extents = |kind: &Type| match kind {
            Type::Array(array) => array.extents.clone(),
            _ => Vec::new(),
        };
        let objects = self.0.dataset().objects().iter();
        objects.map(|object| (object.name.to_string(), object.kind.to_string(), extents(&object.kind))).collect()
    }

    fn views(&self) -> Vec<ViewRow> {
        let views = self.0.views().iter();
        views
            .map(|view| {
                let name = view.name.as_deref().map(str::to_owned);
                (name, DreplFragment(view.fragment.clone()), view.default, view.readonly, view.clipped)
            })
            .collect()
    }

    fn replicas(&self) -> Vec<ReplicaRow> {
        let name_of = |view: usize| self.0.views()[view].name.as_deref().map(str::to_owned);
        let replicas = self.0.replicas().iter();
        replicas
            .map(|replica| {
                let views = replica.views.iter().map(|stored| (name_of(stored.view), stored.offset_bytes)).collect();
                let (name, file) = (replica.name.to_string(), replica.file.as_deref().map(str::to_owned));
                let fragment = DreplFragment(replica.fragment.clone());
                (name, file, fragment, replica.complete, replica.readonly, views)
            })
            .collect()
    }

    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| Schema::decode(bytes)).map(Self).map_err(|error| refuse(py, error))
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.encode()))
    }

    fn fragment(&self, py: Python<'_>, text: &str, bindings: HashMap<String, i64>) -> PyResult<DreplFragment> {
        let bindings: Bindings = bindings.into_iter().collect();
        let fragment = py.detach(|| self.0.fragment(text, &bindings));
        fragment.map(DreplFragment).map_err(|diagnostics| raise(py, &diagnostics))
    }
}

/// What lies where in one buffer.
#[pyclass(frozen, eq, module = "stillframe._native")]
#[derive(PartialEq)]
pub struct DreplFragment(pub(crate) Arc<Fragment>);

/// A source of a plan: fragment, version, cost, whether it can be read.
type SourceRow = (Py<DreplFragment>, u64, u64, bool);

fn source((fragment, version, cost, readable): &SourceRow) -> Source {
    Source { fragment: fragment.get().0.clone(), version: *version, cost: *cost, readable: *readable }
}

#[pymethods]
impl DreplFragment {
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| Fragment::decode(bytes)).map(Self).map_err(|error| refuse(py, error))
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.encode()))
    }

    /// The same elements in an array of other strides.
    fn with_strides(&self, py: Python<'_>, strides_bytes: Vec<i64>) -> PyResult<Self> {
        let made = py.detach(|| self.0.with_strides(&strides_bytes));
        made.map(|made| Self(Arc::new(made))).map_err(|error| refuse(py, error))
    }

    #[getter]
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }

    /// Whether it has holes, and its text says what they have.
    #[getter]
    fn fills(&self) -> bool {
        self.0.fills()
    }

    /// Makes memory of the fragment begin.
    fn clear(&self, buffer: &Bound<'_, PyAny>) -> PyResult<()> {
        hold(buffer, Role::Destination)?.write(|bytes| self.0.clear(bytes));
        Ok(())
    }

    /// Name, type and offset of each variable.
    fn variables<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, Bound<'py, PyAny>, u64)>> {
        let variables = self.0.variables().iter();
        variables
            .map(|variable| {
                let kind = type_to_python(py, &variable.layout, &variable.kind)?;
                Ok((variable.name.to_string(), kind, variable.offset_bytes))
            })
            .collect()
    }

    fn plan(&self, py: Python<'_>, sources: Vec<SourceRow>, versions: (u64, u64)) -> PyResult<DreplPlan> {
        let sources: Vec<Source> = sources.iter().map(source).collect();
        let wanted = Wanted { fragment: &self.0, versions: versions.0..=versions.1 };
        let plan = py.detach(|| drepl::plan(&wanted, &sources));
        plan.map(DreplPlan).map_err(|error| refuse(py, error))
    }
}

/// A type with its layout.
fn type_to_python<'py>(py: Python<'py>, layout: &Layout, kind: &Type) -> PyResult<Bound<'py, PyAny>> {
    let large = || refuse(py, "the layout has offsets beyond 2^63 - 1 bytes");
    let bytes = |kind| layout.size_bytes(kind).ok_or_else(large);
    match kind {
        Type::Primitive(primitive) => Ok(numpy_name(*primitive, layout.byte_order).into_pyobject(py)?.into_any()),
        Type::Array(array) => {
            let strides = layout.strides_bytes(array).ok_or_else(large)?;
            Ok((type_to_python(py, layout, &array.element)?, &array.extents, strides).into_pyobject(py)?.into_any())
        }
        Type::Record(record) => {
            let offsets = layout.field_offsets_bytes(record).ok_or_else(large)?;
            let fields = record
                .fields()
                .iter()
                .zip(offsets)
                .map(|(field, offset)| Ok((&*field.name, type_to_python(py, layout, &field.kind)?, offset)))
                .collect::<PyResult<Vec<_>>>()?;
            Ok((fields, bytes(kind)?).into_pyobject(py)?.into_any())
        }
    }
}

/// What numpy calls a primitive.
fn numpy_name(primitive: Primitive, order: ByteOrder) -> String {
    let kind = match primitive {
        Primitive::Bool => return "?".into(),
        Primitive::Text(bytes) => return format!("S{bytes}"),
        Primitive::Int8 | Primitive::Int16 | Primitive::Int32 | Primitive::Int64 => 'i',
        // numpy has no bfloat16, and where another package has one, it has no byte order: arrays show the bits of what is called B.
        Primitive::Bfloat16 => 'B',
        Primitive::UInt8 | Primitive::UInt16 | Primitive::UInt32 | Primitive::UInt64 => 'u',
        Primitive::Float16 | Primitive::Float32 | Primitive::Float64 => 'f',
        Primitive::Complex64 | Primitive::Complex128 => 'c',
    };
    let order = if matches!(order, ByteOrder::LittleEndian) { '<' } else { '>' };
    format!("{order}{kind}{}", primitive.size_bytes())
}

/// Sources that many plans are made against.
#[pyclass(frozen, module = "stillframe._native")]
pub struct DreplIndex(RwLock<drepl::Index>);

impl DreplIndex {
    /// Lets `work` change the index. The lock is neither waited for nor held together with the interpreter.
    fn change<R: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut drepl::Index) -> R + Send) -> R {
        py.detach(|| work(&mut self.0.write().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl DreplIndex {
    #[new]
    fn new(py: Python<'_>, sources: Vec<SourceRow>) -> PyResult<Self> {
        let sources: Vec<Source> = sources.iter().map(source).collect();
        let index = py.detach(|| drepl::Index::new(sources));
        index.map(|index| Self(RwLock::new(index))).map_err(|error| refuse(py, error))
    }

    fn insert(&self, py: Python<'_>, row: SourceRow) -> PyResult<usize> {
        let source = source(&row);
        self.change(py, |index| index.insert(source)).map_err(|error| refuse(py, error))
    }

    /// Whether there was a source.
    fn remove(&self, py: Python<'_>, position: usize) -> bool {
        self.change(py, |index| index.remove(position).is_some())
    }

    /// Whether there is a source.
    fn update(&self, py: Python<'_>, position: usize, version: u64, cost: u64, readable: bool) -> bool {
        self.change(py, |index| index.update(position, version, cost, readable))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        py.detach(|| self.0.read().unwrap_or_else(PoisonError::into_inner).len())
    }

    fn plan(&self, py: Python<'_>, fragment: &Bound<'_, DreplFragment>, versions: (u64, u64)) -> PyResult<DreplPlan> {
        let wanted = Wanted { fragment: &fragment.get().0, versions: versions.0..=versions.1 };
        let plan = py.detach(|| self.0.read().unwrap_or_else(PoisonError::into_inner).plan(&wanted));
        plan.map(DreplPlan).map_err(|error| refuse(py, error))
    }
}

/// Fragments that are kept equal where they hold the same elements.
#[pyclass(frozen, module = "stillframe._native")]
pub struct DreplUpdates(Updates);

#[pymethods]
impl DreplUpdates {
    /// Of each: the fragment, whether it is stored, and whether it is only read.
    #[new]
    fn new(py: Python<'_>, participants: Vec<(Py<DreplFragment>, bool, bool)>) -> PyResult<Self> {
        let participants = participants.iter().map(|(fragment, materialised, readonly)| Participant {
            fragment: fragment.get().0.clone(),
            materialised: *materialised,
            readonly: *readonly,
        });
        let participants: Vec<Participant> = participants.collect();
        py.detach(|| Updates::new(participants)).map(Self).map_err(|error| refuse(py, error))
    }

    fn write(&self, py: Python<'_>, writer: usize, bytes: Option<(u64, u64)>) -> PyResult<Vec<(usize, DreplPlan)>> {
        let written = bytes.map_or(Written::All, |(begin, end)| Written::Bytes(begin..end));
        let updates = py.detach(|| self.0.write(writer, &written)).map_err(|error| refuse(py, error))?;
        Ok(updates.into_iter().map(|update| (update.destination, DreplPlan(update.plan))).collect())
    }
}

/// Start, end and step along each axis.
type BoxRow = Vec<(u64, u64, u64)>;

fn box_row(elements: &IndexBox) -> BoxRow {
    elements.axes().iter().map(|axis| (axis.start(), axis.end(), axis.step())).collect()
}

/// Source, version, name of the leaf, elements.
type PieceRow = (usize, u64, String, BoxRow);

/// Which source gives which part of a wanted fragment.
#[pyclass(frozen, eq, module = "stillframe._native")]
#[derive(PartialEq)]
pub struct DreplPlan(drepl::Plan);

#[pymethods]
impl DreplPlan {
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| drepl::Plan::decode(bytes)).map(Self).map_err(|error| refuse(py, error))
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.encode()))
    }

    fn pieces(&self) -> Vec<PieceRow> {
        let row = |piece: &drepl::Piece| {
            (piece.source, piece.version, self.0.name(piece.leaf).to_owned(), box_row(&piece.elements))
        };
        self.0.pieces.iter().map(row).collect()
    }

    /// Name of the leaf, elements, and all of it as text.
    fn missing(&self) -> Vec<(String, Vec<BoxRow>, String)> {
        let row = |missing: &drepl::Missing| {
            (missing.name.clone(), missing.elements.boxes().iter().map(box_row).collect(), missing.to_string())
        };
        self.0.missing.iter().map(row).collect()
    }

    #[getter]
    fn moved_bytes(&self) -> u64 {
        self.0.moved_bytes()
    }

    fn __str__(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.to_string())
    }

    /// A drawing: as SVG, or in characters.
    fn picture(&self, py: Python<'_>, title: String, names: Vec<String>, svg: bool) -> String {
        py.detach(|| {
            let picture = Picture::new(&self.0).title(title).names(names);
            if svg { picture.svg() } else { picture.text() }
        })
    }

    /// Moves what the plan says. `buffers` has those of the sources by their positions.
    fn execute(
        &self,
        py: Python<'_>,
        buffers: &Bound<'_, PyAny>,
        destination: &Bound<'_, PyAny>,
        threads: Threads,
    ) -> PyResult<()> {
        let mut work = Vec::with_capacity(self.0.transfers.len());
        for (source, transfer) in &self.0.transfers {
            let buffer = buffers.get_item(source).map_err(|_| {
                let why = "give those of all sources, in the order in which they were planned with";
                refuse(py, format!("the plan takes elements from source {source}, which has no buffer: {why}"))
            })?;
            work.push((transfer, hold(&buffer, Role::Source(*source))?));
        }
        execute(py, &work, destination, threads, |at| self.0.transfers[at].0)
    }

    fn split(&self) -> Vec<DreplShare> {
        self.0.clone().split().into_iter().map(DreplShare).collect()
    }
}

/// What one source has to do for a plan.
#[pyclass(frozen, eq, module = "stillframe._native")]
#[derive(PartialEq)]
pub struct DreplShare(drepl::Share);

#[pymethods]
impl DreplShare {
    #[staticmethod]
    fn decode(py: Python<'_>, bytes: &[u8]) -> PyResult<Self> {
        py.detach(|| drepl::Share::decode(bytes)).map(Self).map_err(|error| refuse(py, error))
    }

    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &py.detach(|| self.0.encode()))
    }

    #[getter]
    fn source(&self) -> usize {
        self.0.source
    }

    #[getter]
    fn version(&self) -> u64 {
        self.0.version
    }

    #[getter]
    fn moved_bytes(&self) -> u64 {
        self.0.transfer.moved_bytes()
    }

    fn pack<'py>(
        &self,
        py: Python<'py>,
        buffer: Bound<'py, PyAny>,
        threads: Threads,
    ) -> PyResult<Bound<'py, PyByteArray>> {
        let transfer = py.detach(|| self.0.transfer.pack());
        let compact = PyByteArray::new_with(py, transfer.destination_bytes() as usize, |_| Ok(()))?;
        let work = [(&transfer, hold(&buffer, Role::Source(self.0.source))?)];
        execute(py, &work, compact.as_any(), threads, |_| self.0.source)?;
        Ok(compact)
    }

    fn unpack(
        &self,
        py: Python<'_>,
        compact: Bound<'_, PyAny>,
        destination: &Bound<'_, PyAny>,
        threads: Threads,
    ) -> PyResult<()> {
        let transfer = py.detach(|| self.0.transfer.unpack());
        let work = [(&transfer, hold(&compact, Role::Packed)?)];
        execute(py, &work, destination, threads, |_| self.0.source)
    }
}

/// Bytes for which the interpreter is given away while they move. Fewer take some microseconds, and giving it away a part
/// of one.
const DETACHED_BYTES: u64 = 128 << 10;

/// Most threads of a move; 0 is one for each processor, which `None` asks for.
struct Threads(usize);

impl<'py> FromPyObject<'_, 'py> for Threads {
    type Error = PyErr;

    fn extract(threads: pyo3::Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if threads.is_none() {
            return Ok(Self(0));
        }
        let py = threads.py();
        match threads.extract() {
            Ok(number @ 1..=65536) => Ok(Self(number)),
            Err(_) if !threads.hasattr(intern!(py, "__index__"))? => {
                Err(refuse(py, format!("threads: {} is no integer", threads.repr()?)))
            }
            _ => Err(refuse(py, format!("threads: {} is not between 1 and 65536", threads.repr()?))),
        }
    }
}

/// Moves bytes from buffers into another. `source_at` is what errors call the buffers.
fn execute(
    py: Python<'_>,
    work: &[(&Transfer, Borrowed)],
    destination: &Bound<'_, PyAny>,
    threads: Threads,
    source_at: impl Fn(usize) -> usize,
) -> PyResult<()> {
    let target = hold(destination, Role::Destination)?;
    let executor = Executor::new(threads.0);
    let moved_bytes = transfer::moved_bytes(work.iter().map(|(transfer, _)| *transfer));
    let outcome = match moved_bytes < DETACHED_BYTES {
        true => move_bytes(&executor, work, &target),
        false => py.detach(|| move_bytes(&executor, work, &target)),
    };
    outcome.map_err(|error| match error {
        MoveError::Overlap { position } => {
            let source = source_at(position);
            refuse(py, format!("source {source} and the destination share memory: move into a copy of one of them"))
        }
        MoveError::Execute(ExecuteError::SourceLength { position, bytes, needed_bytes }) => {
            let position = source_at(position);
            refuse(py, ExecuteError::SourceLength { position, bytes, needed_bytes })
        }
        MoveError::Execute(error) => refuse(py, error),
    })
}

/// What a buffer is for.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Source(usize),
    Packed,
    Destination,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(position) => write!(f, "source {position}"),
            Self::Packed => f.write_str("what was packed"),
            Self::Destination => f.write_str("the destination"),
        }
    }
}

/// Borrows a buffer, or that of `Arrays`, which are a dictionary. What is no buffer in one block, and holds nothing but numbers, goes through `stillframe.drepl.block`,
/// which makes one of it without a copy, or says why that cannot be.
fn hold(buffer: &Bound<'_, PyAny>, role: Role) -> PyResult<Borrowed> {
    let borrow = |buffer: &Bound<'_, PyAny>| match role {
        Role::Destination => Borrowed::writable(buffer),
        _ => Borrowed::new(buffer),
    };
    let py = buffer.py();
    let inner = match buffer.is_instance_of::<PyDict>() {
        true => buffer.getattr_opt(intern!(py, "buffer"))?,
        false => None,
    };
    let buffer = inner.as_ref().unwrap_or(buffer);
    if is_plain(buffer)
        && let Ok(borrowed) = borrow(buffer)
    {
        return Ok(borrowed);
    }
    let block = py.import("stillframe.drepl")?.getattr("block")?.call1((role.to_string(), buffer))?;
    let what = if role == Role::Destination { "written" } else { "read" };
    borrow(&block).map_err(|error| refuse(py, format!("{role} cannot be {what}: {}", error.value(py))))
}

/// Whether it is an array of numpy that holds no references to objects. For all else that takes a longer look.
fn is_plain(buffer: &Bound<'_, PyAny>) -> bool {
    let py = buffer.py();
    let Ok(Some(dtype)) = buffer.getattr_opt(intern!(py, "dtype")) else { return false };
    dtype.getattr(intern!(py, "hasobject")).is_ok_and(|has| has.extract().is_ok_and(|has: bool| !has))
}
