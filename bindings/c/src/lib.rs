//! Stillframe's C interface.
//!
//! The header `include/stillframe.h` is generated from this crate, with what stands here before each type and function:
//! that text is written for C programmers. Rust programs use the crate `stillframe` itself.
#![allow(non_camel_case_types)]

mod call;
mod failure;
mod handle;
mod kind;
mod text;
mod truth;
mod variables;

// In the order in which a reader of the header should meet them.
mod status;

mod producer;

mod arena;

mod region;

mod variable;

mod publication;

mod loan;

mod observer;

mod snapshot;

mod group;

mod attribute;

mod inspect;

mod beginning;

mod recovery;

mod checkpointer;

mod drepl;

mod object;

mod fragment;
