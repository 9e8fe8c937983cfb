//! Truth values of callers.

/// What C sees as a bool. Of a byte that another language hands over as one, such as a logical(c_bool) of Fortran, nobody knows
/// more than that 0 is false, while a bool of Rust may have no bits but those of 0 and 1.
#[repr(transparent)]
#[derive(Clone, Copy)]
pub struct stillframe_truth(u8);

impl stillframe_truth {
    pub fn holds(self) -> bool {
        self.0 != 0
    }
}
