//! What is said to who types something that there is not, as other programs have it.

use crate::support::Scene;

#[test]
fn help_is_a_command_and_an_option_of_each() {
    let scene = Scene::new();
    assert_eq!(scene.ok(&["help"]), scene.ok(&["--help"]));
    for command in ["get", "show", "watch", "restore", "stats", "export"] {
        assert_eq!(scene.ok(&["help", command]), scene.ok(&[command, "--help"]), "{command}");
    }
    assert!(scene.complaint(2, &["help", "nosuch"]).contains("nosuch"));
}

#[test]
fn a_version_is_no_place_counted_from_the_newest() {
    let scene = Scene::new();
    let (mut region, _) = scene.region("heat", &[4]);
    region.publish(3).commit().unwrap();
    let commands: [&[&str]; 6] = [
        &["get", "heat", "u", "--version"],
        &["show", "heat", "--version"],
        &["stats", "heat", "u", "--version"],
        &["export", "heat", "--version"],
        &["restore", "store", "--version"],
        &["verify", "store", "--version"],
    ];
    for command in commands.iter().copied().chain([&["safe", "store"][..]]) {
        for given in ["-1", "newest", "1.5", "18446744073709551616"] {
            let told = scene.complaint(2, &[command, &[given]].concat());
            assert!(
                told.contains(&format!("'{given}'")) && told.contains("leave it out for the newest"),
                "{command:?}: {told}"
            );
            assert!(told.contains("'still show'"), "{command:?}: {told}");
        }
    }
    assert!(scene.ok(&["get", "heat", "u", "--version", "3"]).contains("version 3"));
}

#[test]
fn elements_are_chosen_behind_the_name() {
    let scene = Scene::new();
    let (mut region, u) = scene.region("heat", &[2, 3]);
    region.slice_mut(&u).copy_from_slice(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    region.publish(3).commit().unwrap();
    assert_eq!(scene.ok(&["get", "heat", "u[0, -2]"]), "1.0\n");
    assert!(scene.complaint(2, &["get", "heat", "u[0][1]"]).contains("'u[0, 1]'"));
    for wrong in [
        &["get", "heat", "u", "-i", "-1"][..],
        &["get", "heat", "u", "-1"],
        &["get", "heat", "u", "--index", "1"],
        &["stats", "heat", "u", "-i", "-1"],
    ] {
        let told = scene.complaint(2, wrong);
        assert!(told.contains("'u[-1]'") && told.contains("--version") && !told.contains("-- -"), "{wrong:?}: {told}");
        assert!(told.contains(&format!("see `still {} --help`", wrong[0])), "{wrong:?}: {told}");
    }
    assert!(scene.complaint(2, &["ls", "-x"]).contains("see `still ls --help`"));
    assert!(scene.complaint(2, &["--nonsense"]).contains("see `still --help`"));
}
