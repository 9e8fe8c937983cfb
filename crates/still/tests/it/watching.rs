//! What `still watch --once` tells of regions whose producer is gone.

use crate::support::Scene;

#[test]
fn planes_are_listed_of_living_regions_only() {
    let scene = Scene::new();
    let (mut living, u) = scene.region("living", &[1000]);
    living.slice_mut(&u).fill(1.0);
    living.publish(1).commit().unwrap();
    let (mut gone, u) = scene.region("gone", &[1000]);
    gone.slice_mut(&u).fill(1.0);
    gone.publish(1).commit().unwrap();
    gone.close().unwrap();
    let frame = scene.ok(&["watch", "--once", "--interval", "0.05"]);
    let part = |name: &str| {
        let (_, part) = frame.split_once(&format!("\n\n{name}")).unwrap_or_else(|| panic!("{name} is not in\n{frame}"));
        part.split("\n\n").next().unwrap().to_string()
    };
    let (of_living, of_gone) = (part("living"), part("gone"));
    assert!(of_living.starts_with(": memory") && of_living.contains("\n  plane 0 "), "{frame}");
    assert!(of_gone.starts_with(" (dead): memory") && !of_gone.contains("\n  plane "), "{frame}");
    // Its memory is still there, and said.
    assert!(of_gone.contains(" in 1 plane") && of_gone.contains("holders: nobody"), "{frame}");
}
