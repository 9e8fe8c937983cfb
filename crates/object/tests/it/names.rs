//! The keeper of names that is a directory does what every keeper has to do, and believes no damaged file.

use crate::contract;

use crate::common::{Dir, watchdog};
use crate::contract::Keeper;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use stillframe_object::{Description, Error, Names, Objects};

/// A handle that other processes would have.
#[derive(Debug)]
struct Handle(Objects);

impl Names for Handle {
    fn put(&self, name: &str, description: &Description) -> stillframe_object::Result<Description> {
        self.0.names().put(name, description)
    }
    fn get(&self, name: &str) -> stillframe_object::Result<Option<Description>> {
        self.0.names().get(name)
    }
    fn wait(&self, name: &str, timeout: Duration) -> stillframe_object::Result<Option<Description>> {
        self.0.names().wait(name, timeout)
    }
    fn remove(&self, name: &str, id: NonZeroU64) -> stillframe_object::Result<bool> {
        self.0.names().remove(name, id)
    }
    fn list(&self) -> stillframe_object::Result<Vec<String>> {
        self.0.names().list()
    }
}

fn in_directory(test: &str) -> Keeper {
    let place = Dir::new(test);
    let handles = (0..4).map(|_| Arc::new(Handle(place.objects())) as Arc<dyn Names>).collect();
    Keeper { handles, place: Box::new(place) }
}

contract!(in_directory);

#[test]
fn damaged_files_are_told_and_not_believed() {
    let dir = Dir::new("damaged");
    let objects = dir.objects();
    let object = objects.create("u", "var u [4] float64").create().unwrap();
    let file = dir.path().join(".objects/names/u");
    let good = std::fs::read(&file).unwrap();
    for bytes in [&b""[..], b"{", b"null", &good[..good.len() - 1], b"{\"text\":\"var u [4] float64\",\"id\":0}"] {
        std::fs::write(&file, bytes).unwrap();
        assert!(matches!(objects.object_named("u"), Err(Error::Corrupt { .. })), "{bytes:?}");
    }
    std::fs::write(&file, good).unwrap();
    objects.object_named("u").unwrap();
    let mut fragment = object.write("{ var u = u }").attach().unwrap();
    fragment.publish(1).unwrap();
    let board = dir.path().join(".objects/boards/u");
    let good = std::fs::read(&board).unwrap();
    for at in (0..good.len()).filter(|at| !(8..64).contains(at) || (24..32).contains(at)) {
        let mut bad = good.clone();
        bad[at] ^= 0x41;
        std::fs::write(&board, &bad).unwrap();
        // It is an error or another board, never a panic.
        let _ = dir.objects().object_named("u").unwrap().newest();
        let _ = object.write("{ var u = u }").wait(Duration::ZERO).attach();
        std::fs::write(&board, &good).unwrap();
    }
    std::fs::write(&board, &good[..good.len() - 3]).unwrap();
    assert!(dir.objects().object_named("u").unwrap().newest().is_err());
}
