//! Fragments and schemas as bytes. What comes from elsewhere is checked as if it had been written in a text.

use std::{collections::BTreeMap, sync::Arc};

use serde::{Deserialize, Serialize};

use crate::{
    bindings::Bindings,
    dataset::{Dataset, LeafId, Object},
    encoding::{DecodeError, decode, encode},
    fill::{Fill, unfit},
    fragment::{Fragment, Part, Variable},
    index_box::IndexBox,
    schema::{Constant, Replica, Schema, StoredView, View},
    types::{ByteOrder, DEPTH_MAX, Field, Layout, Primitive, Record, Type},
};

/// First bytes of what is stored: kind and version of the format in one number.
const FRAGMENT_FORMAT: u8 = 0x33;
const SCHEMA_FORMAT: u8 = 0x43;

/// A type, each of its parts before what that consists of: nothing that reads it can exhaust a stack.
#[derive(Serialize, Deserialize)]
struct SentType(Vec<Node>);

#[derive(Serialize, Deserialize)]
enum Node {
    Primitive(Primitive),
    Array(Vec<u64>),
    /// Its name, those of its fields, and the bytes that it leaves out.
    Record(Option<String>, Vec<String>, Vec<u64>),
}

#[derive(Serialize, Deserialize)]
struct SentDataset(Vec<(String, SentType)>);

#[derive(Serialize, Deserialize)]
struct SentVariable {
    name: String,
    offset_bytes: u64,
    kind: SentType,
    layout: Layout,
}

#[derive(Serialize, Deserialize)]
struct SentPart {
    leaf: LeafId,
    primitive: Primitive,
    elements: IndexBox,
    offset_bytes: u64,
    strides_bytes: Vec<i64>,
    byte_order: ByteOrder,
}

/// A fragment of a dataset that is sent beside it.
#[derive(Serialize, Deserialize)]
struct SentFragment {
    variables: Vec<SentVariable>,
    parts: Vec<SentPart>,
    size_bytes: u64,
    fill: Option<Fill>,
}

#[derive(Serialize, Deserialize)]
struct SentView {
    name: Option<String>,
    layout: Layout,
    default: bool,
    readonly: bool,
    clipped: bool,
    fragment: SentFragment,
}

#[derive(Serialize, Deserialize)]
struct SentReplica {
    name: String,
    file: Option<String>,
    complete: bool,
    readonly: bool,
    views: Vec<(usize, u64)>,
    rest_offset_bytes: u64,
    fragment: SentFragment,
}

#[derive(Serialize, Deserialize)]
enum SentConstant {
    Number(i64),
    List(Vec<i64>),
}

#[derive(Serialize, Deserialize)]
struct SentSchema {
    dataset: SentDataset,
    constants: BTreeMap<String, SentConstant>,
    bindings: BTreeMap<String, i64>,
    types: BTreeMap<String, SentType>,
    views: Vec<SentView>,
    replicas: Vec<SentReplica>,
}

impl SentType {
    fn new(kind: &Type) -> Self {
        let mut nodes = Vec::new();
        let mut open = vec![kind];
        while let Some(kind) = open.pop() {
            match kind {
                Type::Primitive(primitive) => nodes.push(Node::Primitive(*primitive)),
                Type::Array(array) => {
                    nodes.push(Node::Array(array.extents.clone()));
                    open.push(&array.element);
                }
                Type::Record(record) => {
                    let names = record.fields().iter().map(|field| field.name.to_string()).collect();
                    let gaps = record.gaps_bytes().to_vec();
                    nodes.push(Node::Record(record.name().map(|name| name.to_string()), names, gaps));
                    open.extend(record.fields().iter().rev().map(|field| &field.kind));
                }
            }
        }
        Self(nodes)
    }

    fn kind(self) -> Result<Type, String> {
        let mut nodes = self.0.into_iter();
        let kind = read(&mut nodes, DEPTH_MAX)?;
        if nodes.next().is_some() { Err("a type goes on behind its end".into()) } else { Ok(kind) }
    }
}

fn read(nodes: &mut impl Iterator<Item = Node>, depth_left: usize) -> Result<Type, String> {
    let inner = || depth_left.checked_sub(1).ok_or_else(|| format!("types contain each other deeper than {DEPTH_MAX}"));
    Ok(match nodes.next().ok_or("a type ends early")? {
        Node::Primitive(primitive) => Type::Primitive(primitive),
        Node::Array(extents) => Type::array(extents, read(nodes, inner()?)?),
        Node::Record(name, names, gaps) => {
            let inner = inner()?;
            if !gaps.is_empty() && gaps.len() != names.len() + 1 {
                return Err(format!("a record of {} fields leaves bytes out at {} places", names.len(), gaps.len()));
            }
            let field = |name: String| Ok(Field { name: name.into(), kind: read(nodes, inner)? });
            let fields = names.into_iter().map(field).collect::<Result<Vec<_>, String>>()?;
            Type::Record(Arc::new(Record::new(name.map(Arc::from), fields).with_gaps(gaps)))
        }
    })
}

impl SentDataset {
    fn new(dataset: &Dataset) -> Self {
        let objects = dataset.objects().iter();
        Self(objects.map(|object| (object.name.to_string(), SentType::new(&object.kind))).collect())
    }

    fn dataset(self) -> Result<Arc<Dataset>, String> {
        let objects = self.0.into_iter().map(|(name, kind)| Ok(Object { name: name.into(), kind: kind.kind()? }));
        let dataset = Dataset::new(objects.collect::<Result<_, String>>()?);
        dataset.map(Arc::new).map_err(|error| error.to_string())
    }
}

/// A type that an object can have.
fn checked(name: &Arc<str>, kind: Type) -> Result<Type, String> {
    let object = Object { name: name.clone(), kind: kind.clone() };
    Dataset::new(vec![object]).map(|_| kind).map_err(|error| error.to_string())
}

impl SentFragment {
    fn new(fragment: &Fragment) -> Self {
        let variables = fragment.variables().iter().map(|variable| SentVariable {
            name: variable.name.to_string(),
            offset_bytes: variable.offset_bytes,
            kind: SentType::new(&variable.kind),
            layout: variable.layout,
        });
        let parts = fragment.parts().iter().map(|part| SentPart {
            leaf: part.leaf,
            primitive: part.primitive,
            elements: part.elements.clone(),
            offset_bytes: part.offset_bytes,
            strides_bytes: part.strides_bytes.to_vec(),
            byte_order: part.byte_order,
        });
        let (size_bytes, fill) = (fragment.size_bytes(), fragment.fill());
        Self { variables: variables.collect(), parts: parts.collect(), size_bytes, fill }
    }

    fn fragment(self, dataset: &Arc<Dataset>) -> Result<Arc<Fragment>, String> {
        let size_bytes = self.size_bytes;
        let variables = self.variables.into_iter().map(|sent| {
            let (name, layout) = (Arc::from(sent.name), sent.layout);
            let kind = checked(&name, sent.kind.kind()?)?;
            let variable = Variable { name, offset_bytes: sent.offset_bytes, kind, layout };
            let bytes = layout.size_bytes(&variable.kind);
            match bytes.and_then(|bytes| bytes.checked_add(sent.offset_bytes)) {
                Some(end) if end <= size_bytes => Ok(variable),
                _ => Err(format!("variable `{}` leaves its fragment", variable.name)),
            }
        });
        let variables = variables.collect::<Result<Vec<_>, String>>()?;
        let parts = self.parts.into_iter().map(|sent| Part {
            leaf: sent.leaf,
            primitive: sent.primitive,
            elements: sent.elements,
            offset_bytes: sent.offset_bytes,
            strides_bytes: sent.strides_bytes.into_iter().collect(),
            byte_order: sent.byte_order,
        });
        // The rest of a replica, which has no holes, may be of other types.
        if self.fill.is_some_and(|fill| variables.iter().all(|variable| unfit(fill, &variable.kind).is_some())) {
            return Err("no variable of a fragment has the value that it has for holes".into());
        }
        let fragment = Fragment::new(dataset.clone(), variables, parts.collect(), size_bytes);
        fragment.map(|fragment| Arc::new(fragment.with_fill(self.fill))).map_err(|error| error.to_string())
    }
}

impl Fragment {
    /// Bytes to store or to send.
    pub fn encode(&self) -> Vec<u8> {
        encode(&(SentDataset::new(self.dataset()), SentFragment::new(self)), FRAGMENT_FORMAT)
    }

    /// The fragment that [`encode`](Self::encode) was called on; its dataset is equal to that of the other.
    ///
    /// # Errors
    ///
    /// Bytes of any other origin are refused where they describe no fragment.
    pub fn decode(bytes: &[u8]) -> Result<Arc<Self>, DecodeError> {
        let what = "fragment";
        let (dataset, sent): (SentDataset, SentFragment) = decode(bytes, FRAGMENT_FORMAT, what)?;
        let fragment = dataset.dataset().and_then(|dataset| sent.fragment(&dataset));
        fragment.map_err(|why| DecodeError::Damaged { what, why })
    }
}

impl Schema {
    /// Bytes to store or to send.
    pub fn encode(&self) -> Vec<u8> {
        let views = self.views.iter().map(|view| SentView {
            name: view.name.as_deref().map(str::to_owned),
            layout: view.layout,
            default: view.default,
            readonly: view.readonly,
            clipped: view.clipped,
            fragment: SentFragment::new(&view.fragment),
        });
        let replicas = self.replicas.iter().map(|replica| SentReplica {
            name: replica.name.to_string(),
            file: replica.file.as_deref().map(str::to_owned),
            complete: replica.complete,
            readonly: replica.readonly,
            views: replica.views.iter().map(|stored| (stored.view, stored.offset_bytes)).collect(),
            rest_offset_bytes: replica.rest_offset_bytes,
            fragment: SentFragment::new(&replica.fragment),
        });
        let sent = SentSchema {
            dataset: SentDataset::new(&self.dataset),
            constants: self
                .constants
                .iter()
                .map(|(name, value)| (name.to_string(), SentConstant::new(value)))
                .collect(),
            bindings: self.bindings.iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            types: self.types.iter().map(|(name, kind)| (name.to_string(), SentType::new(kind))).collect(),
            views: views.collect(),
            replicas: replicas.collect(),
        };
        encode(&sent, SCHEMA_FORMAT)
    }

    /// The schema that [`encode`](Self::encode) was called on.
    ///
    /// # Errors
    ///
    /// Bytes of any other origin are refused where they describe no schema.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let what = "schema";
        let sent: SentSchema = decode(bytes, SCHEMA_FORMAT, what)?;
        sent.schema().map_err(|why| DecodeError::Damaged { what, why })
    }
}

impl SentConstant {
    fn new(constant: &Constant) -> Self {
        match constant {
            Constant::Number(number) => Self::Number(*number),
            Constant::List(numbers) => Self::List(numbers.to_vec()),
        }
    }

    fn constant(self, name: &str) -> Result<Constant, String> {
        match self {
            Self::Number(number) => Ok(Constant::Number(number)),
            Self::List(numbers) if numbers.is_empty() => Err(format!("`{name}` is a list without numbers")),
            Self::List(numbers) => Ok(Constant::List(numbers.into())),
        }
    }
}

impl SentSchema {
    fn schema(self) -> Result<Schema, String> {
        let dataset = self.dataset.dataset()?;
        let views = self.views.into_iter().map(|sent| {
            let SentView { name, layout, default, readonly, clipped, fragment } = sent;
            let fragment = fragment.fragment(&dataset)?;
            Ok(View { name: name.map(Arc::from), layout, default, readonly, clipped, fragment })
        });
        let views = views.collect::<Result<Vec<View>, String>>()?;
        let replicas = self.replicas.into_iter().map(|sent| {
            let stored = sent.views.into_iter().map(|(view, offset_bytes)| match view < views.len() {
                true => Ok(StoredView { view, offset_bytes }),
                false => Err(format!("replica `{}` holds a view that there is not", sent.name)),
            });
            let fragment = sent.fragment.fragment(&dataset)?;
            if sent.rest_offset_bytes > fragment.size_bytes() {
                return Err(format!("the rest of replica `{}` begins behind its end", sent.name));
            }
            Ok(Replica {
                views: stored.collect::<Result<_, String>>()?,
                name: sent.name.into(),
                file: sent.file.map(Arc::from),
                complete: sent.complete,
                readonly: sent.readonly,
                rest_offset_bytes: sent.rest_offset_bytes,
                fragment,
            })
        });
        let replicas = replicas.collect::<Result<_, String>>()?;
        let types = self.types.into_iter().map(|(name, kind)| Ok((Arc::from(name), kind.kind()?)));
        let constants = self.constants.into_iter().map(|(name, value)| {
            let constant = value.constant(&name)?;
            Ok((Arc::from(name), constant))
        });
        Ok(Schema {
            constants: constants.collect::<Result<_, String>>()?,
            bindings: Bindings::from_iter(self.bindings),
            types: types.collect::<Result<_, String>>()?,
            dataset,
            views,
            replicas,
        })
    }
}
