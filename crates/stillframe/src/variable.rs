//! Variables: what can be said of them before there is a version.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use stillframe_segment::{DType, Order, Scalar};

/// Named single values of a version or a variable.
pub type Attributes = BTreeMap<String, Scalar>;

/// A variable of a region, whatever its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct VariableId(pub(crate) u32);

impl VariableId {
    /// The variable's number, which no other variable of its region has or had.
    pub fn number(self) -> u32 {
        self.0
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T> {
            pub(crate) id: u32,
            pub(crate) elements: PhantomData<fn() -> T>,
        }

        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T> Copy for $name<T> {}

        impl<T> $name<T> {
            /// The variable without its type.
            pub fn id(&self) -> VariableId {
                VariableId(self.id)
            }
        }
    };
}

handle!(
    /// A managed variable: memory of the region, reached with [`Region::slice_mut`](crate::Region::slice_mut).
    Array
);

handle!(
    /// A tracked variable: the application's own memory, handed over at each publish.
    Tracked
);

handle!(
    /// A loaned variable: written whole into free frames, see [`Region::loan`](crate::Region::loan).
    Loaned
);

/// Who owns the memory of a variable, and its shape where the region must know it beforehand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Memory of the region.
    Managed {
        /// The shape.
        shape: Vec<usize>,
    },
    /// Memory of the application; address and shape are given at each publish.
    Tracked,
    /// Frames of the planes, lent anew for each version.
    Loaned {
        /// The shape.
        shape: Vec<usize>,
    },
}

impl Kind {
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Kind::Managed { .. } => "managed",
            Kind::Tracked => "tracked",
            Kind::Loaned { .. } => "loaned",
        }
    }

    pub(crate) fn shape(&self) -> Option<&[usize]> {
        match self {
            Kind::Managed { shape } | Kind::Loaned { shape } => Some(shape),
            Kind::Tracked => None,
        }
    }

    pub(crate) fn is_tracked(&self) -> bool {
        matches!(self, Kind::Tracked)
    }
}

/// A variable to be added, with all that can be said of it.
#[derive(Debug, Clone)]
pub struct Declaration {
    /// Name, unique in the region.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Order of the elements; for tracked variables the one given at each publish counts.
    pub order: Order,
    /// Unit of measurement, empty if there is none.
    pub units: String,
    /// Anything else.
    pub attributes: Attributes,
    /// Who owns the memory.
    pub kind: Kind,
    /// Whether a managed variable is [pinned](crate::Region::pin) from the beginning.
    pub pinned: bool,
}

impl Declaration {
    /// A row-major variable without units or attributes.
    pub fn new(name: &str, dtype: DType, kind: Kind) -> Declaration {
        let (units, attributes) = (String::new(), Attributes::new());
        Declaration { name: name.into(), dtype, order: Order::C, units, attributes, kind, pinned: false }
    }

    /// Pins the variable from the beginning, as [`Region::pin`](crate::Region::pin) does later.
    pub fn pinned(mut self) -> Declaration {
        self.pinned = true;
        self
    }
}
