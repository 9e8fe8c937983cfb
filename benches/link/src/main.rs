//! Sends a file in shared memory to the memory of another thread, over a connection to this machine.
//!
//! `link-bench tls|plain|fabric:PROVIDER MIB ROUNDS` prints the seconds of each round, from the call to the receiver's word that it has all, and those
//! that processors worked for it. With `memory` behind it, it sends from memory and not from a file: a runtime does so with versions.
//! `link-bench messages BYTES ROUNDS` prints those of a message there and back.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use stillframe_fabric::Libfabric;
use stillframe_kernel::process_time;
use stillframe_link::{Connection, Error, Identity, Listener, Means, Options, Source, identity};

const LIMIT: Duration = Duration::from_secs(100);

fn pair(identity: &Identity, options: &Options) -> Result<(Connection, Connection), Error> {
    let listener = Listener::bind(([127, 0, 0, 1], 0).into(), identity, options)?;
    let connects = Connection::connect(listener.address(), identity, options, LIMIT)?;
    let accepts = listener.accept(LIMIT)?.ok_or(Error::NoMemory { what: "a connection".into() })?;
    Ok((connects, accepts))
}

fn receive(connection: Connection, bytes: usize, rounds: usize) -> Result<(), Error> {
    let (sender, mut receiver) = connection.split();
    let mut into = vec![1; bytes];
    for _ in 0..rounds {
        if let Some(mut frame) = receiver.next(LIMIT)? {
            let wanted = into.len().min(frame.bulk_bytes() as usize);
            frame.read(&mut into[..wanted], LIMIT)?;
        }
        sender.send(2, &[], Source::Nothing, LIMIT)?;
    }
    assert!(into.iter().step_by(4096).all(|byte| *byte == 7), "other bytes came than were sent");
    Ok(())
}

fn run(means: Means, body: &[u8], bulk: Source<'_>, rounds: usize) -> Result<(), Error> {
    let dir = env::temp_dir().join(format!("link-bench-{}", std::process::id()));
    let identity = identity::create(&dir, "bench", identity::LIFETIME)?;
    let _ = fs::remove_dir_all(&dir);
    let (connects, accepts) = pair(&identity, &Options { means, ..Options::default() })?;
    thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(accepts, bulk.bytes() as usize, rounds));
        let (sender, mut receiver) = connects.split();
        for _ in 0..rounds {
            let (begin, worked) = (Instant::now(), process_time());
            sender.send(1, body, bulk, LIMIT)?;
            receiver.next(LIMIT)?;
            println!("{} {}", begin.elapsed().as_secs_f64(), (process_time() - worked).as_secs_f64());
        }
        receiving.join().unwrap_or(Ok(()))
    })
}

/// A way for bulk by its name.
fn named(name: &str) -> Result<Means, String> {
    match name.strip_prefix("fabric:") {
        Some(provider) => {
            Libfabric::open(provider).map(|fabric| Means::Fabric(Arc::new(fabric))).map_err(|error| error.to_string())
        }
        None => name.parse(),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().collect();
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse::<usize>().ok());
    let done = match (arguments.get(1).map(String::as_str), number(2), number(3)) {
        (Some("messages"), Some(bytes), Some(rounds)) => run(Means::Tls, &vec![7; bytes], Source::Nothing, rounds),
        (Some(means), Some(mib), Some(rounds)) => {
            let means = match named(means) {
                Ok(means) => means,
                Err(error) => {
                    eprintln!("{means}: {error}");
                    return ExitCode::FAILURE;
                }
            };
            if arguments.get(4).is_some_and(|word| word == "memory") {
                return ended(run(means, &[], Source::Bytes(&vec![7; mib << 20]), rounds));
            }
            let path = format!("/dev/shm/link-bench-{}", std::process::id());
            let bytes = mib << 20;
            let file = File::options().read(true).write(true).create_new(true).open(&path).and_then(|file| {
                fs::remove_file(&path)?;
                file.write_all_at(&vec![7; bytes], 0)?;
                Ok(file)
            });
            match file {
                Ok(file) => run(means, &[], Source::file(&file, 0, bytes as u64), rounds),
                Err(error) => {
                    eprintln!("{path}: {error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        _ => {
            eprintln!(
                "usage: link-bench tls|plain|fabric:PROVIDER MIB ROUNDS [memory], or link-bench messages BYTES ROUNDS"
            );
            return ExitCode::FAILURE;
        }
    };
    ended(done)
}

fn ended(done: Result<(), Error>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
