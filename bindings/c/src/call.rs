//! What all exported functions have in common: pointers of C programs, and that no panic gets out.
//!
//! # Safety
//! What a pointer has to be, the header says, and only its caller can see to. This module reads and writes through pointers
//! under that invariant alone, and checks what can be: none is used that is NULL or not aligned. Nothing else in this crate
//! dereferences a pointer that it was given, but `drepl` the buffers between which it moves bytes. What is borrowed from a caller lives no longer than its [`Call`].
#![allow(unsafe_code)]

use crate::failure::Failure;
use crate::status::{stillframe_status, stillframe_status_code::STILLFRAME_OK};
use crate::text::set_error_text;
use engine::RANK_MAX;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A call of an exported function.
pub struct Call(());

/// Runs the body of the exported function of this name.
pub fn run(function: &'static str, body: impl FnOnce(&Call) -> Result<(), Failure>) -> stillframe_status {
    let outcome = catch_unwind(AssertUnwindSafe(|| body(&Call(()))));
    let failure = match outcome {
        Ok(Ok(())) => return STILLFRAME_OK as stillframe_status,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::panic(payload),
    };
    set_error_text(function, &failure);
    failure.status()
}

/// Where a caller wants a result.
#[derive(Clone, Copy)]
pub struct Out<'a, T> {
    to: Option<&'a Cell<std::mem::MaybeUninit<T>>>,
}

impl<T> Out<'_, T> {
    /// For a result that nobody wants.
    pub fn nowhere() -> Self {
        Out { to: None }
    }

    pub fn put(&self, value: T) {
        if let Some(to) = self.to {
            to.set(std::mem::MaybeUninit::new(value));
        }
    }
}

impl Call {
    fn check<T>(&self, name: &'static str, pointer: *const T) -> Result<(), Failure> {
        if pointer.is_null() {
            return Err(Failure::argument(name, "it is NULL"));
        }
        if !pointer.is_aligned() {
            return Err(Failure::argument(name, format!("{pointer:p} is not aligned for what it should point to")));
        }
        Ok(())
    }

    /// A text that must be given.
    pub fn text(&self, name: &'static str, text: *const c_char) -> Result<&str, Failure> {
        self.check(name, text)?;
        // SAFETY: it is not NULL, and the caller vouches for a text that ends with a zero and stays during the call.
        let text = unsafe { CStr::from_ptr(text) };
        text.to_str().map_err(|_| Failure::argument(name, format!("{text:?} is not UTF-8")))
    }

    /// A text that may be NULL.
    pub fn text_or_null(&self, name: &'static str, text: *const c_char) -> Result<Option<&str>, Failure> {
        if text.is_null() { Ok(None) } else { self.text(name, text).map(Some) }
    }

    /// A structure that may be NULL.
    pub fn read<T: Copy>(&self, name: &'static str, from: *const T) -> Result<Option<T>, Failure> {
        if from.is_null() {
            return Ok(None);
        }
        self.check(name, from)?;
        // SAFETY: it is aligned, and the caller vouches for a whole structure.
        Ok(Some(unsafe { from.read() }))
    }

    /// An array of the caller's.
    pub fn slice<T>(&self, name: &'static str, from: *const T, count: usize) -> Result<&[T], Failure> {
        if count == 0 {
            return Ok(&[]);
        }
        self.check(name, from)?;
        // SAFETY: it is aligned, and the caller vouches for so many elements that nobody writes during the call.
        Ok(unsafe { std::slice::from_raw_parts(from, count) })
    }

    /// An array that the caller wants filled.
    pub fn slice_mut<T>(
        &self,
        name: &'static str,
        to: *mut T,
        count: usize,
    ) -> Result<&[Cell<std::mem::MaybeUninit<T>>], Failure> {
        self.slice(name, to.cast_const().cast(), count)
    }

    /// Bytes that the caller wants filled, whatever they hold now. They must not be kept beyond the call.
    pub fn bytes_mut<'a>(&self, name: &'static str, to: *mut u8, count: usize) -> Result<&'a mut [u8], Failure> {
        if count == 0 {
            return Ok(&mut []);
        }
        self.check(name, to)?;
        // SAFETY: the caller vouches for so many bytes that are its own. They may never have been written, which for bytes
        // in memory, all of them written before any is read, is no matter.
        Ok(unsafe { std::slice::from_raw_parts_mut(to, count) })
    }

    /// A number of dimensions.
    pub fn rank(&self, rank: u32) -> Result<usize, Failure> {
        match rank as usize {
            rank if rank > RANK_MAX => {
                Err(Failure::argument("rank", format!("{rank} dimensions are more than {RANK_MAX}")))
            }
            rank => Ok(rank),
        }
    }

    /// A shape.
    pub fn shape(&self, rank: u32, shape: *const usize) -> Result<&[usize], Failure> {
        self.slice("shape", shape, self.rank(rank)?)
    }

    /// The address of a caller's array, which is 0 if there is none, and its shape. An empty array may be at NULL, where malloc puts it.
    pub fn place(&self, rank: u32, shape: *const usize, data: *const c_void) -> Result<(usize, &[usize]), Failure> {
        static EMPTY: u128 = 0;
        if data.is_null() && shape.is_null() {
            return Ok((0, &[]));
        }
        match self.shape(rank, shape)? {
            shape if !data.is_null() => Ok((data as usize, shape)),
            shape if shape.contains(&0) => Ok((&raw const EMPTY as usize, shape)),
            _ => Ok((0, &[])),
        }
    }

    /// Where a result goes that must be wanted.
    pub fn out<T>(&self, name: &'static str, to: *mut T) -> Result<Out<'_, T>, Failure> {
        self.check(name, to)?;
        self.out_or_null(name, to)
    }

    /// Where a result goes that need not be wanted.
    pub fn out_or_null<T>(&self, name: &'static str, to: *mut T) -> Result<Out<'_, T>, Failure> {
        if to.is_null() {
            return Ok(Out { to: None });
        }
        self.check(name, to)?;
        // SAFETY: it is aligned, and the caller vouches for memory of its own that stays during the call.
        Ok(Out { to: Some(unsafe { &*to.cast() }) })
    }

    /// Where a handle goes, or an address. It is NULL until there is one, so that giving it up is always right.
    pub fn out_pointer<T>(&self, name: &'static str, to: *mut *mut T) -> Result<Out<'_, *mut T>, Failure> {
        let out = self.out(name, to)?;
        out.put(std::ptr::null_mut());
        Ok(out)
    }
}
