//! Lists of regions and holders: whose they are, and in which enclave versions are held.

use super::roles::{listed, open};
use crate::common::watchdog;
use crate::helper::{Helper, check_play, until};
use crate::pair::{BYTES, Pair};
use std::fs::File;
use stillframe::inspect::{self, Holder};
use stillframe::{Arena, Observer, Region};

#[test]
fn all_enclaves_list_all_regions_by_the_same_names_and_say_whose_they_are() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("list") else { return };
    let _agents = pair.agents();
    let play = pair.produce();
    let mut producer = pair.start(1, "produce", &["guest/r"]);
    producer.expect("published");
    // Neither an arena nor a region beside them is an enclave's.
    let beside = pair.options().create("beside").unwrap();
    let pool = Arena::options().dir(&pair.dirs[0]).bytes(BYTES).create("pool").unwrap();
    let pooled = Region::options().arena(&pool).create("r").unwrap();
    let own = |state: &str| {
        let others = ["beside: live, None, []", "pool/r: live, None, []"];
        let guest = format!("guest/r: {state}, Some(\"guest\"), []");
        [others[0], &guest, &format!("host/r: {state}, Some(\"host, own\"), []"), others[1]].map(String::from)
    };
    let guests =
        |state: &str| format!("guest/r: {state}, Some(\"guest, own\"), []; host/r: {state}, Some(\"host\"), []");
    let asked = || pair.start(1, "list", &[]).hear().unwrap();
    until("the producers to be seen", || listed(&pair.dirs[0]) == own("live") && asked() == guests("live"));
    for name in ["host/r", "guest/r"] {
        check_play(&open(pair.dirs[0].to_str().unwrap(), name).newest().unwrap());
        pair.start(1, "say", &[name]).expect("version 1");
    }
    drop(play);
    producer.kill();
    until("their ends to be seen", || listed(&pair.dirs[0]) == own("dead") && asked() == guests("dead"));
    drop((beside, pooled));
}

#[test]
fn versions_that_another_enclave_holds_are_said_to_be_held_there() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("held") else { return };
    let _agents = pair.agents();
    let mut play = pair.produce();
    let mut observers = [0, 0].map(|_| pair.observe(1));
    let holders = || inspect::holders(&pair.dirs[0], "host/r").unwrap();
    let held = |version, versions| Holder {
        pid: None,
        enclave: Some("guest".into()),
        command: None,
        state: '?',
        version: Some(version),
        versions,
        age_ms: None,
    };
    assert_eq!(holders(), [held(1, 1)]);
    assert_eq!(holders()[0].to_string(), "somebody in enclave guest holds version 1");
    play.step();
    let later = pair.observe(1);
    play.step();
    assert_eq!(holders(), [held(1, 2)]);
    // Who holds them is seen there.
    let said = pair.start(1, "list", &[]).hear().unwrap();
    for observer in observers.iter().chain([&later]) {
        assert!(said.contains(&format!("({}) holds version ", observer.pid())), "{said}");
    }
    // Somebody of this enclave is told by himself, and first.
    let own = Observer::options().dir(&pair.dirs[0]).open("host/r").unwrap().newest().unwrap();
    let [first, second] = &holders()[..] else { panic!("{:?}", holders()) };
    assert_eq!((first.pid, first.version, &first.enclave), (Some(std::process::id() as i32), Some(3), &None));
    assert_eq!(*second, held(1, 2));
    drop(own);
    observers.iter_mut().for_each(|observer| drop(observer.kill()));
    until("what the dead held to be hidden", || holders() == [held(2, 1)]);
    drop(later);
    until("all to be hidden", || holders().is_empty());
}

#[test]
fn a_producer_that_has_no_room_says_in_which_enclave_versions_are_held() {
    let _watchdog = watchdog(300);
    let Some(pair) = Pair::new("crowd") else { return };
    let _agents = pair.agents();
    let said = pair.dirs[0].join("said");
    // One that is to give up at once, and one that waits.
    for timeout_ms in [Some("1"), None] {
        let name = format!("host/crowded-{}", timeout_ms.unwrap_or("waits"));
        let arguments: Vec<&str> = [name.as_str()].into_iter().chain(timeout_ms).collect();
        let mut command = pair.command(0, "crowd", &arguments);
        command.stderr(File::create(&said).unwrap()).env_remove(stillframe_kernel::remark::QUIET);
        let mut producer = Helper::start(command);
        producer.expect("published");
        let mut observer = pair.start(1, "hold", &[&name]);
        observer.expect("holds");
        producer.tell();
        producer.expect("published");
        producer.tell();
        if timeout_ms.is_some() {
            let error = producer.hear().unwrap();
            let why = "1 versions are held by observers, some of them in enclave guest: raise the bound";
            assert!(error.contains(why), "{error}");
            continue;
        }
        let remark = "has waited for room for 2 s: somebody in enclave guest holds version 1; 'still show";
        until("it to say what it waits for", || std::fs::read_to_string(&said).unwrap().contains(remark));
        observer.tell();
        producer.expect("published");
    }
}
