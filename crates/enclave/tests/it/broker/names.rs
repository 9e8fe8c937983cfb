//! Names and lists: which regions, ranks and groups are told of, and to whom.

use super::{LONG, Place};
use crate::common::watchdog;
use crate::enclosure::{NOBODY, may_enclose};
use crate::helper::{self, Helper, Play, check_play};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use stillframe::{Arena, Error, Group, Region, inspect};
use stillframe_kernel::local;
use stillframe_segment::broker::{Answer, Question};

#[test]
fn only_who_and_what_was_named_is_served() {
    let _watchdog = watchdog(300);
    let place = Place::new("named", false);
    let mut plays: Vec<Play> = ["a", "b", "run/c"].map(|name| Play::open(place.options(), name)).into_iter().collect();
    plays.iter_mut().for_each(Play::step);
    let mut broker = place.start("666", &["a", "run"]);
    broker.expect("serves");
    let names = inspect::regions(Path::new(&format!("unix:{}", place.socket().display()))).unwrap();
    let names: Vec<&str> = names.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["a", "run/c"]);
    check_play(&place.open("run/c").unwrap().newest().unwrap());
    for name in ["b", "none", "ru"] {
        assert!(matches!(place.open(name), Err(Error::NoRegion { .. })), "{name}");
    }
    broker.finish();
    if !may_enclose() {
        return;
    }
    let mut broker = place.start("666", &["user:1000", &format!("group:{}", NOBODY - 1)]);
    broker.expect("serves");
    let error = place.open("a").unwrap_err();
    assert!(error.to_string().contains("does not serve user 0 of group 0") && error.code() == 127, "{error}");
    for (user, group, is_served) in [(1000, 7, true), (7, NOBODY - 1, true), (7, 1000, false)] {
        let mut command = helper::command("say", &[&place.address("a")]);
        command.uid(user).gid(group);
        let said = Helper::start(command).hear().unwrap();
        assert_eq!(said == "version 1", is_served, "{said}");
    }
}

#[test]
fn groups_and_lists_go_through_the_broker() {
    let _watchdog = watchdog(300);
    for in_arena in [false, true] {
        let place = Place::new("groups", in_arena);
        let _broker = place.serve();
        let name = if in_arena { "pool/heat" } else { "heat" };
        let mut ranks: Vec<Region> = Vec::new();
        for rank in 0..12 {
            let mut region = place.options().rank(rank, 12).keep(3).create("heat").unwrap();
            let u = region.array::<u32>("u", &[10]).unwrap();
            region.slice_mut(&u).fill(rank);
            region.publish(1).commit().unwrap();
            ranks.push(region);
        }
        let group = Group::open(&place.address(name)).unwrap();
        let snapshot = group.newest().unwrap();
        for rank in 0..12 {
            assert_eq!(snapshot.rank(rank).slice::<u32>("u").unwrap(), [rank as u32; 10]);
        }
        for region in &mut ranks {
            region.publish(2).commit().unwrap();
        }
        assert_eq!(group.newest_after(Some(1), Some(LONG)).unwrap().version(), 2);
        let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
        let found = inspect::regions(&dir).unwrap();
        let by_path = inspect::regions(&place.regions()).unwrap();
        let names = |infos: &[inspect::RegionInfo]| infos.iter().map(|info| info.name.clone()).collect::<Vec<_>>();
        assert_eq!((found.len(), names(&found)), (12, names(&by_path)));
        assert_eq!(inspect::arenas(&dir).unwrap(), inspect::arenas(&place.regions()).unwrap());
        for (one, other) in found.iter().zip(&by_path) {
            assert_eq!((one.state.clone(), one.newest, one.rank), (other.state.clone(), other.newest, other.rank));
            assert!(one.planes.len() == other.planes.len() && one.allocated_bytes > 0);
        }
        assert_eq!(inspect::group(&dir, name).unwrap().unwrap().versions, [1, 2]);
        assert_eq!(inspect::verify(&dir, &format!("{name}/3")).unwrap(), []);
        // Nothing is made or removed there.
        let refused = |error: Error| assert!(error.to_string().contains("hands out regions to look at"), "{error}");
        refused(Region::options().dir(&dir).create("x").unwrap_err());
        refused(Arena::options().dir(&dir).bytes(1 << 30).create("y").unwrap_err());
        refused(inspect::remove(&dir, name, true).unwrap_err());
        assert!(inspect::collect(&dir).is_err());
    }
}

#[test]
fn a_list_that_is_longer_than_an_answer_is_whole() {
    let _watchdog = watchdog(300);
    let place = Place::new("long", true);
    let _broker = place.serve();
    let name = |number: usize| format!("{}-{number}", "long".repeat(30));
    for number in 0..600 {
        drop(place.options().create(&name(number)).unwrap());
    }
    let dir = PathBuf::from(format!("unix:{}", place.socket().display()));
    let found = inspect::regions(&dir).unwrap();
    assert_eq!(found.len(), 600);
    assert!(found.windows(2).all(|pair| pair[0].name < pair[1].name));
}

#[test]
fn ranks_that_no_answer_has_room_for_are_told_in_several() {
    let _watchdog = watchdog(300);
    let place = Place::new("sparse", false);
    let _broker = place.serve();
    // Directories are enough to be asked for, and none of them is a region.
    for rank in (0..10_000).step_by(2) {
        std::fs::create_dir_all(place.regions().join(format!("heat/{rank}"))).unwrap();
    }
    let (mut told, mut after) = (Vec::new(), None);
    loop {
        let socket = place.connect();
        assert!(local::send(&socket, &Question::Ranks { name: "heat".into(), after }.encode(), &[]).unwrap());
        let (Answer::Ranks { ranges, next }, 0) = place.hear(&socket) else { panic!("no ranks") };
        told.extend(ranges);
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(told, (0..10_000).step_by(2).map(|rank| (rank, rank)).collect::<Vec<_>>());
    let error = place.open("heat").unwrap_err();
    assert!(matches!(error, Error::NoRegion { .. }), "{error}");
}

#[test]
fn a_list_says_nothing_of_what_links_lead_to() {
    let _watchdog = watchdog(300);
    let place = Place::new("links", false);
    let _broker = place.serve();
    let mut play = Play::open(place.options(), "r");
    play.step();
    let outside = place.dir.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("head"), "secret").unwrap();
    std::os::unix::fs::symlink(&outside, place.regions().join("link")).unwrap();
    let names =
        |dir: &Path| -> Vec<String> { inspect::regions(dir).unwrap().into_iter().map(|info| info.name).collect() };
    assert_eq!(names(&place.regions()), ["link", "r"]);
    assert_eq!(names(Path::new(&format!("unix:{}", place.socket().display()))), ["r"]);
}
