//! Where the elements of a section lie in memory, and how a version shows them: one behind the other, without gaps.

use crate::working::narrow::Narrow;
use drepl::transfer::{Axis, Move, Transfer};
use std::ops::Range;
use stillframe_segment::{DType, Order, PAGE_BYTES};

/// The layout of a section in memory, counted from the lowest of its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// From the memory to the elements one behind the other, as they are in memory.
    transfer: Transfer,
    /// Bytes from the lowest to the highest.
    span_bytes: usize,
    /// Bytes that versions show.
    bytes: usize,
    narrow: Option<Narrow>,
}

/// A section that was checked: its layout, and the address of its lowest byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Placed {
    pub(crate) layout: Layout,
    pub(crate) address: usize,
}

impl Layout {
    /// The layout of elements at an address, with distances in bytes, which versions show as elements of the type `shown`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn place(
        address: usize,
        memory: &DType,
        shown: &DType,
        shape: &[usize],
        strides: &[isize],
        order: Order,
    ) -> Result<Placed, String> {
        let narrow = match memory == shown {
            true => None,
            false => Some(Narrow::between(memory, shown).ok_or_else(|| {
                format!("elements of {memory} cannot be shown as {shown}; float64 and float32 are rounded to shorter real numbers, and complex128 to complex64")
            })?),
        };
        if strides.len() != shape.len() {
            return Err(format!(
                "shape {shape:?} has {} dimensions, and there are {} strides",
                shape.len(),
                strides.len()
            ));
        }
        let bytes = shown.array_bytes(shape).map_err(|why| why.to_string())?;
        memory.array_bytes(shape).map_err(|why| why.to_string())?;
        if bytes == 0 {
            return Ok(Placed {
                layout: Layout { transfer: Transfer::default(), span_bytes: 0, bytes, narrow: None },
                address,
            });
        }
        let far = || format!("shape {shape:?} with strides of {strides:?} bytes leaves the address space");
        let (mut below, mut above) = (0i128, memory.bytes() as i128);
        for (n, stride) in shape.iter().zip(strides) {
            let reach = (*n as i128 - 1) * *stride as i128;
            below += reach.min(0);
            above += reach.max(0);
        }
        let (low, high) = (address as i128 + below, address as i128 + above);
        if low < 0 || high > isize::MAX as i128 {
            return Err(far());
        }
        let mut axes: Vec<Axis> = Vec::new();
        let mut to_bytes = memory.bytes();
        let mut axis = |at: usize| {
            axes.push(Axis { count: shape[at] as u64, from_bytes: strides[at] as i64, to_bytes: to_bytes as i64 });
            to_bytes *= shape[at];
        };
        match order {
            Order::C => (0..shape.len()).rev().for_each(&mut axis),
            Order::Fortran => (0..shape.len()).for_each(&mut axis),
        }
        axes.reverse();
        let run_bytes = memory.bytes() as u64;
        let all = Move { from: -below as u64, to: 0, run_bytes, swap_bytes: 1, axes: axes.into_iter().collect() };
        let transfer = Transfer::new(vec![all]).map_err(|error| error.to_string())?;
        let layout = Layout { transfer, span_bytes: (above - below) as usize, bytes, narrow };
        Ok(Placed { layout, address: low as usize })
    }

    /// Whether the elements lie in memory as versions show them, so that there is nothing to gather.
    pub(crate) fn is_plain(&self) -> bool {
        self.narrow.is_none() && self.transfer.moves().iter().all(|each| each.axes.is_empty())
    }

    pub(crate) fn span_bytes(&self) -> usize {
        self.span_bytes
    }

    /// Bytes that versions show.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    pub(crate) fn narrow(&self) -> Option<Narrow> {
        self.narrow
    }

    /// Bytes in memory for each byte that versions show.
    pub(crate) fn ratio(&self) -> usize {
        self.narrow.map_or(1, Narrow::ratio)
    }

    /// Passes to `emit` the pages of what versions show that have something of these bytes of the memory, in any order.
    pub(crate) fn shown_pages(&self, memory: Range<usize>, mut emit: impl FnMut(Range<usize>)) {
        let page_bytes = (PAGE_BYTES * self.ratio()) as u64;
        // A gap as long as a page has a page of which nothing was written, a shorter one has none.
        self.transfer.destinations(memory.start as u64..memory.end as u64, page_bytes, &mut |range| {
            emit((range.start / page_bytes) as usize..range.end.div_ceil(page_bytes) as usize);
        });
    }
}
