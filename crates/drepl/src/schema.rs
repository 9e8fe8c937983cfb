//! What a text describes once its names have numbers: objects, views of them, and replicas that hold views.

use std::{collections::HashMap, sync::Arc};

use crate::{
    bindings::Bindings,
    dataset::Dataset,
    fragment::Fragment,
    types::{Layout, Type},
};

/// What a `const` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Constant {
    /// A number.
    Number(i64),
    /// Numbers, as indices are chosen by.
    List(Arc<[i64]>),
}

/// A bound program: everything that a text describes.
#[derive(Debug, Clone)]
pub struct Schema {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) constants: HashMap<Arc<str>, Constant>,
    pub(crate) bindings: Bindings,
    pub(crate) types: HashMap<Arc<str>, Type>,
    pub(crate) views: Vec<View>,
    pub(crate) replicas: Vec<Replica>,
}

/// A subset of the objects, laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// Views in braces alone, `{ var … }`, have none.
    pub name: Option<Arc<str>>,
    /// What the layouts of its variables have in common.
    pub layout: Layout,
    /// The view from which others are read that are stored nowhere.
    pub default: bool,
    /// It receives what others write, and is not written to by its owner.
    pub readonly: bool,
    /// Elements beyond the rim of an object are holes, not errors.
    pub clipped: bool,
    /// What lies where in a buffer of it.
    pub fragment: Arc<Fragment>,
}

/// Storage that holds views back to back: a buffer or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replica {
    /// No other replica of the schema has it.
    pub name: Arc<str>,
    /// The file it is kept in, as the text names it.
    pub file: Option<Arc<str>>,
    /// It holds whatever its views leave out, too, behind them.
    pub complete: bool,
    /// None of its views is written to by its owner.
    pub readonly: bool,
    /// Which views it holds, in this order.
    pub views: Vec<StoredView>,
    /// Where the rest of the dataset begins; where there is none, the end of the replica.
    pub rest_offset_bytes: u64,
    /// All of it. Its variables are named `view.variable`, and those of the rest `rest.object.field`. One element may
    /// lie in it more than once.
    pub fragment: Arc<Fragment>,
}

/// A view's place in a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredView {
    /// Position of the view among those of the schema.
    pub view: usize,
    /// Where it begins.
    pub offset_bytes: u64,
}

impl Schema {
    /// The objects.
    pub fn dataset(&self) -> &Arc<Dataset> {
        &self.dataset
    }

    /// All views, as they were declared, those without a name included.
    pub fn views(&self) -> &[View] {
        &self.views
    }

    /// The view of a name.
    pub fn view(&self, name: &str) -> Option<&View> {
        self.views.iter().find(|view| view.name.as_deref() == Some(name))
    }

    /// The view that says `default`.
    pub fn default_view(&self) -> Option<&View> {
        self.views.iter().find(|view| view.default)
    }

    /// All replicas, as they were declared.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// The replica of a name.
    pub fn replica(&self, name: &str) -> Option<&Replica> {
        self.replicas.iter().find(|replica| &*replica.name == name)
    }

    /// The value of a `const` that is a number.
    pub fn constant(&self, name: &str) -> Option<i64> {
        match self.constants.get(name)? {
            Constant::Number(number) => Some(*number),
            Constant::List(_) => None,
        }
    }

    /// The numbers of a `const` that is a list.
    pub fn list(&self, name: &str) -> Option<&[i64]> {
        match self.constants.get(name)? {
            Constant::List(numbers) => Some(numbers),
            Constant::Number(_) => None,
        }
    }

    /// The type of a name that the text declares.
    pub fn type_named(&self, name: &str) -> Option<&Type> {
        self.types.get(name)
    }
}
