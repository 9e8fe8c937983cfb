//! libfabric: the library, and endpoints that send and receive messages out of memory of their own.
//!
//! # Safety
//!
//! All calls of libfabric are made here, under one invariant:
//!
//! * **Objects.** What libfabric made is owned by one [`Endpoint`], and closed once, in the reverse order. Its calls are inline functions
//!   of C over tables of functions; the tables are read where [`layout`] says they lie. A test holds that against the headers.
//! * **Memory.** libfabric gets memory of an endpoint's own pools only. It is freed when the endpoint was closed, and never if that
//!   failed. A slot of it is with libfabric from the call that takes it until the completion that names it; meanwhile no
//!   reference to its bytes is made. An endpoint that another one of this process reaches through shared memory is closed after that
//!   one ([`neighbours`]).
//! * **Threads.** An endpoint and all it was made of are used by one thread at a time, because every call takes `&mut`, and libfabric is told so
//!   (`FI_THREAD_DOMAIN`). Endpoints share nothing but the library, whose functions may be called from any thread.
//! * **Answers.** What libfabric says of lengths and contexts is compared with what was handed out, before it is used.
#![allow(unsafe_code)]

mod endpoint;
mod layout;
mod library;
mod neighbours;

pub(crate) use endpoint::{Endpoint, Event};
pub(crate) use library::Library;
