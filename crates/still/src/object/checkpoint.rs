//! Versions of an object for `still checkpoint`, each put together when it is due.
//!
//! The checkpointer saves versions of a region. A thread makes one of the object, in memory of this process, of the versions that
//! are due and of no others.

mod backlog;
mod departure;
mod due;
mod follow;
mod limits;
mod unread;

pub use due::Due;

use super::{find_in, options};
use crate::context::Context;
use crate::failure::Failure;
use backlog::Backlog;
use due::Position;
use follow::Follow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use stillframe::Arena;
use stillframe_checkpoint::{Event, Obstacle};
use stillframe_object::Assembly;
use unread::Unread;

/// The thread that puts versions together.
#[derive(Debug)]
pub struct Follower {
    arena: Arena,
    /// By which name the region is found in the arena.
    name: String,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<End, Failure>>>,
}

/// Why an object is followed no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its writers have left, or it was to be so.
    Over,
    /// Somebody removed it and created another one of its name: the next run.
    NextRun,
}

impl Follower {
    /// Begins to follow the object of a name, if that is one. What is due and cannot be read gets into the obstacle.
    pub fn begin(
        context: &Context,
        name: &str,
        due: Due,
        obstacle: &Obstacle,
        events: &Sender<Event>,
    ) -> Result<Option<Follower>, Failure> {
        let ends = Arc::new(AtomicBool::new(false));
        let asked = ends.clone();
        let options = options(context).interrupt(move || asked.load(Ordering::Acquire));
        let Some(object) = find_in(context, &options, name)? else { return Ok(None) };
        let room = due.room(Assembly::version_bytes(&object));
        let assembly = Assembly::new(&object, room)?;
        let (arena, name) = (assembly.arena().clone(), object.name().to_owned());
        let follow = Follow {
            objects: options.look()?,
            position: Position { seen: object.description().initial, ..Position::default() },
            newest: object.newest()?,
            unread: Unread::default(),
            object,
            assembly,
            backlog: Backlog::new(due.all, obstacle, events),
            due,
            room,
            events: events.clone(),
            obstacle: obstacle.clone(),
            ends: ends.clone(),
            gone: None,
            is_decided: false,
            is_last: false,
            hindered: None,
        };
        let thread = std::thread::Builder::new().name("still-object".into()).spawn(move || follow.run())?;
        Ok(Some(Follower { arena, name, ends, thread: Some(thread) }))
    }

    /// Where the region lies.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// What the region is called there.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts no further versions together, and ends what the thread waits for.
    pub fn stop(&self) {
        self.ends.store(true, Ordering::Release);
    }

    /// Whether the thread has ended: then nothing gets into the obstacle any more.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits for the end of the thread, and returns what ended it.
    pub fn join(mut self) -> Result<End, Failure> {
        self.stop();
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            None => Ok(End::Over),
            Some(Err(_)) => {
                Err(Failure::Problem("the thread that follows the object ended by a fault; report it".into()))
            }
        }
    }
}
