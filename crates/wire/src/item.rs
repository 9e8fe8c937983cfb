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
