//! The memory of a program that knows nothing of it, in large pages of a pool.
//!
//! The library is preloaded (`still run --pages`). It answers `malloc` and its family from a range of addresses of its
//! own, whose windows it maps when they are first asked for: from the pool that `STILLFRAME_PAGES` names, all at once,
//! so that no first touch costs a fault. What the program maps and the data that it was loaded with lie there, too; stacks stay the kernel's, in
//! large pages where these can be had. `docs/large-pages.md` says what is where.
//!
//! | module | |
//! |---|---|
//! | `kernel`, `lock`, `signals`, `say`, `files` | calls past other libraries, a lock, signals that wait, lines on standard error, short files |
//! | `next` | the functions that this library stands before |
//! | `setting` | what the launcher said |
//! | `count` | what was served from where |
//! | `groups` | what control groups leave a process |
//! | `plain` | ordinary memory, in large pages where the kernel has some |
//! | `stacks` | what threads stand on |
//! | `nodes` | memory nodes that share the pages |
//! | `bounds` | why a process gets no page of a pool that has some |
//! | `pool` | pages of the pool, at addresses of our own |
//! | `room` | room in the pool while a process forks |
//! | `pieces` | ranges of addresses, and what each window of them is |
//! | `guard` | memory that nobody writes for a while |
//! | `windows` | filling windows, and making ordinary memory of them |
//! | `bits`, `blocks` | bits that are found by words; large blocks |
//! | `cuts` | what the program changes in how memory of the heap is mapped |
//! | `sites` | small blocks that grow, by who has them grow |
//! | `heap` | the allocator of small ones, and whose a block is |
//! | `residence`, `report` | where the memory of a process lies; what is said at its end |
//! | `fork` | what a forked child gets |
//! | `mapped` | what the program maps, from the pool |
//! | `loaded`, `backing`, `segments`, `code` | what the program was loaded with, all of it, the files behind it, what it writes, what it only reads |
//! | `next` | the functions that this library stands before |
//! | `family`, `calls`, `contexts`, `threads`, `userfault` | the functions of the C library that are stood in for |
//! | `begin` | the begin of the process, and its end |
//!
//! Each uses only those above it.
//!
//! # Safety
//!
//! The library lives in somebody else's process. It maps and replaces memory only within ranges that it reserved
//! itself, and which `pieces` knows, and in whole windows of the program's data, before the program runs. What it
//! replaces it has copied. Everything else is passed to the kernel, which checks it, or is advice. Nothing here
//! allocates through `malloc`, and no function called from outside panics. Its locks are held across `fork`, after that of the C library's list of files, and by
//! nobody who waits for another process but a thread that forks. Who holds one has all signals blocked, as a handler may
//! fork; but for that of `blocks`, whose holder cannot fork.
#![allow(unsafe_code)]

mod backing;
mod begin;
mod bits;
mod blocks;
mod bounds;
mod calls;
mod code;
mod contexts;
mod count;
mod cuts;
mod family;
mod files;
mod fork;
mod groups;
mod guard;
mod heap;
mod kernel;
mod libraries;
mod limits;
mod loaded;
mod lock;
mod mapped;
mod next;
mod nodes;
mod pieces;
mod plain;
mod pool;
mod report;
mod residence;
mod room;
mod say;
mod segments;
mod setting;
mod signals;
mod sites;
mod stacks;
mod threads;
mod userfault;
mod windows;
