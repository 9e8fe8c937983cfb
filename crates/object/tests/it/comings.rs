//! Writers that come, go and publish in any order: the newest complete version never goes back, and can be read.

use crate::common::{Dir, watchdog};
use crate::tier::by_tier;
use proptest::prelude::*;
use std::time::Duration;
use stillframe_object::{Object, WriteFragment};

/// First cell and number of cells of those that writers want.
const PARTS: [(u64, u64); 8] = [(0, 3), (3, 3), (0, 3), (3, 3), (0, 2), (2, 1), (3, 2), (0, 6)];

#[derive(Debug, Clone)]
enum Step {
    /// Somebody wants these cells.
    Attach {
        start: u64,
        count: u64,
        keep: usize,
    },
    Detach(prop::sample::Index),
    /// The next version of a writer, or one beyond what others have.
    Publish(prop::sample::Index, u64),
    Collect,
}

fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (prop::sample::select(&PARTS[..]), 1..3usize)
            .prop_map(|((start, count), keep)| Step::Attach { start, count, keep }),
        2 => any::<prop::sample::Index>().prop_map(Step::Detach),
        12 => (any::<prop::sample::Index>(), 0..4u64).prop_map(|(index, by)| Step::Publish(index, by)),
        1 => Just(Step::Collect),
    ]
}

fn read_newest(object: &Object) -> u64 {
    let newest = object.newest().unwrap();
    let mut all = object.read("{ var v = u }").attach().unwrap();
    all.reattach(newest, Duration::ZERO).unwrap();
    assert!(all.variable::<i32>("v").unwrap().iter().all(|value| *value == newest as i32));
    newest
}

proptest! {
    #![proptest_config(ProptestConfig { cases: by_tier(75, 300), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_newest_complete_version_never_goes_back(steps in prop::collection::vec(steps(), 1..60)) {
        let _watchdog = watchdog(120);
        let dir = Dir::new("comings");
        let object = dir.objects().create("u", "var u [6] int32").create().unwrap();
        let mut writers: Vec<WriteFragment> = Vec::new();
        let mut newest = 0;
        for (number, step) in steps.iter().enumerate() {
            match step {
                Step::Attach { start, count, keep } => {
                    let text = format!("{{ var v [x:{count}] = u[x+{start}] }}");
                    // Living writers do not give way.
                    writers.extend(object.write(&text).keep(*keep).wait(Duration::ZERO).attach());
                }
                Step::Detach(index) if !writers.is_empty() => {
                    let at = index.index(writers.len());
                    writers.remove(at).detach().unwrap();
                }
                Step::Publish(index, by) if !writers.is_empty() => {
                    let at = index.index(writers.len());
                    let furthest = writers.iter().map(WriteFragment::version).max().unwrap();
                    let next = writers[at].version() + 1;
                    let version = if *by == 0 { furthest.max(next) } else { next + by / 3 };
                    writers[at].variable_mut::<i32>("v").unwrap().fill(version as i32);
                    writers[at].publish(version).unwrap();
                }
                Step::Collect => object.collect().unwrap(),
                _ => {}
            }
            let now = read_newest(&object);
            prop_assert!(now >= newest, "step {number}: {now} after {newest}");
            newest = now;
        }
    }
}
