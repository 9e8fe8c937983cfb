//! Machines that lose their memory, and are back before others have missed them.

use crate::common::watchdog;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use stillframe_etcd::shard_of;
use stillframe_link::{Means, identity};
use stillframe_node::{Service, ServiceOptions};
use stillframe_object::{Error, Objects};

const LONG: Duration = Duration::from_secs(60);

/// Directories of some nodes, and the job's certificate.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = PathBuf::from(format!("/dev/shm/stillframe-test-emptied-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        identity::create(dir.join("certificate"), "heat-17", identity::LIFETIME).unwrap();
        Place(dir)
    }

    fn objects(&self, name: &str) -> Objects {
        Objects::options().dir(self.0.join(name)).open().unwrap()
    }

    fn start(&self, name: &str) -> Service {
        let options = ServiceOptions {
            dir: self.0.join(name),
            name: name.into(),
            listen: "127.0.0.1:0".parse().unwrap(),
            advertise: None,
            identity: self.0.join("certificate"),
            names: Vec::new(),
            names_tls: None,
            memory_bytes: None,
            means: Means::Tls,
            // No lease ends by itself here, however long a node gets no processor.
            lease: Duration::from_secs(600),
        };
        let begin = Instant::now();
        loop {
            match Service::start(options.clone()) {
                // Whoever listens for the one before may be ending still.
                Err(stillframe_node::Error::Namesake { .. }) if begin.elapsed() < LONG => {}
                started => return started.unwrap(),
            }
        }
    }

    /// The memory of a machine is empty, as after it was started anew.
    fn empty(&self, name: &str) {
        std::fs::remove_dir_all(self.0.join(name)).unwrap();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Some objects have their home on that machine, and others elsewhere.
#[test]
fn writers_of_a_machine_that_lost_its_memory_are_lost_though_its_runtime_is_back_at_once() {
    let _watchdog = watchdog(240);
    // The other one keeps the names, or it does, and they are lost with it.
    for (first, second) in [("here", "there"), ("there", "here")] {
        let place = Place::new(first);
        let all = [first, second, "beside"];
        let mut services: Vec<_> = all.into_iter().map(|name| (name, Some(place.start(name)))).collect();
        let (here, there, beside) = (place.objects("here"), place.objects("there"), place.objects("beside"));
        let names: Vec<String> = (0..12).map(|number| format!("u{number}")).collect();
        let mut all = Vec::new();
        for name in &names {
            let object = there.create(name, "var u [8] int64").create().unwrap();
            let mut writer = object.write("{ var v [x:4] = u[x] }").rank(5).attach().unwrap();
            let other = beside.wait(name, LONG).unwrap();
            let mut other = other.write("{ var v [x:4] = u[x+4] }").rank(6).attach().unwrap();
            other.publish(1).unwrap();
            writer.publish(1).unwrap();
            let seen = here.wait(name, LONG).unwrap();
            let mut reader = seen.read("{ var v = u }").attach().unwrap();
            reader.reattach(1, LONG).unwrap();
            assert_eq!(seen.wait_newer(0, LONG).unwrap(), 1);
            // With a home that was lost, too, nobody may know any more whose they were.
            let home = services[0].1.as_ref().unwrap().homes();
            let shard = shard_of(object.description().id);
            let of = home.iter().find(|(of, _)| *of == shard).unwrap().1.node;
            all.push((writer, other, reader, of));
        }
        let (_, service) = services.iter_mut().find(|(name, _)| *name == "there").unwrap();
        let (lost, kept_names) =
            (service.as_ref().unwrap().node(), service.as_ref().unwrap().names_process().is_some());
        drop(service.take());
        place.empty("there");
        *service = Some(place.start("there"));
        for (_, _, reader, home) in &mut all {
            let error = reader.reattach(2, LONG).unwrap_err();
            assert!(matches!(error, Error::Lost { .. } | Error::LostElsewhere { .. }), "{error}");
            let is_named = error.to_string().contains(&format!("on node {}", lost.0));
            assert!(is_named || *home == lost || kept_names, "{error}");
        }
    }
}
