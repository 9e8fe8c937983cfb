//! What will be sent.

use drepl::transfer::Transfer;
use stillframe_roster::writer::{Version, Writer as Name};

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

/// What comes of one writer, for each version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceShare {
    /// Whose elements.
    pub writer: Name,
    /// Where in the fragment the receiver puts which of the bytes.
    pub transfer: Transfer,
    /// How many bytes are sent: at least as many as the transfer reads.
    pub bytes: u64,
}

/// What is sent for a subscription for each version of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sources {
    /// For which.
    pub subscription: u64,
    /// The first version for which it holds; until the next.
    pub epoch: Version,
    /// What it consists of. Pieces name them by their positions.
    pub shares: Vec<SourceShare>,
}

impl Item for SourceShare {
    const LEAST_BYTES: usize = 24;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.writer);
        to.item(&self.bytes);
        to.item(&self.transfer);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let writer = from.item()?;
        let offset = from.at();
        let bytes = from.item()?;
        let transfer: Transfer = from.item()?;
        from.check(transfer.source_bytes() <= bytes, offset, "a share has fewer bytes than its moves read")?;
        Ok(Self { writer, transfer, bytes })
    }
}

impl Item for Sources {
    const LEAST_BYTES: usize = 20;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.subscription);
        to.item(&self.epoch);
        to.item(&self.shares);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { subscription: from.item()?, epoch: from.item()?, shares: from.item()? })
    }
}
