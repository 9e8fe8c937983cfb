//! When an export steps back behind other programs: not before somebody in front of a terminal would have had what is small.

use crate::Args;
use crate::error::Result;
use stillframe::Polite;

/// Bytes of variables that are read as any other program reads them, however busy the processors are.
const FIRST_BYTES: usize = 1 << 20;

/// Counts what was read, until the process steps back.
pub struct Patience<S> {
    step_back: Option<S>,
    read_bytes: usize,
}

impl Patience<Box<dyn FnOnce() -> Result<()>>> {
    /// Has the process use the processors that were asked for alone, and counts from here on.
    pub fn begin(args: &Args) -> Result<Self> {
        if args.impolite {
            return Ok(Patience { step_back: None, read_bytes: 0 });
        }
        let polite = Polite::new();
        let polite = args.processors.iter().try_fold(polite, |polite, list| polite.processors_listed(list))?;
        polite.clone().keep_class().apply()?;
        Ok(Patience::new(Box::new(move || Ok(polite.apply()?))))
    }
}

impl<S: FnOnce() -> Result<()>> Patience<S> {
    fn new(step_back: S) -> Patience<S> {
        Patience { step_back: Some(step_back), read_bytes: 0 }
    }

    /// Counts bytes that were read, and steps back once there is more to read than the first ones.
    pub fn count(&mut self, bytes: usize) -> Result<()> {
        self.read_bytes += bytes;
        match self.step_back.take_if(|_| self.read_bytes > FIRST_BYTES) {
            Some(step_back) => step_back(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn it_steps_back_once_when_more_than_the_first_bytes_are_read() {
        for bytes in [1, 1000, FIRST_BYTES - 1, FIRST_BYTES, 5 * FIRST_BYTES] {
            let count = Cell::new(0);
            let mut patience = Patience::new(|| {
                count.set(count.get() + 1);
                Ok(())
            });
            let mut read_bytes = 0;
            while read_bytes < 3 * FIRST_BYTES {
                assert_eq!(count.get(), usize::from(read_bytes > FIRST_BYTES), "after {read_bytes} bytes");
                patience.count(bytes.max(1 << 10)).unwrap();
                read_bytes += bytes.max(1 << 10);
            }
            assert_eq!(count.get(), 1);
        }
    }
}
