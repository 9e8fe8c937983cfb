//! A reader of all elements: it follows the newest version, and checks each element.

use crate::{Clock, LIMIT, PAUSE, may_come, say, say_error, value};
use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use stillframe_kernel::boot_ns;
use stillframe_object::{Error, Object, ReadFragment};

/// After so many versions it reads by a new fragment.
const STAY: u64 = 30;

/// How long it may take to read what is complete, before the reader says why it cannot.
const LOOK: Duration = Duration::from_millis(300);

fn check(all: &ReadFragment, version: u64) -> Result<(), Error> {
    let got: &[i64] = all.variable("all")?;
    let is_wrong = |(index, got): &(usize, &i64)| **got != value(version, *index as u64);
    let mut wrong = got.iter().enumerate().filter(is_wrong);
    if let Some((index, found)) = wrong.next() {
        let count = 1 + wrong.count();
        let (total, wanted) = (got.len(), value(version, index as u64));
        say(
            "wrong",
            format!("version {version}: {count} of {total} elements: the first at {index}, {found}, not {wanted}"),
        );
    }
    Ok(())
}

/// Reads the newest complete version, or says why that is not to be had.
fn look(object: &Object, seen: u64) -> Result<(), Error> {
    let mut all = object.read("{ var all = grid }").attach()?;
    let begin = Instant::now();
    loop {
        let newest = object.newest()?;
        if newest < seen {
            say("wrong", format!("version {newest} is the newest complete one, and {seen} was complete before"));
        }
        match all.reattach(newest, LOOK) {
            Ok(()) => {
                check(&all, newest)?;
                say("newest", newest);
                return Ok(());
            }
            // The writers went on meanwhile.
            Err(error) if object.newest()? == newest || begin.elapsed() > LIMIT => return Err(error),
            Err(_) => {}
        }
    }
}

/// Words that come from outside, which do not keep a reader from reading.
fn words() -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// The next version, checked.
fn follow(all: &mut ReadFragment, clock: Clock, seen: u64) -> Result<u64, Error> {
    let version = all.reattach_newer(seen, LIMIT)?;
    if version <= seen || version > clock.version() {
        say("wrong", format!("version {version} came after {seen}, and {} is due", clock.version()));
    }
    check(all, version)?;
    say("seen", format!("{version} {}", boot_ns()));
    Ok(version)
}

/// Follows versions by one fragment for a while, whatever ends and comes back meanwhile.
fn stay(object: &Object, clock: Clock, seen: &mut u64, told: &Receiver<String>) -> Result<(), Error> {
    let mut all = object.read("{ var all = grid }").attach()?;
    let mut read = 0;
    while read < STAY {
        if told.try_recv().is_ok() {
            match look(object, *seen) {
                Err(error) if may_come(&error) => say("without", error),
                looked => looked?,
            }
        }
        match follow(&mut all, clock, *seen) {
            Ok(version) => (*seen, read) = (version, read + 1),
            Err(error) => {
                say_error(&error);
                std::thread::sleep(PAUSE);
            }
        }
    }
    Ok(())
}

/// Reads for ever.
pub fn run(object: &Object, clock: Clock) -> Result<(), Box<dyn std::error::Error>> {
    let (told, mut seen) = (words(), 0);
    loop {
        if let Err(error) = stay(object, clock, &mut seen, &told) {
            say_error(&error);
            std::thread::sleep(PAUSE);
        }
    }
}
