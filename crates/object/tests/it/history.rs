//! Random histories of writers that come, go, change their parts and publish, against a plain array of each version.

use crate::common::{Dir, watchdog};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use stillframe_object::{Error, Object, WriteFragment};

const LONG: Duration = Duration::from_secs(60);

/// How the object is cut among writers: along which axis, and where.
#[derive(Debug, Clone)]
struct Cut {
    by_columns: bool,
    column_major: bool,
    starts: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Epoch {
    cut: Cut,
    /// In which order writers publish which of the next versions; each publishes its versions in order.
    order: Vec<prop::sample::Index>,
    versions: u64,
    step: u64,
    loaned: bool,
    /// The last version is published by some only.
    unfinished: bool,
}

#[derive(Debug, Clone)]
struct Look {
    x: (u64, u64, u64),
    y: (u64, u64, u64),
    column_major: bool,
}

fn cuts(rows: u64, columns: u64) -> impl Strategy<Value = Cut> {
    (any::<bool>(), any::<bool>()).prop_flat_map(move |(by_columns, column_major)| {
        let extent = if by_columns { columns } else { rows };
        let starts = prop::collection::btree_set(1..extent, 0..4.min(extent as usize));
        starts.prop_map(move |starts| {
            let starts = std::iter::once(0).chain(starts).collect();
            Cut { by_columns, column_major, starts }
        })
    })
}

fn epochs(rows: u64, columns: u64) -> impl Strategy<Value = Epoch> {
    let order = prop::collection::vec(any::<prop::sample::Index>(), 40);
    (cuts(rows, columns), order, 1..4u64, 1..3u64, any::<bool>(), any::<bool>()).prop_map(
        |(cut, order, versions, step, loaned, unfinished)| Epoch { cut, order, versions, step, loaned, unfinished },
    )
}

fn along(extent: u64) -> impl Strategy<Value = (u64, u64, u64)> {
    (0..extent, 1..4u64, 1..=extent).prop_map(move |(start, step, count)| {
        let most = (extent - start).div_ceil(step);
        (start, step, count.min(most))
    })
}

fn looks(rows: u64, columns: u64) -> impl Strategy<Value = Look> {
    (along(rows), along(columns), any::<bool>()).prop_map(|(x, y, column_major)| Look { x, y, column_major })
}

fn element(version: u64, x: u64, y: u64) -> i32 {
    (version * 10_000 + x * 100 + y) as i32
}

fn order_of(column_major: bool) -> &'static str {
    if column_major { "view v columnmajor" } else { "view v" }
}

/// A writer, and where its elements are.
struct Writer {
    fragment: WriteFragment,
    from: (u64, u64),
    shape: (u64, u64),
    column_major: bool,
    next: u64,
}

impl Writer {
    fn attach(object: &Object, cut: &Cut, part: usize, rows: u64, columns: u64, loaned: bool) -> Writer {
        let extent = if cut.by_columns { columns } else { rows };
        let (start, end) = (cut.starts[part], cut.starts.get(part + 1).copied().unwrap_or(extent));
        let (from, shape) = match cut.by_columns {
            true => ((0, start), (rows, end - start)),
            false => ((start, 0), (end - start, columns)),
        };
        let text = format!("{} {{ var g [x:rows,y:columns] = u[x+x0,y+y0] }}", order_of(cut.column_major));
        let options = object.write(&text).bind("rows", shape.0 as i64).bind("columns", shape.1 as i64);
        let mut options = options.bind("x0", from.0 as i64).bind("y0", from.1 as i64).rank(part as u32);
        if loaned {
            options = options.loaned();
        }
        let fragment = options.attach().unwrap();
        Writer { fragment, from, shape, column_major: cut.column_major, next: 0 }
    }

    fn places(&self) -> Vec<(u64, u64)> {
        let (rows, columns) = self.shape;
        let place = |at: u64| match self.column_major {
            true => (self.from.0 + at % rows, self.from.1 + at / rows),
            false => (self.from.0 + at / columns, self.from.1 + at % columns),
        };
        (0..rows * columns).map(place).collect()
    }

    fn check(&mut self, version: u64, initial: u64) {
        let places = self.places();
        let own = self.fragment.variable_mut::<i32>("g").unwrap().to_vec();
        for (value, (x, y)) in own.iter().zip(places) {
            assert_eq!(*value, if version == initial { 0 } else { element(version, x, y) });
        }
    }

    fn publish(&mut self, version: u64) {
        let places = self.places();
        for (value, (x, y)) in self.fragment.variable_mut::<i32>("g").unwrap().iter_mut().zip(places) {
            *value = element(version, x, y);
        }
        self.fragment.publish(version).unwrap();
    }
}

fn check_look(object: &Object, look: &Look, version: u64, initial: u64) {
    let text = format!("{} {{ var w [i:n,j:m] = u[i*xs+x0,j*ys+y0] }}", order_of(look.column_major));
    let (x, y) = (look.x, look.y);
    let options = object.read(&text).bind("n", x.2 as i64).bind("m", y.2 as i64).threads(1);
    let options = options.bind("x0", x.0 as i64).bind("xs", x.1 as i64).bind("y0", y.0 as i64).bind("ys", y.1 as i64);
    let mut fragment = options.attach().unwrap();
    fragment.reattach(version, LONG).unwrap();
    for (at, value) in fragment.variable::<i32>("w").unwrap().iter().enumerate() {
        let at = at as u64;
        let (i, j) = if look.column_major { (at % x.2, at / x.2) } else { (at / y.2, at % y.2) };
        let wanted = if version == initial { 0 } else { element(version, x.0 + i * x.1, y.0 + j * y.1) };
        assert_eq!(*value, wanted, "{look:?} of version {version} at {i}, {j}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readers_see_what_writers_published(
        (rows, columns, initial, epochs, looks) in (2..9u64, 2..9u64, 0..3u64).prop_flat_map(|(rows, columns, initial)| {
            let epochs = prop::collection::vec(epochs(rows, columns), 1..4);
            (Just(rows), Just(columns), Just(initial), epochs, prop::collection::vec(looks(rows, columns), 3))
        })
    ) {
        let _watchdog = watchdog(120);
        let dir = Dir::new("history");
        let objects = dir.objects();
        let text = "var u [rows,columns] int32";
        let create = objects.create("u", text).bind("rows", rows as i64).bind("columns", columns as i64).initial(initial);
        let object = create.create().unwrap();
        let mut complete = initial;
        for epoch in &epochs {
            let parts = epoch.cut.starts.len();
            let attach = |part| Writer::attach(&object, &epoch.cut, part, rows, columns, epoch.loaned);
            let mut writers: Vec<Writer> = (0..parts).map(attach).collect();
            writers.iter_mut().for_each(|writer| writer.check(complete, initial));
            let versions: Vec<u64> = (1..=epoch.versions).map(|number| complete + number * epoch.step).collect();
            let mut left: Vec<usize> = (0..parts).collect();
            let mut seen = BTreeMap::new();
            for index in &epoch.order {
                if left.is_empty() {
                    break;
                }
                let part = left[index.index(left.len())];
                let writer = &mut writers[part];
                let version = versions[writer.next as usize];
                writer.publish(version);
                writer.next += 1;
                *seen.entry(version).or_insert(0) += 1;
                if writer.next == epoch.versions {
                    left.retain(|other| *other != part);
                }
                let newest = seen.iter().filter(|(_, count)| **count == parts).map(|(version, _)| *version).next_back();
                complete = newest.unwrap_or(complete);
                // Whoever is ahead keeps what others have still to publish: the newest complete version is always there.
                prop_assert_eq!(object.newest().unwrap(), complete);
                check_look(&object, &looks[0], complete, initial);
            }
            for look in &looks {
                check_look(&object, look, complete, initial);
            }
            if epoch.unfinished && parts > 1 {
                writers[0].publish(complete + 100);
            }
            drop(writers);
            for look in &looks {
                check_look(&object, look, complete, initial);
            }
        }
        let gone = object.read("{ var u = u }").attach().unwrap().reattach(complete + 1, Duration::from_millis(1));
        let is_gone = matches!(gone, Err(Error::Timeout { .. } | Error::Lost { .. }));
        prop_assert!(is_gone, "{:?}", gone);
    }
}
