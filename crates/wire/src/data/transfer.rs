//! Where bytes go that are received: byte moves.

use drepl::transfer::{Axis, Move, Transfer};

use crate::{fault::Fault, item::Item, reader::Reader, writer::Writer};

impl Item for Axis {
    const LEAST_BYTES: usize = 24;

    fn write(&self, to: &mut Writer<'_>) {
        to.item(&self.count);
        to.item(&self.from_bytes);
        to.item(&self.to_bytes);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        Ok(Self { count: from.item()?, from_bytes: from.item()?, to_bytes: from.item()? })
    }
}

impl Item for Move {
    const LEAST_BYTES: usize = 26;

    fn write(&self, to: &mut Writer<'_>) {
        [self.from, self.to, self.run_bytes].iter().for_each(|number| to.item(number));
        to.item(&self.swap_bytes);
        to.item(&u8::try_from(self.axes.len()).unwrap_or(u8::MAX));
        self.axes.iter().for_each(|axis| to.item(axis));
    }

    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let (offset, to, run_bytes) = (from.item()?, from.item()?, from.item()?);
        let swap_bytes = from.item()?;
        let place = from.at();
        let count = usize::from(from.item::<u8>()?);
        let mut made = Move { from: offset, to, run_bytes, swap_bytes, axes: Default::default() };
        if count > made.axes.inline_size() {
            from.charge(3 * count.next_power_of_two() * size_of::<Axis>(), place)?;
        }
        for _ in 0..count {
            made.axes.push(from.item()?);
        }
        Ok(made)
    }
}

/// What bringing moves into normal form takes for each, besides the list of them: another list, and places.
const NORMAL_BYTES: usize = size_of::<Move>() + 6 * size_of::<usize>();

impl Item for Transfer {
    const LEAST_BYTES: usize = 4;

    fn write(&self, to: &mut Writer<'_>) {
        to.count(self.moves().len());
        self.moves().iter().for_each(|each| to.item(each));
    }

    /// Only moves in normal form are taken, as every transfer has them.
    fn read(from: &mut Reader<'_>) -> Result<Self, Fault> {
        let offset = from.at();
        let moves: Vec<Move> = from.list()?;
        let end = from.at();
        let scratch = moves.len() * NORMAL_BYTES;
        from.charge(scratch, offset)?;
        let transfer = Transfer::new(moves).map_err(|_| {
            from.invalid(offset, "moves leave their buffers, write a byte twice, or reverse what is no number")
        })?;
        from.refund(scratch);
        from.charge(transfer.moves().len() * size_of::<usize>(), offset)?;
        from.again(offset, end, &transfer, "moves are not in normal form")?;
        Ok(transfer)
    }
}
