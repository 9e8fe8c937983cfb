//! A doorbell at the socket of another enclave's agent, in the same kernel: what QEMU does for a machine, for an agent beside it.

use super::message::{ID_MAX, MEMORY, Read, Reader, VERSION};
use super::{AGENT, Line, PAUSE, Ringer};
use crate::error::{Error, Result};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};
use stillframe_kernel::Failure;
use stillframe_kernel::event::Event;
use stillframe_kernel::local::{self, Kind};
use stillframe_kernel::trust::Guard;

/// How long the first messages may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long after an end it is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Why a connection is over.
enum Over {
    /// Something came by `stop`.
    Stopped,
    /// The other side has ended it, or nobody listens.
    Ended,
    Failed(Error),
}

/// What was said by now.
#[derive(Default)]
struct Said {
    version: bool,
    own: Option<i64>,
    memory: bool,
    /// By which the agent is rung, as long as it is there.
    ringer: Option<Ringer>,
    /// Rung by the agent.
    event: Option<Event>,
}

/// Rings and listens until something comes by `stop`. An agent that has ended is waited for.
pub(crate) fn serve(path: &Path, guard: Guard, stop: BorrowedFd<'_>, line: &Line) -> Result<()> {
    let fail = |failure| Error::System { path: path.into(), failure };
    loop {
        let over = connect(path, guard, stop, line);
        line.set(false, false);
        match over {
            Over::Stopped => return Ok(()),
            Over::Failed(error) => return Err(error),
            Over::Ended if local::wait_any(&[stop], Some(RETRY)).map_err(fail)?[0] => return Ok(()),
            Over::Ended => {}
        }
    }
}

fn connect(path: &Path, guard: Guard, stop: BorrowedFd<'_>, line: &Line) -> Over {
    let fail = |failure| Over::Failed(Error::System { path: path.into(), failure });
    let deadline = Instant::now() + PATIENCE;
    let socket = match local::connect_as(Kind::Stream, path, deadline) {
        Ok(socket) => socket,
        Err(failure) if matches!(failure.errno(), libc::ENOENT | libc::ECONNREFUSED) => return Over::Ended,
        Err(failure) => return fail(failure),
    };
    let checked = local::peer(&socket).map(|peer| guard.check_listener(peer.user, peer.group));
    match checked {
        Ok(Ok(())) => {}
        Ok(Err(distrust)) => return Over::Failed(Error::Untrusted { path: path.into(), distrust }),
        Err(failure) => return fail(failure),
    }
    let (mut said, mut reader) = (Said::default(), Reader::default());
    loop {
        let is_whole = said.event.is_some() && said.memory;
        if !is_whole && Instant::now() >= deadline {
            return garbled(path, "it does not say all within 5 s");
        }
        let heard = match hear(&socket, stop, &said, (!is_whole).then_some(deadline), &mut reader) {
            Ok(heard) => heard,
            Err(failure) => return fail(failure),
        };
        match heard {
            Heard::Stop => return Over::Stopped,
            Heard::Ring => {
                line.heard();
                std::thread::sleep(PAUSE);
            }
            Heard::Nothing => {}
            Heard::Message(Read::Nothing) => {}
            Heard::Message(Read::End) => return Over::Ended,
            Heard::Message(Read::Garbage) => return garbled(path, "what comes is no message"),
            Heard::Message(Read::Message(number, file)) => match said.take(number, file, line) {
                Ok(()) => line.set(said.ringer.is_some(), said.event.is_some()),
                Err(Wrong::Message(why)) => return garbled(path, why),
                Err(Wrong::Failure(failure)) => return fail(failure),
            },
        }
    }
}

fn garbled(path: &Path, why: &str) -> Over {
    let why = format!("{why}: an agent that has a doorbell for this enclave listens elsewhere");
    Over::Failed(Error::NotShared { path: path.into(), why })
}

/// What came.
enum Heard {
    Nothing,
    Stop,
    Ring,
    Message(Read),
}

fn hear(
    socket: &OwnedFd,
    stop: BorrowedFd<'_>,
    said: &Said,
    deadline: Option<Instant>,
    reader: &mut Reader,
) -> Result<Heard, Failure> {
    let watched: Vec<_> = [stop, socket.as_fd()].into_iter().chain(said.event.as_ref().map(AsFd::as_fd)).collect();
    let limit = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
    let ready = local::wait_any(&watched, limit)?;
    if ready[0] {
        return Ok(Heard::Stop);
    }
    // Who sends messages without an end is heard as well.
    if let Some(event) = said.event.as_ref().filter(|_| ready[2..].contains(&true))
        && event.take()?
    {
        return Ok(Heard::Ring);
    }
    match ready[1] {
        true => reader.read(socket).map(Heard::Message).or_else(|failure| match failure.errno() {
            libc::ECONNRESET => Ok(Heard::Message(Read::End)),
            _ => Err(failure),
        }),
        false => Ok(Heard::Nothing),
    }
}

/// Why what was said is not taken.
enum Wrong {
    Message(&'static str),
    Failure(Failure),
}

impl Said {
    /// Takes a message.
    fn take(&mut self, number: i64, file: Option<File>, line: &Line) -> Result<(), Wrong> {
        let counter = |file: Option<File>| {
            let event =
                file.map(|file| Event::from_descriptor(file.into()).ok_or(Wrong::Message("it sends no counter")));
            event.transpose()
        };
        match (self.version, self.own, self.memory) {
            (false, ..) if number == VERSION && file.is_none() => self.version = true,
            (false, ..) => return Err(Wrong::Message("it speaks another version of the protocol")),
            (_, None, _) if (i64::from(AGENT) + 1..=ID_MAX).contains(&number) && file.is_none() => {
                self.own = Some(number)
            }
            (_, None, _) => return Err(Wrong::Message("the first who is connected is not an agent")),
            // The arena is known by its name.
            (.., false) if number == MEMORY && file.is_some() => self.memory = true,
            (.., false) => return Err(Wrong::Message("it sends no memory")),
            (_, Some(own), true) => match number {
                _ if number == own => {
                    let event = counter(file)?.ok_or(Wrong::Message("it sends no counter"))?;
                    // There may be several, for several kinds of rings.
                    self.event.get_or_insert(event);
                }
                _ if number == i64::from(AGENT) => self.take_agent(counter(file)?, line).map_err(Wrong::Failure)?,
                // Others are not rung.
                0..=ID_MAX => {}
                _ => return Err(Wrong::Message("it names somebody by a wrong number")),
            },
        }
        Ok(())
    }

    /// The agent is there, with a counter of its own, or is gone.
    fn take_agent(&mut self, event: Option<Event>, line: &Line) -> Result<(), Failure> {
        match event {
            None => self.ringer = None,
            Some(_) if self.ringer.is_some() => {}
            Some(event) => {
                let fail = |source| Failure { call: "pthread_create", detail: "a doorbell's".into(), source };
                self.ringer = Some(Ringer::start(&line.own, move || event.ring()).map_err(fail)?);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doorbell::Bell;
    use crate::doorbell::message::send;
    use std::fs;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::PathBuf;
    use std::sync::Arc;
    use std::thread;
    use stillframe_kernel::folder::Folder;
    use stillframe_kernel::trust::{Purpose, Trust};

    /// A listener, and somebody who connects to it, in a directory of their own.
    struct Pair {
        dir: PathBuf,
        listener: UnixListener,
        line: Arc<Line>,
    }

    impl Pair {
        fn new(name: &str) -> Pair {
            let dir = PathBuf::from(format!("/dev/shm/stillframe-test-client-{}-{name}", std::process::id()));
            fs::create_dir(&dir).unwrap();
            let guard = Guard::new(Trust::Any, Purpose::Write { granted: 0o700 });
            let bell = Bell::make(&Folder::open(&dir, false).unwrap(), &dir, guard, 0o600).unwrap();
            let listener = UnixListener::bind(dir.join("s")).unwrap();
            Pair { dir, listener, line: Line::new(&Arc::new(bell)).into() }
        }

        /// Connects, and hands the listener's side over; what comes of it.
        fn serve(&self, play: impl FnOnce(&UnixStream, &dyn Fn())) -> Result<()> {
            let (end, ends) = UnixStream::pair().unwrap();
            let (path, line) = (self.dir.join("s"), self.line.clone());
            let guard = Guard::new(Trust::Own, Purpose::Look);
            let serving = thread::spawn(move || serve(&path, guard, ends.as_fd(), &line));
            let socket = self.listener.accept().unwrap().0;
            play(&socket, &|| while !(serving.is_finished() || self.line.rings() && self.line.hears()) {});
            drop((end, socket));
            serving.join().unwrap()
        }
    }

    impl Drop for Pair {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.dir).unwrap();
        }
    }

    #[test]
    fn an_agent_is_rung_as_soon_as_it_is_there() {
        let pair = Pair::new("rung");
        let (memory, agent, own) = (File::open("/").unwrap(), Event::new().unwrap(), Event::new().unwrap());
        let foreign = Arc::clone(&pair.line.own);
        pair.line.foreign.get_or_init(|| foreign);
        let played = pair.serve(|socket, is_whole| {
            let all = [
                (VERSION, None),
                (7, None),
                (MEMORY, Some(memory.as_fd())),
                (AGENT.into(), Some(agent.as_fd())),
                // Others, and further counters, are as good as none.
                (AGENT.into(), Some(own.as_fd())),
                (3, Some(own.as_fd())),
                (7, Some(own.as_fd())),
                (7, Some(agent.as_fd())),
                (3, None),
            ];
            for (number, file) in all {
                assert!(send(socket, number, file).unwrap());
            }
            is_whole();
            local::wait_any(&[agent.as_fd()], None).unwrap();
            // An agent that has gone is not rung, and the next one is.
            assert!(send(socket, AGENT.into(), None).unwrap());
            while pair.line.rings() {}
            let next = Event::new().unwrap();
            assert!(send(socket, AGENT.into(), Some(next.as_fd())).unwrap());
            local::wait_any(&[next.as_fd()], None).unwrap();
        });
        played.unwrap();
        assert!(!pair.line.rings() && !pair.line.hears());
    }

    #[test]
    fn what_no_agent_says_is_an_error() {
        let pair = Pair::new("garbage");
        let (file, event) = (File::open("/").unwrap(), Event::new().unwrap());
        let (file, event) = (Some(file.as_fd()), Some(event.as_fd()));
        let first = [(VERSION, None), (7, None), (MEMORY, file)];
        let wrong: &[&[(i64, Option<BorrowedFd<'_>>)]] = &[
            &[(1, None)],
            &[(VERSION, file)],
            &[(VERSION, None), (0, None)],
            &[(VERSION, None), (-1, None)],
            &[(VERSION, None), (65_536, None)],
            &[(VERSION, None), (7, file)],
            &[(VERSION, None), (7, None), (MEMORY, None)],
            &[(VERSION, None), (7, None), (0, event)],
            &[first[0], first[1], first[2], (7, None)],
            &[first[0], first[1], first[2], (7, file)],
            &[first[0], first[1], first[2], (0, file)],
            &[first[0], first[1], first[2], (-2, None)],
            &[first[0], first[1], first[2], (i64::MAX, event)],
        ];
        for messages in wrong {
            let played = pair.serve(|socket, is_over| {
                // The other side may have gone before the last of them.
                messages.iter().for_each(|(number, file)| drop(send(socket, *number, *file)));
                is_over();
            });
            assert!(matches!(played, Err(Error::NotShared { .. })), "{messages:?}: {played:?}");
        }
    }
}
