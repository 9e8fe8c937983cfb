//! Objects, for the commands that know them beside regions.
//!
//! A name on a command line means a region, a group or an arena where there is one, else an object. `objects/NAME` means the object
//! NAME also where a region has that name, unless an object is called `objects/NAME` itself.

mod drawing;
mod elements;
mod next;
mod summary;
mod variable;

pub mod checkpoint;
pub mod get;
pub mod list;
pub mod remove;
pub mod restore;
pub mod show;
pub mod watch;

use crate::context::Context;
use crate::failure::Failure;
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe::Error;
use stillframe::inspect::{self, State};
use stillframe_object::{Object, Objects, ObjectsOptions};

/// Where the regions of fragments lie, each as `objects/NAME/NUMBER`.
const PLACE: &str = "objects";

/// How often a name that is waited for is looked for.
const LOOK: Duration = Duration::from_millis(20);

fn options(context: &Context) -> ObjectsOptions {
    Objects::options().dir(&context.dir)
}

/// The objects of the directory, for who only looks; `None` if nobody ever created any.
pub fn look(context: &Context) -> Result<Option<Objects>, Failure> {
    Ok(options(context).look()?)
}

/// The objects of the directory, to remove some. There are some.
fn open(context: &Context) -> Result<Objects, Failure> {
    Ok(options(context).open()?)
}

/// The object that a name on the command line means, if it means one.
pub fn find(context: &Context, name: &str) -> Result<Option<Object>, Failure> {
    find_in(context, &options(context), name)
}

/// As [`find`], with options by which the objects of the directory are opened.
fn find_in(context: &Context, options: &ObjectsOptions, name: &str) -> Result<Option<Object>, Failure> {
    // Brokers hand out regions only.
    if inspect::is_handed_out(&context.dir, name) {
        return Ok(None);
    }
    let whole = named(options, name);
    if let Some(own) = name.strip_prefix(PLACE).and_then(|rest| rest.strip_prefix('/')) {
        return match whole? {
            Some(object) => Ok(Some(object)),
            None => named(options, own),
        };
    }
    match whole {
        Ok(None) => Ok(None),
        // What is wrong with objects is not the business of who means a region.
        found => {
            if is_region(&context.dir, name) {
                Ok(None)
            } else {
                found
            }
        }
    }
}

/// As [`find`], and waits at most so long for something of that name, be it a region.
pub fn wait(context: &Context, name: &str, timeout: Duration) -> Result<Option<Object>, Failure> {
    let begin = Instant::now();
    if inspect::is_handed_out(&context.dir, name) {
        return Ok(None);
    }
    loop {
        let found = find(context, name)?;
        if found.is_some() || begin.elapsed() >= timeout || is_region(&context.dir, name) {
            return Ok(found);
        }
        std::thread::sleep(LOOK);
    }
}

fn named(options: &ObjectsOptions, name: &str) -> Result<Option<Object>, Failure> {
    let Some(objects) = options.clone().look()? else { return Ok(None) };
    match objects.object_named(name) {
        Ok(object) => Ok(Some(object)),
        Err(stillframe_object::Error::NoObject { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether there is a region or group of this name. One that was never finished gives way to an object.
fn is_region(dir: &Path, name: &str) -> bool {
    match inspect::region(dir, name) {
        Ok(info) => info.state != State::Incomplete,
        Err(error) => matches!(error, Error::IsGroup { .. }),
    }
}
