//! Objects: one name for data that many processes hold.
//!
//! An *object* is described once, by a text in the layout language (`drepl`): its variables, their types and extents, and no
//! layout. Each process *attaches* its *fragment* of it, in the layout that it wants. Fragments to write are published
//! version by version; fragments to read are filled from those of the writers, whatever their layouts and numbers. This is
//! the interface of Otstott et al., "A Foundation for Automated Placement of Data" (section 3), for the processes of one
//! machine, without a server.
//!
//! | call of the paper | here |
//! |---|---|
//! | `create_object(name, text, version)` | [`Objects::create`] |
//! | `attach(name, fragment, version, 0, &p)` | [`Object::write`], then [`attach`](WriteOptions::attach) |
//! | `attach(name, fragment, version, 1, &p)` | [`Object::read`], then [`attach`](ReadOptions::attach) |
//! | `publish(name, p, version)` | [`WriteFragment::publish`] |
//! | `reattach(name, p, version)` | [`ReadFragment::reattach`] |
//! | `detach` | [`WriteFragment::detach`], or dropping the fragment |
//!
//! ```
//! use std::time::Duration;
//! use stillframe_object::Objects;
//! # fn main() -> stillframe_object::Result<()> {
//! # let dir = std::path::PathBuf::from(format!("/dev/shm/stillframe-doc-objects-{}", std::process::id()));
//! let objects = Objects::options().dir(&dir).open()?;
//! let heat = objects.create("heat", "var grid [8,8] float64").create()?;
//!
//! // Two writers, as two processes would be, each with half of the rows.
//! let mut upper = heat.write("{ var g [x:4,y:8] = grid[x,y] }").attach()?;
//! let mut lower = heat.write("{ var g [x:4,y:8] = grid[x+first,y] }").bind("first", 4).attach()?;
//! upper.variable_mut::<f64>("g")?.fill(1.0);
//! lower.variable_mut::<f64>("g")?.fill(2.0);
//! upper.publish(1)?;
//! lower.publish(1)?;
//!
//! // A reader of two rows, one from each of them, in Fortran's order.
//! let mut middle = heat.read("view m columnmajor { var m [x:2,y:8] = grid[x+3,y] }").attach()?;
//! middle.reattach(1, Duration::from_secs(10))?;
//! assert_eq!(middle.variable::<f64>("m")?[..4], [1.0, 2.0, 1.0, 2.0]);
//! # drop((upper, lower, middle));
//! # objects.remove("heat", false)?;
//! # std::fs::remove_dir_all(&dir).unwrap();
//! # Ok(())
//! # }
//! ```
//!
//! # Where things lie
//!
//! | in the directory of regions | |
//! |---|---|
//! | `.objects/names/NAME` | the object's text, as JSON; whoever keeps names implements [`Names`] |
//! | `.objects/boards/NAME` | who attached what: a log that grows under a lock ([`board`]) |
//! | `.objects/bell` | a word to sleep on, which changes with every board |
//! | `objects/NAME/NUMBER` | the region of one fragment, in an arena |
//!
//! What is complete and who is missing, `stillframe-roster` decides; what comes from where, `drepl` plans. A writer's publish
//! is that of its region and looks at one word more. A reader plans once, and reads out of the writers' regions.
//!
//! Modules, from the bottom up; each uses only those above it in this list: [`error`], [`description`], `directory`, `bell`, [`hints`], [`runtime`](mod@runtime), [`names`],
//! `interrupt`, [`board`], `space`, `shared`, `layout`, `member`, `parts`, `waiting`, `home`, `buffer`, `source`, `elsewhere`, `reading`, `collection`, [`read`](mod@read),
//! [`write`](mod@write), [`attach`], [`object`], [`objects`], [`assembly`], [`receiver`], [`relay`].
#![deny(unsafe_code)]

pub mod assembly;
pub mod attach;
mod bell;
pub mod board;
mod buffer;
mod collection;
pub mod description;
mod directory;
mod elsewhere;
pub mod error;
pub mod hints;
mod home;
mod interrupt;
mod layout;
mod member;
pub mod names;
pub mod object;
pub mod objects;
mod parts;
pub mod read;
mod reading;
pub mod receiver;
pub mod relay;
mod relief;
mod removal;
pub mod runtime;
mod shared;
mod source;
mod space;
mod verdict;
mod waiting;
pub mod write;

pub use assembly::Assembly;
pub use attach::WriteOptions;
pub use description::Description;
pub use error::{Error, Overlap, Part, Parts, Result, Writer};
pub use layout::{Array, dtype};
pub use names::Names;
pub use object::{Object, WriterInfo};
pub use objects::{CreateOptions, Objects, ObjectsOptions};
pub use read::{ReadFragment, ReadOptions};
pub use relief::Relief;
pub use shared::{bindings, owner_of};
pub use stillframe_roster::readiness::Cause;
pub use write::WriteFragment;
