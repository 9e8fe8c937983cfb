//! What the tests of reading share: directories of their own, regions with content to tell apart, and their checkpoints.
#![allow(dead_code, unused_imports)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use stillframe::{
    AnySnapshot, Arena, Attributes, DType, Declaration, FormerGroup, Kind, Order, Region, RegionOptions, Scalar,
    Snapshot,
};
use stillframe_checkpoint::{Codec, Keep, SaveOptions, Saver};

#[path = "../../../../stillframe/tests/it/common/watchdog.rs"]
mod watchdog;

pub use watchdog::watchdog;

/// A directory of one test's own in shared memory, removed at its end: regions in `shm`, checkpoints in `store`.
pub struct Place(PathBuf);

/// Length of the arena: addresses, of which it takes what its regions do.
const ARENA_BYTES: u64 = 64 << 30;

/// Whether regions lie in arenas.
pub fn is_in_arena() -> bool {
    std::env::var("STILLFRAME_TEST_PLACE").as_deref() == Ok("arena")
}

impl Place {
    pub fn new(name: &str) -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/dev/shm/stillframe-test-{}-{number}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("shm")).unwrap();
        std::fs::create_dir_all(path.join("store")).unwrap();
        if is_in_arena() {
            Arena::options().dir(&path).bytes(ARENA_BYTES).create("shm").unwrap();
        }
        Place(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn shm(&self) -> PathBuf {
        self.0.join("shm")
    }

    pub fn store(&self) -> PathBuf {
        self.0.join("store")
    }

    pub fn options(&self) -> RegionOptions {
        Region::options().dir(self.shm())
    }

    pub fn newest(&self, name: &str) -> Snapshot {
        stillframe::Observer::options().dir(self.shm()).open(name).unwrap().newest().unwrap()
    }

    /// Names in the directory of regions, hidden ones too: if it is an arena's, of its regions and of what lies beside them.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.shm()).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        if is_in_arena() {
            names.retain(|name| name != "arena" && !name.starts_with("lease"));
            let regions = stillframe::inspect::regions(&self.shm()).unwrap();
            names.extend(regions.iter().map(|info| info.name.split('/').next().unwrap().to_string()));
            names.dedup();
            // The group of the run before, which has no file of its own.
            let former = FormerGroup::of(&self.options(), "g").unwrap();
            if former.is_some_and(|former| former.allocated_bytes().unwrap() > 0) {
                names.push(".g.former".into());
            }
        }
        names.sort();
        names
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Saves a version among those that are there, and returns its checkpoint's directory.
pub fn save(store: &Path, snapshot: impl Into<AnySnapshot>, chunk_bytes: usize, codec: Codec) -> PathBuf {
    let keep = Keep { newest: 100, ..Keep::default() };
    let options = SaveOptions::new().chunk_bytes(chunk_bytes).codec(codec).threads(2).keep(keep);
    Saver::open(store, options).unwrap().save(snapshot, &|_| {}).unwrap().path
}

/// A deterministic stream of numbers.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 29
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// A variable as a test knows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    pub name: String,
    pub dtype: DType,
    pub order: Order,
    pub units: String,
    pub attributes: Attributes,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Known {
    pub fn new(name: &str, dtype: DType, shape: &[usize], seed: u64) -> Known {
        let count = shape.iter().product::<usize>() * dtype.bytes();
        let mut numbers = Numbers(seed);
        let bytes = (0..count).map(|_| numbers.next() as u8).collect();
        let (units, attributes) = (String::new(), Attributes::new());
        Known { name: name.into(), dtype, order: Order::C, units, attributes, shape: shape.into(), bytes }
    }
}

/// A version as a test knows it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Version {
    pub number: u64,
    pub attributes: Attributes,
    pub variables: Vec<Known>,
}

impl Version {
    /// Some variables of several chunks, one without axes, one without elements.
    pub fn example(number: u64) -> Version {
        let mut u = Known::new("u", DType::Float(8), &[70, 40, 5], number);
        u.units = "K".into();
        u.attributes.insert("dims".into(), Scalar::from("x y z"));
        let mut v = Known::new("v", DType::Complex(8), &[300, 17], number + 1);
        v.order = Order::Fortran;
        let variables = vec![
            u,
            v,
            Known::new("steps", DType::Uint(4), &[], number + 2),
            Known::new("none", DType::Int(2), &[3, 0], number + 3),
        ];
        let attributes = BTreeMap::from([("time".into(), Scalar::from(0.1 * number as f64)), ("n".into(), 7.into())]);
        Version { number, attributes, variables }
    }

    pub fn publish(&self, options: RegionOptions, name: &str) -> Region {
        let mut region = options.create(name).unwrap();
        for known in &self.variables {
            let declaration = Declaration {
                name: known.name.clone(),
                dtype: known.dtype.clone(),
                order: known.order,
                units: known.units.clone(),
                attributes: known.attributes.clone(),
                kind: Kind::Loaned { shape: known.shape.clone() },
                pinned: false,
            };
            let id = region.declare(declaration).unwrap();
            let mut loan = region.loan_bytes(id).unwrap();
            loan.copy_from_slice(&known.bytes);
            loan.submit();
        }
        let mut publication = region.publish(self.number);
        for (name, value) in &self.attributes {
            publication = publication.attr(name, value.clone());
        }
        publication.commit().unwrap();
        region
    }

    /// What an observer sees.
    pub fn of(snapshot: &Snapshot) -> Version {
        let known = |view: &stillframe::VariableView| {
            let mut bytes = vec![0; view.bytes];
            snapshot.read(&view.name, 0, &mut bytes).unwrap();
            Known {
                name: view.name.clone(),
                dtype: view.dtype.clone(),
                order: view.order,
                units: view.units.clone(),
                attributes: view.attributes.clone(),
                shape: view.shape.clone(),
                bytes,
            }
        };
        Version {
            number: snapshot.version(),
            attributes: snapshot.attributes().clone(),
            variables: snapshot.variables().iter().map(known).collect(),
        }
    }
}
