//! A provider of libfabric as a way for bulk.

use crate::error::{Error, Result};
use crate::fi::{Endpoint, Library};
use crate::message::{Address, CHUNK_BYTES, HEAD_BYTES, Pass};
use crate::receiver::FabricReceiver;
use crate::sender::FabricSender;
use crate::wait::Way;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stillframe_link::{Bulk, BulkReceiver, BulkSender, End, Fabric, Place};

/// Bytes of a provider's name at most.
const NAME_BYTES_MAX: usize = 200;

/// Lets a sender write long messages where they belong (`ofi_rxm`), and not the receiver fetch them: where a connection of TCP ends while
/// something is fetched, libfabric 1.17 uses what it has freed, and the process crashes.
const WRITES: (&str, &str) = ("FI_OFI_RXM_USE_RNDV_WRITE", "1");

/// A provider of libfabric.
pub struct Libfabric {
    library: &'static Library,
    provider: String,
    name: Arc<str>,
}

impl fmt::Debug for Libfabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Libfabric").field("provider", &self.provider).finish_non_exhaustive()
    }
}

impl Libfabric {
    /// Opens the library, and looks whether the provider is there: `tcp`, `shm`, or what the site has, such as `verbs;ofi_rxm` or `cxi`.
    ///
    /// # Errors
    /// [`Error::NoLibrary`] and its like where the library cannot be used; [`Error::Name`]; [`Error::NoProvider`];
    /// [`Error::Environment`].
    pub fn open(provider: &str) -> Result<Libfabric> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_;.".contains(&byte);
        if provider.is_empty() || provider.len() > NAME_BYTES_MAX || !provider.bytes().all(is_plain) {
            return Err(Error::Name { name: provider.chars().take(NAME_BYTES_MAX).collect() });
        }
        let library = Library::open()?;
        library.find(provider)?;
        let (variable, value) = WRITES;
        if library.is_over_tcp(provider)? && std::env::var_os(variable).is_none_or(|is| is != value) {
            return Err(Error::Environment { provider: provider.into(), variable, value });
        }
        Ok(Libfabric { library, provider: provider.into(), name: format!("fabric:{provider}").into() })
    }

    /// The providers that this machine has.
    ///
    /// # Errors
    /// As [`open`](Libfabric::open).
    pub fn providers() -> Result<Vec<String>> {
        Library::open()?.providers()
    }

    pub(crate) fn ends(&self, place: &Place) -> Result<FabricEnd> {
        let open = || Endpoint::open(self.library, &self.provider, place.local, HEAD_BYTES + CHUNK_BYTES);
        let (receives, sends) = (open()?, open()?);
        let (mut one, mut two) = ([0; 32], [0; 32]);
        one.copy_from_slice(&place.random[..32]);
        two.copy_from_slice(&place.random[32..]);
        let own = Address {
            chunks: Pass::new(&one),
            grants: Pass::new(&two),
            receives: receives.address().to_vec(),
            sends: sends.address().to_vec(),
        };
        let has_ended = Arc::new(AtomicBool::new(false));
        let way = Way { peer: place.peer, fabric: Arc::clone(&self.name), silence: place.silence, has_ended };
        Ok(FabricEnd { address: own.encode(), own, receives, sends, way })
    }
}

impl Fabric for Libfabric {
    fn name(&self) -> &str {
        &self.name
    }

    fn open(&self, place: &Place) -> stillframe_link::Result<Box<dyn End>> {
        match self.ends(place) {
            Ok(end) => Ok(Box::new(end)),
            Err(error) => Err(error.of_link(place.peer, &self.name)),
        }
    }
}

pub(crate) struct FabricEnd {
    pub(crate) own: Address,
    address: Vec<u8>,
    pub(crate) receives: Endpoint,
    pub(crate) sends: Endpoint,
    way: Way,
}

impl End for FabricEnd {
    fn address(&self) -> &[u8] {
        &self.address
    }

    fn join(self: Box<Self>, theirs: &[u8]) -> stillframe_link::Result<Box<dyn Bulk>> {
        let way = self.way.clone();
        match self.joined(theirs) {
            Ok(bulk) => Ok(Box::new(bulk)),
            Err(error) => Err(way.error(error)),
        }
    }
}

impl FabricEnd {
    fn joined(self, theirs: &[u8]) -> Result<FabricBulk> {
        let FabricEnd { own, mut receives, mut sends, way, .. } = self;
        let theirs = Address::decode(theirs)?;
        // Grants go where chunks come from.
        receives.set_peer(&theirs.sends)?;
        sends.set_peer(&theirs.receives)?;
        let receiver = FabricReceiver::new(way.clone(), receives, own.chunks, theirs.grants);
        let sender = FabricSender::new(way.clone(), sends, theirs.chunks, own.grants)?;
        Ok(FabricBulk { sender, receiver, has_ended: way.has_ended })
    }
}

struct FabricBulk {
    sender: FabricSender,
    receiver: FabricReceiver,
    has_ended: Arc<AtomicBool>,
}

impl Bulk for FabricBulk {
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync> {
        let has_ended = Arc::clone(&self.has_ended);
        Arc::new(move || has_ended.store(true, Ordering::Release))
    }

    fn split(self: Box<Self>) -> (Box<dyn BulkSender>, Box<dyn BulkReceiver>) {
        (Box::new(self.sender), Box::new(self.receiver))
    }
}
