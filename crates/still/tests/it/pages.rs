//! `still pages`, as a person and a program call it. Pools take root and large pages that can be gathered; elsewhere it is said why not.

use crate::support::Scene;
use serde_json::Value;

/// A pool that is given back whatever becomes of the test.
struct Pool<'s>(&'s Scene, String);

impl Drop for Pool<'_> {
    fn drop(&mut self) {
        self.0.still(&["pages", "give-back", &self.1]);
    }
}

fn listed(scene: &Scene) -> Value {
    let told = scene.still(&["pages", "--json"]);
    assert_eq!(told.code, 0, "{}", told.err);
    serde_json::from_str(&told.out).unwrap()
}

#[test]
fn pools_and_pages_are_shown_to_everybody() {
    let scene = Scene::new();
    let all = listed(&scene);
    assert!(all["pools"].is_array());
    for supply in all["supply"].as_array().unwrap() {
        assert!(supply["page"] == "2M" || supply["page"] == "1G", "{supply}");
        assert!(supply["total"].as_u64() >= supply["free"].as_u64(), "{supply}");
    }
    let text = scene.still(&["pages"]).out;
    assert!(text.contains("RESERVED"), "{text}");
}

#[test]
fn a_pool_is_made_shown_and_given_back() {
    let scene = Scene::new();
    let name = format!("test-still-{}", std::process::id());
    let made = scene.still(&["pages", "reserve", "7M", "--name", &name]);
    if made.code != 0 {
        assert!(
            ["only root", "no pages of 2M", "could be gathered"].iter().any(|why| made.err.contains(why)),
            "{}",
            made.err
        );
        eprintln!("skipped: {}", made.err);
        return;
    }
    let pool = Pool(&scene, name.clone());
    assert!(made.out.contains("8.0 MiB, 4 pages of 2M"), "{}", made.out);
    let all = listed(&scene);
    let own = all["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == name.as_str()).unwrap().clone();
    assert_eq!((own["bytes"].as_u64(), own["free_bytes"].as_u64()), (Some(8 << 20), Some(8 << 20)), "{own}");
    assert_eq!(own["holders"], Value::Array(Vec::new()));
    assert!(scene.still(&["pages"]).out.contains(&name));
    let again = scene.still(&["pages", "reserve", "2M", "--name", &name]);
    assert!(again.code == 1 && again.err.contains("already"), "{}", again.err);
    let given = scene.still(&["pages", "give-back", &name]);
    assert!(given.code == 0 && given.out.contains("the kernel's again"), "{}", given.err);
    std::mem::forget(pool);
    let gone = scene.still(&["pages", "give-back", &name]);
    assert!(gone.code == 1 && gone.err.contains("there is no pool"), "{}", gone.err);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = Scene::new();
    for wrong in [&["pages", "reserve", "0"][..], &["pages", "reserve", "1M", "--page", "3M"], &["pages", "reserve"]] {
        assert_eq!(scene.still(wrong).code, 2, "{wrong:?}");
    }
    let told = scene.still(&["pages", "reserve", "2M", "--name", "../x"]);
    assert!(told.code == 1 && told.err.contains("no name of a pool"), "{}", told.err);
}
