//! The queue of those who have asked: users take turns, and between two answers a service stops.

use super::Place;
use crate::common::watchdog;
use crate::enclosure::{NOBODY, may_enclose};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use stillframe::enclave::Reply;
use stillframe::{Error, Observer};
use stillframe_enclave::Desk;
use stillframe_kernel::local::{self, Peer};
use stillframe_segment::broker::{Answer, Question};

/// Answers everybody that there is nothing, and notes who asked. After some answers it has the service stop.
struct Notes {
    users: Mutex<Vec<u32>>,
    stop: Mutex<Option<UnixStream>>,
    stops_after: usize,
}

impl Notes {
    /// The notes, and what the service is to stop by.
    fn stopping_after(stops_after: usize) -> (Notes, UnixStream) {
        let (stop, stops) = UnixStream::pair().unwrap();
        (Notes { users: Mutex::default(), stop: Mutex::new(Some(stop)), stops_after }, stops)
    }

    fn stop(&self) {
        self.stop.lock().unwrap().take();
    }

    fn count(&self, user: u32) -> usize {
        self.users.lock().unwrap().iter().filter(|asked| **asked == user).count()
    }
}

impl Desk for Notes {
    fn answer(&self, _: &[u8], peer: &Peer) -> Reply {
        let mut users = self.users.lock().unwrap();
        users.push(peer.user);
        if users.len() == self.stops_after {
            self.stop();
        }
        Reply { bytes: Answer::Missing.encode(), files: Vec::new() }
    }
}

#[test]
fn users_take_turns_and_who_has_gone_is_passed_over() {
    let _watchdog = watchdog(300);
    if !may_enclose() {
        return;
    }
    let place = Place::new("turns", false);
    let (notes, stops) = Notes::stopping_after(usize::MAX);
    let service = place.service(notes);
    let question = Question::Names { after: String::new() };
    let many = place.ask_as(NOBODY, 300, &question);
    drop(place.ask_as(NOBODY - 1, 50, &question));
    let own = place.ask_as(0, 1, &question);
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(stops.as_fd()).unwrap());
        for socket in own.iter().chain(&many) {
            assert_eq!(place.hear(socket), (Answer::Missing, 0));
        }
        service.desk().stop();
    });
    let notes = service.desk();
    assert_eq!((notes.count(NOBODY), notes.count(NOBODY - 1), notes.count(0)), (300, 0, 1));
    // Who came last, behind all of one user's, is the second that is answered.
    let at = notes.users.lock().unwrap().iter().position(|user| *user == 0);
    assert!(at < Some(2), "{at:?}");
}

#[test]
fn a_service_stops_between_two_answers() {
    let _watchdog = watchdog(300);
    let place = Place::new("stops", false);
    let (notes, stops) = Notes::stopping_after(5);
    let service = place.service(notes);
    let sockets: Vec<OwnedFd> = (0..100).map(|_| place.connect()).collect();
    for socket in &sockets {
        assert!(local::send(socket, &Question::Names { after: String::new() }.encode(), &[]).unwrap());
    }
    service.serve(stops.as_fd()).unwrap();
    assert_eq!(service.desk().users.lock().unwrap().len(), 5);
}

#[test]
fn an_observer_that_waits_asks_a_broker_now_and_then() {
    let _watchdog = watchdog(300);
    let place = Place::new("waits", false);
    let (notes, stops) = Notes::stopping_after(usize::MAX);
    let service = place.service(notes);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| service.serve(stops.as_fd()).unwrap());
        // Until it has asked often enough.
        let mut wait = Duration::from_secs(1);
        while service.desk().users.lock().unwrap().len() < 20 {
            let soon = Observer::options().wait(wait).open(&place.address("r"));
            assert!(matches!(soon, Err(Error::Timeout { .. })), "{soon:?}");
            wait *= 2;
        }
        service.desk().stop();
    });
    // It sleeps between two questions, and a sleep is never shorter than it is to be, however slow the machine is.
    let (asked, waited) = (service.desk().users.lock().unwrap().len() as u128, begin.elapsed());
    assert!(asked < 60 + waited.as_millis() / 20, "{asked} questions in {waited:?}");
}
