//! Fields of records by their names, in `still get` and `still stats`.

use crate::stats::fill;
use crate::support::Scene;
use stillframe::{DType, Declaration, Kind, Region};

#[test]
fn fields_with_dots_in_their_names_are_reached() {
    let scene = Scene::new();
    let mut region = Region::options().dir(scene.dir()).create("dots").unwrap();
    let inner = DType::packed([("c", DType::Uint(1)), ("c.d", DType::Uint(1))]).unwrap();
    let outer = DType::packed([("b.c", DType::Uint(1)), ("a.b", inner.clone()), ("a", inner), ("a.c", DType::Uint(1))])
        .unwrap();
    let shape = vec![1];
    let cells = region.declare(Declaration::new("cells.x", outer, Kind::Managed { shape })).unwrap();
    fill(&mut region, cells, &[1, 2, 3, 4, 5, 6]);
    region.publish(1).commit().unwrap();
    for (field, value) in [("b.c", 1), ("a.b.c", 2), ("a.b.c.d", 3), ("a.c.d", 5), ("a.c", 6)] {
        assert_eq!(scene.ok(&["get", "dots", &format!("cells.x.{field}[0]")]).trim(), value.to_string(), "{field}");
        let told = scene.json(&["stats", "dots", &format!("cells.x.{field}"), "--once", "--json"]);
        assert_eq!(told["max"], value, "{field}");
    }
    for wrong in ["cells.x.b", "cells.x.a.b.d", "cells.x.a.c.d.e"] {
        let complaint = scene.complaint(2, &["get", "dots", wrong]);
        assert!(complaint.contains("no field '") && complaint.contains("b.c"), "{complaint}");
    }
}
