//! Loans: memory of the next version, written in place.
//!
//! # Safety
//! Nothing here touches memory; the names of exported functions are this library's own.
#![allow(unsafe_code)]

use crate::call::run;
use crate::failure::Failure;
use crate::handle::{self, Handled, Table};
use crate::kind::{Got, Kind};
use crate::producer::{Producer, stillframe_region};
use crate::status::stillframe_status;
use engine::{EndedLoan, LoanBytes};
use std::ffi::c_void;

/// Memory that was lent for the next version of a loaned variable.
pub struct stillframe_loan(());

struct Lent {
    loan: Loan,
    /// The handle of its region, as a number.
    region: usize,
}

enum Loan {
    Open(LoanBytes),
    /// Its region was closed, and its memory is the program's alone.
    Over {
        _addresses: Option<EndedLoan>,
    },
}

/// Ends the loans of these handles whose region is about to end, so that its name is free. Pointers stay valid until the
/// handle ends.
pub fn end_all(loans: Vec<usize>) -> Result<(), Failure> {
    let end = |lent: &mut Lent| {
        if let Loan::Open(loan) = std::mem::replace(&mut lent.loan, Loan::Over { _addresses: None }) {
            lent.loan = Loan::Over { _addresses: Some(loan.end(false)?) };
        }
        Ok(())
    };
    let mut outcome = Ok(());
    for loan in loans {
        match handle::with(loan as *mut stillframe_loan, end) {
            // Another thread, or this one before the signal that brought it here, is just ending it.
            Err(Failure::Handle { .. } | Failure::Busy { .. }) => {}
            other => outcome = outcome.and(other),
        }
    }
    outcome
}

impl Handled for Lent {
    type Opaque = stillframe_loan;
    const KIND: Kind = Kind::Loan;
    fn table() -> &'static Table<Lent> {
        static TABLE: Table<Lent> = Table::new();
        &TABLE
    }
}

/// Lends memory for the next version of a loaned variable, so that nothing has to be copied. What it holds at first is
/// unspecified: write all of it.
///
/// loan: the handle, to be ended by stillframe_loan_submit or stillframe_loan_discard. data, bytes: the memory, on a page
/// boundary.
///
/// Errors: BAD_HANDLE; UNKNOWN_VARIABLE; WRONG_KIND; BOUND, NO_SPACE or NO_SLOT if there is no room by the region's rule.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_loan_begin(
    region: *mut stillframe_region,
    variable: u32,
    loan: *mut *mut stillframe_loan,
    data: *mut *mut c_void,
    bytes: *mut usize,
) -> stillframe_status {
    run("stillframe_loan_begin", |call| {
        let out = call.out_pointer("loan", loan)?;
        let data = call.out_pointer("data", data)?;
        let length = call.out_or_null("bytes", bytes)?;
        handle::with(region, |producer: &mut Producer| {
            let id = producer.variables.id(&producer.region, variable)?;
            let lent = producer.region.loan_bytes(id)?;
            data.put(lent.ptr().cast());
            length.put(lent.len());
            let loan = handle::insert(Lent { loan: Loan::Open(lent), region: region as usize });
            producer.loans.retain(|other| handle::is_living::<Lent>(*other as *mut stillframe_loan));
            producer.loans.push(loan as usize);
            out.put(loan);
            Ok(())
        })
    })
}

/// Hands the memory to the next publish and ends the handle. The memory must not be written from then on: versions show it.
///
/// Errors: BAD_HANDLE, also if the region was closed meanwhile, which ends the handle too; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_loan_submit(loan: *mut stillframe_loan) -> stillframe_status {
    run("stillframe_loan_submit", |_| {
        let Lent { loan, region } = handle::remove::<Lent>(loan)?;
        if !handle::is_living::<Producer>(region as *mut stillframe_region) {
            return Err(Failure::Handle { kind: Kind::Region, got: Got::Ended });
        }
        if let Loan::Open(loan) = loan {
            loan.submit();
        }
        Ok(())
    })
}

/// Gives the memory back, so that the next version shows what the last one did, and ends the handle. NULL is nothing to do.
///
/// Errors: BAD_HANDLE; FORKED.
#[unsafe(no_mangle)]
pub extern "C" fn stillframe_loan_discard(loan: *mut stillframe_loan) -> stillframe_status {
    run("stillframe_loan_discard", |_| handle::remove_or_null::<Lent>(loan).map(drop))
}
