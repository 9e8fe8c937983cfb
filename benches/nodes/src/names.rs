//! What names cost: objects that a process creates, a fragment that it attaches in each and publishes; and plain puts of the same texts.

use crate::{Failure, PATIENCE, now_ns, say};
use std::collections::BTreeMap;
use std::io::BufRead;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use stillframe::Observer;
use stillframe_etcd::{Etcd, Tls};
use stillframe_link::Identity;
use stillframe_link::identity::{AUTHORITY, CERTIFICATE, KEY};
use stillframe_object::{Description, Object, Objects, WriteFragment};

/// A page of numbers, which one fragment has.
const TEXT: &str = "var u [512] float64";
const WRITTEN: &str = "{ var u = u }";

/// The region in which a runtime tells its node's programs which versions are complete: docs/format.md.
const COMPLETE: u32 = u32::MAX;

/// How long to wait before a region is looked for again.
const AGAIN: Duration = Duration::from_millis(10);

fn name_of(process: usize, object: usize) -> String {
    format!("names/p{process}/u{object}")
}

/// Does for each line what it says, and prints when it began and when it had done it.
pub(crate) fn objects(dir: PathBuf, process: usize, count: usize) -> Result<(), Failure> {
    let all = Objects::options().dir(&dir).open()?;
    let (mut objects, mut fragments) = (Vec::<Object>::new(), Vec::<WriteFragment>::new());
    let mut watched = Vec::<Observer>::new();
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let words: Vec<&str> = line.split_whitespace().collect();
        let begin = now_ns()?;
        let mut published = Vec::with_capacity(fragments.len());
        match words[..] {
            ["create"] => {
                for object in 0..count {
                    objects.push(all.create(&name_of(process, object), TEXT).create()?);
                }
            }
            ["attach"] => {
                for object in &objects {
                    fragments.push(object.write(WRITTEN).attach()?);
                }
            }
            ["fill", version] => {
                let version: u8 = version.parse()?;
                for fragment in &mut fragments {
                    fragment.bytes_mut()?.fill(version);
                }
            }
            ["publish", version] => {
                let version = version.parse()?;
                for fragment in &mut fragments {
                    published.push(now_ns()?);
                    fragment.publish(version)?;
                }
            }
            ["watch", of] => {
                let of = of.parse()?;
                for object in 0..count {
                    watched.push(watch(&dir, &name_of(of, object))?);
                }
            }
            ["known", version] => {
                let version = version.parse()?;
                for observer in &watched {
                    observer.wait_newer(Some(version - 1), Some(PATIENCE))?;
                    published.push(u128::from(observer.version(version)?.published_ns()));
                }
            }
            _ => return Err(format!("'{line}' is nothing that it does").into()),
        }
        let end = now_ns()?;
        let times: Vec<String> = [begin, end].iter().chain(&published).map(u128::to_string).collect();
        say(times.join(" "))?;
    }
    Ok(())
}

/// Where this node's runtime says which versions of an object of another node are complete, which the object's home decides.
fn watch(dir: &Path, name: &str) -> Result<Observer, Failure> {
    let begin = Instant::now();
    loop {
        match Observer::options().dir(dir).open(&format!("objects/{name}/{COMPLETE}")) {
            Err(stillframe::Error::NoRegion { .. }) if begin.elapsed() < PATIENCE => thread::sleep(AGAIN),
            opened => return Ok(opened?),
        }
    }
}

/// Puts what `objects` creates, key by key, for each line; as it, prints when it began and when it had done it.
pub(crate) fn put(endpoint: &str, certificate: &Path, process: usize, count: usize) -> Result<(), Failure> {
    let file = |name: &str| certificate.join(name);
    let name = Some(Identity::open(certificate)?.name());
    let tls = Tls { ca: file(AUTHORITY), certificate: file(CERTIFICATE), key: file(KEY), name };
    // As long as the prefix of the job, whose runtimes do not look there.
    let etcd = Etcd::options().prefix("plain-puts/bench").endpoint(endpoint).tls(tls).open()?;
    let described = |object: usize| {
        let id = NonZeroU64::MIN.saturating_add((process << 32 | object) as u64 | 1 << 63);
        Description { text: TEXT.into(), bindings: BTreeMap::new(), initial: 0, id }
    };
    // It makes the connection.
    etcd.put_plain("names/first", &described(count))?;
    say("ready")?;
    for line in std::io::stdin().lock().lines() {
        line?;
        let begin = now_ns()?;
        for object in 0..count {
            etcd.put_plain(&name_of(process, object), &described(object))?;
        }
        say(format!("{begin} {}", now_ns()?))?;
    }
    Ok(())
}
