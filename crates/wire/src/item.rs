//! What a value is in bytes: numbers of little-endian machines, of constant lengths.
//!
//! Each value has one form, so that what was decoded encodes to the same bytes. A form that takes less than a fixed number of bytes
//! for a number would make bodies shorter, and what hostile ones make of memory larger: see [`crate::reader`].

use crate::{fault::Fault, reader::Reader, writer::Writer};

pub(crate) trait Item: Sized {
    /// The least length of any value.
    const LEAST_BYTES: usize;

    fn write(&self, to: &mut Writer<'_>);

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault>;
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl Item for $number {
            const LEAST_BYTES: usize = size_of::<$number>();

            fn write(&self, to: &mut Writer<'_>) {
                to.bytes(&self.to_le_bytes());
            }

            #[inline]
            fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
                from.array().map(Self::from_le_bytes)
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 u128 i64 }

impl Item for bool {
    const LEAST_BYTES: usize = 1;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&u8::from(*self));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        match from.item::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(from.invalid(offset, "what is there or not is said by 0 or 1")),
        }
    }
}

impl<T: Item> Item for Option<T> {
    const LEAST_BYTES: usize = 1;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.is_some());
        if let Some(item) = self {
            to.item(item);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(if from.item()? { Some(from.item()?) } else { None })
    }
}

impl<T: Item> Item for Vec<T> {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.count(self.len());
        for item in self {
            to.item(item);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        from.list()
    }
}

impl<T: Item> Item for Box<T> {
    const LEAST_BYTES: usize = T::LEAST_BYTES;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&**self);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        from.charge(size_of::<T>(), offset)?;
        from.item().map(Box::new)
    }
}

/// Values of constant size, whose fields are written one after the other.
macro_rules! records {
    ($($(#[$about:meta])* $name:ident, $least:literal { $($(#[$field_about:meta])* $field:ident: $kind:ty,)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub struct $name {
            $($(#[$field_about])* pub $field: $kind,)*
        }

        impl $crate::item::Item for $name {
            const LEAST_BYTES: usize = $least;

            fn write(&self, to: &mut $crate::writer::Writer<'_>) {
                $(to.item(&self.$field);)*
            }

            fn read(from: &mut $crate::reader::Reader<'_>) -> Result<Self, $crate::fault::Fault> {
                // In the order in which they are written.
                Ok(Self { $($field: from.item()?,)* })
            }
        }
    )*};
}
pub(crate) use records;

#[cfg(test)]
mod tests {
    use std::{num::NonZeroU64, sync::Arc};

    use drepl::transfer::{Axis, Move, Transfer};
    use stillframe_roster::{
        message::{Ceiling, Decision, Ended, Proposal, Refused, Report, Told, Unpinned, Want},
        readiness::{Cause, Loss, Readiness, Share},
        refusal::Refusal,
        writer::{Elements, Node, Record, Writer as Name},
    };

    use super::*;
    use crate::{
        ObjectId,
        data::{FragmentText, SourceShare},
        roster::{Ask, Declared, ObjectChange, ObjectDecision, ObjectReport},
    };

    fn is_least<T: Item>(least: &T) {
        let mut bytes = Vec::new();
        least.write(&mut Writer::new(&mut bytes));
        assert_eq!(bytes.len(), T::LEAST_BYTES, "{}", std::any::type_name::<T>());
    }

    /// A list of them could be refused otherwise, or take more memory.
    #[test]
    fn what_lists_consist_of_has_the_least_length_that_is_said() {
        let object = ObjectId(NonZeroU64::MIN);
        let writer = Name { node: Node(1), process: 1, serial: 1 };
        let told = Told { record: Record::new(writer, None), numbers: Vec::new(), accepted: 0, is_restored: false };
        let proposal = Proposal { version: 1, epoch: 1, nodes: Arc::default() };
        let share = Share { who: None, elements: Elements::default() };
        let report = Report {
            node: Node(1),
            revision: 1,
            serial: 2,
            heard: 1,
            declared: 1,
            writers: Vec::new(),
            pins: Vec::new(),
            announced: proposal.clone(),
            yielded: None,
            ceiling: Ceiling::initial(1),
            floor: 0,
            run_floor: 0,
            wants: Vec::new(),
        };
        let decision = Decision {
            node: Node(1),
            revision: 1,
            serial: 1,
            declared: 1,
            announced: proposal.clone(),
            ceiling: Ceiling::initial(1),
            run_floor: 1,
            unpinned: Vec::new(),
            proposed: None,
            refused: Vec::new(),
            ended: Vec::new(),
            answers: Vec::new(),
        };
        is_least(&writer);
        is_least(&told);
        is_least(&proposal);
        is_least(&Unpinned { node: Node(1), is_lost: false });
        is_least(&Want { number: 1, version: 1, elements: Elements::default() });
        is_least(&share);
        is_least(&Loss { share, cause: Cause::Gone });
        is_least(&(1, Readiness::Ready(Vec::new())));
        is_least(&Refused { writer, number: 1, refusal: Refusal::Unknown });
        is_least(&Ended { writer, from: 1 });
        is_least(&ObjectChange::between(object, &report, &report));
        is_least(&ObjectReport { object, name: "n".into(), report });
        is_least(&ObjectDecision { object, roster: 1, decision });
        let layout = FragmentText::default();
        is_least(&Ask { object, name: "n".into(), revision: 1 });
        is_least(&(writer, layout.clone()));
        let (rank, left, expected) = (None, None, None);
        is_least(&Declared { writer, rank, layout, from: 1, left, died: false, expected });
        is_least(&Move { from: 0, to: 0, run_bytes: 1, swap_bytes: 1, axes: Default::default() });
        is_least(&Axis { count: 2, from_bytes: 1, to_bytes: 1 });
        is_least(&SourceShare { writer, transfer: Transfer::default(), bytes: 0 });
    }
}
