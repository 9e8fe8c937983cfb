use super::*;
use crate::checkpointer::Checkpointer;
use crate::checkpointer::tests::shared;
use crate::status::Status;
use std::path::PathBuf;
use stillframe::Region;

#[test]
fn versions_that_come_and_go_between_attaching_and_the_first_look_are_told() {
    for (options, missed) in [
        (Checkpointer::options(), 3),
        (Checkpointer::options().all(true), 3),
        (Checkpointer::options().every(5), 1),
        (Checkpointer::options().when("true").unwrap(), 3),
    ] {
        let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
        let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
        let mut region = Region::options().dir(&regions).create("r").unwrap();
        region.array::<f64>("u", &[4]).unwrap();
        region.publish(10).commit().unwrap();
        let shared = Arc::new(shared(options.dir(&regions), &to));
        let mut watch = Watch::new(shared.clone(), find(&shared.options, "r").unwrap());
        let target = watch.attach().unwrap().unwrap();
        for version in [11, 12, 15] {
            region.publish(version).commit().unwrap();
        }
        watch.look(&target).unwrap();
        assert_eq!(shared.record().status.missed, missed);
    }
}

#[test]
fn a_version_of_a_program_that_ends_right_after_it_is_saved() {
    let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
    let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
    let mut region = Region::options().dir(&regions).create("r").unwrap();
    let shared = Arc::new(shared(Checkpointer::options().dir(&regions).once(true), &to));
    let target = find(&shared.options, "r").unwrap();
    let mut watch = Watch::new(shared, target);
    let target = watch.attach().unwrap().unwrap();
    let Err(error) = watch.look(&target) else { panic!("there is no version") };
    region.publish(7).commit().unwrap();
    region.close().unwrap();
    assert!(matches!(watch.forgive(error), Ok(Look::On)));
    assert!(matches!(watch.look(&target), Ok(Look::Done)));
    assert_eq!(watch.taken.unwrap().0, 7);
}

/// A region whose multiples of ten are due, of which one may wait: version 10 does.
struct Tens {
    _dir: tempfile::TempDir,
    to: PathBuf,
    region: Region,
    shared: Arc<Shared>,
    watch: Watch,
    target: AnyObserver,
}

impl Tens {
    fn begin() -> Tens {
        let dir = tempfile::Builder::new().prefix("checkpointer-").tempdir_in("/dev/shm").unwrap();
        let (regions, to) = (dir.path().join("regions"), dir.path().join("store"));
        let mut region = Region::options().dir(&regions).keep(8).create("r").unwrap();
        region.array::<f64>("u", &[4]).unwrap();
        region.publish(10).commit().unwrap();
        // A second one is not held, so that nothing after the first is looked at.
        let options = Checkpointer::options().dir(&regions).every(10).all(true).held(1).at_end(true);
        let shared = Arc::new(shared(options, &to));
        let mut watch = Watch::new(shared.clone(), find(&shared.options, "r").unwrap());
        let target = watch.attach().unwrap().unwrap();
        watch.look(&target).unwrap();
        Tens { _dir: dir, to, region, shared, watch, target }
    }

    /// What is known of it when it has stopped, and all is saved that can be.
    fn stop(mut self) -> Status {
        let shared = &self.shared;
        shared.command(Command::Stop);
        std::thread::scope(|scope| {
            scope.spawn(|| shared.save_all());
            self.watch.finish(&self.target).unwrap();
            shared.end_watch(Ok(()));
        });
        shared.record().status()
    }
}

#[test]
fn who_stops_saves_the_newest_though_others_before_it_were_not_looked_at() {
    let mut tens = Tens::begin();
    for version in [20, 30, 35] {
        tens.region.publish(version).commit().unwrap();
    }
    let status = tens.stop();
    // 35 stands for 30.
    assert_eq!((&status.safe[..], status.missed), (&[10, 35][..], 1));
}

#[test]
fn what_could_not_be_saved_is_tried_again_by_who_stops_besides_the_newest() {
    let mut tens = Tens::begin();
    let held = tens.shared.record().queue.pop_front().unwrap();
    let dir = tens.to.clone();
    let full = Error::NoSpace { dir, version: 10, needed_bytes: 1, free_bytes: Some(0), lacks_inodes: false };
    tens.shared.record_outcome(held, Err(full));
    tens.region.publish(35).commit().unwrap();
    let status = tens.stop();
    assert_eq!((&status.safe[..], &status.unsaved[..]), (&[10, 35][..], &[][..]), "{:?}", status.error);
}
