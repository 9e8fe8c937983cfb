//! Everything that a producer knows: the store that holds its versions, and what the application works on.

use crate::error::{Error, Result};
use crate::group::peers::Peers;
use crate::part::Part;
use crate::producer::aside::End;
use crate::producer::input::Inputs;
use crate::producer::numbered::Numbered;
use crate::producer::options::RegionOptions;
use crate::producer::patience::Patience;
use crate::producer::pending::Pending;
use crate::producer::statistics::{Published, Statistics};
use crate::store::Store;
use crate::variable::Kind;
use crate::working::Working;
use crate::working::source::Source;
use crate::working::tracker::Tracker;
use std::num::NonZeroU64;
use std::sync::Arc;
use stillframe_kernel::background::Background;
use stillframe_kernel::copy::{Copier, PageCopy, Piece};
use stillframe_kernel::exit::ShutdownHook;
use stillframe_kernel::maps::Maps;
use stillframe_segment::head::Counter;
use stillframe_segment::{Extent, Order, Schema, Variable};

/// A variable of the region.
#[derive(Debug)]
pub(crate) struct VariableState {
    pub(crate) meta: Variable,
    pub(crate) shape: Vec<usize>,
    pub(crate) order: Order,
    /// What its attributes tell of a global array.
    pub(crate) part: Option<Part>,
    pub(crate) working: Working,
    /// Where the newest version of this producer has it.
    pub(crate) shown: Option<Extent>,
}

impl VariableState {
    pub(crate) fn is_tracked(&self) -> bool {
        matches!(self.working, Working::Tracked(_))
    }

    /// Whether the newest version has it where the next one will, and with the same shape.
    pub(crate) fn is_where_shown(&self) -> bool {
        let (Some(shown), Some((allocation, page_offset, bytes))) = (&self.shown, self.working.shown_at()) else {
            return false;
        };
        let place = (allocation.serial, allocation.window, page_offset, bytes as u64, self.order);
        place == (shown.allocation, shown.window, usize::from(shown.page_offset), shown.bytes, shown.order)
            && shown.shape.iter().map(|extent| *extent as usize).eq(self.shape.iter().copied())
    }

    /// Its kind, with the shape that it has by now.
    pub(crate) fn kind(&self) -> Kind {
        match self.working {
            Working::Managed(_) => Kind::Managed { shape: self.shape.clone() },
            Working::Tracked(_) => Kind::Tracked,
            Working::Loaned(_) => Kind::Loaned { shape: self.shape.clone() },
        }
    }

    /// Says that it is not of the kind that was expected.
    pub(crate) fn wrong_kind(&self, expected: &'static str) -> Error {
        Error::WrongKind { name: self.meta.name.clone(), expected, found: self.kind().name() }
    }
}

/// The variables of a region. Boxed, because those behind one that goes move up.
pub(crate) type Variables = Numbered<Box<VariableState>>;

/// A variable of the recovered version that the new program has not declared yet.
#[derive(Debug)]
pub(crate) struct Undeclared {
    pub(crate) meta: Variable,
    pub(crate) extent: Extent,
}

/// What the application works on, and what looks at it.
#[derive(Debug)]
pub(crate) struct Workspace {
    /// By their numbers.
    pub(crate) variables: Variables,
    pub(crate) undeclared: Vec<Undeclared>,
    /// Whether the variables are others than the newest schema says.
    pub(crate) schema_changed: bool,
    pub(crate) tracker: Tracker,
    pub(crate) maps: Maps,
    pub(crate) copier: Copier,
    /// Copies in the background, from the first publish that is started so.
    pub(crate) background: Option<Background>,
    /// Windows of managed variables that show a plane.
    pub(crate) demoted_windows: usize,
    /// A list reused by every publish.
    pub(crate) copies: Vec<PageCopy>,
    /// Another one.
    pub(crate) small_pieces: Vec<Piece>,
    /// Another one: of nothing while none is prepared.
    pub(crate) inputs: Inputs,
}

impl Workspace {
    /// The source of a variable.
    pub(crate) fn source_mut(&mut self, id: u32, index: usize) -> Option<&mut Source> {
        self.variables.get_mut(id)?.working.sources_mut().get_mut(index)
    }

    pub(crate) fn schema(&self) -> Schema {
        Schema { variables: self.variables.values().map(|state| state.meta.clone()).collect() }
    }

    /// Pages of all variables.
    pub(crate) fn total_pages(&self) -> u64 {
        self.variables.values().map(|state| state.working.pages() as u64).sum()
    }

    /// Bytes of memory of managed variables that exist beside the planes, at most.
    fn working_bytes(&self) -> u64 {
        let bytes = |state: &VariableState| match &state.working {
            Working::Managed(managed) => managed.pages.private_bytes(),
            _ => 0,
        };
        self.variables.values().map(|state| bytes(state)).sum()
    }
}

/// A producer.
#[derive(Debug)]
pub(crate) struct Producer {
    /// The name by which observers find the region.
    pub(crate) name: String,
    pub(crate) store: Store,
    pub(crate) workspace: Workspace,
    pub(crate) options: RegionOptions,
    /// What is done when the producer ends by itself.
    pub(crate) end: Arc<End>,
    /// Does it at the process's end.
    pub(crate) _shutdown_hook: ShutdownHook,
    /// The other ranks, if the region is of a group, or else the regions that were named.
    pub(crate) peers: Option<Peers>,
    pub(crate) recovered: Option<u64>,
    pub(crate) run: NonZeroU64,
    pub(crate) statistics: Statistics,
    pub(crate) patience: Patience,
    /// The publish that was started and is not finished.
    pub(crate) pending: Option<Pending>,
    /// What the last one did that is finished, until it is asked for.
    pub(crate) finished: Option<Published>,
}

impl Producer {
    /// Versions that observers hold, of those that stand in the way of new ones: with peers also of those that are wanted.
    pub(crate) fn held(&self) -> usize {
        self.store.held(self.peers.is_some())
    }

    /// The variables' names, for error messages.
    fn names(&self) -> Vec<String> {
        self.workspace.variables.values().map(|state| state.meta.name.clone()).collect()
    }

    pub(crate) fn unknown(&self, name: &str) -> Error {
        Error::UnknownVariable { region: self.store.name.clone(), name: name.into(), known: self.names() }
    }

    pub(crate) fn state(&self, id: u32) -> Result<&VariableState> {
        self.workspace.variables.get(id).map(Box::as_ref).ok_or_else(|| self.unknown(&format!("number {id}")))
    }

    pub(crate) fn state_mut(&mut self, id: u32) -> Result<&mut VariableState> {
        if !self.workspace.variables.has(id) {
            return Err(self.unknown(&format!("number {id}")));
        }
        match self.workspace.variables.get_mut(id) {
            Some(state) => Ok(state),
            None => unreachable!("the key was just found"),
        }
    }

    /// Fails in a forked child, whose parent the region is.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.store.leases.file().map(drop)
    }

    pub(crate) fn update_counters(&mut self) {
        let working_bytes = self.workspace.working_bytes();
        self.statistics.plane_bytes = self.store.planes().present_bytes();
        self.statistics.working_bytes = working_bytes;
        self.store.count_planes();
        self.store.head.set(Counter::WorkingBytes, working_bytes);
    }
}
