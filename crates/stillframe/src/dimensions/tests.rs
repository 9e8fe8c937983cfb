use super::*;
use proptest::prelude::*;

/// A variable whose dimensions are given these names, or none.
fn variable(name: &str, shape: &[usize], dims: &str) -> Axes {
    let dims = (!dims.is_empty()).then(|| (ATTRIBUTE.to_string(), Scalar::from(dims)));
    Axes::new(name, shape, &dims.into_iter().collect())
}

fn named(arrays: &[Axes]) -> Vec<Vec<String>> {
    name_dimensions(arrays, &BTreeMap::new())
}

#[test]
fn names_are_given_by_the_attribute_if_it_names_each_dimension_once() {
    let given = |dims: &str, count: usize| variable("u", &vec![3; count], dims).given;
    let names = |names: &[&str]| names.iter().map(|name| Some((*name).to_string())).collect::<Vec<_>>();
    for dims in ["y x", "y, x", "y,\tx", " y\nx "] {
        assert_eq!(given(dims, 2), names(&["y", "x"]), "{dims:?}");
    }
    assert_eq!(given("ρ", 1), names(&["ρ"]));
    for dims in ["", "x", "x y z", "x x", "a/b c", "-a b", "a b\u{7}"] {
        assert_eq!(given(dims, 2), [None, None], "{dims:?}");
    }
    assert!(given("", 0).is_empty());
    let number = [(ATTRIBUTE.to_string(), Scalar::Int(3))].into_iter().collect();
    assert_eq!(given_names(&number, 1), None);
}

#[test]
fn dimensions_without_a_name_are_called_by_their_length() {
    let arrays = [("u", vec![4, 6]), ("v", vec![6]), ("w", vec![4, 4, 6, 4]), ("m", vec![4, 4]), ("s", vec![])];
    let arrays: Vec<Axes> = arrays.iter().map(|(name, shape)| variable(name, shape, "")).collect();
    let expected: [&[&str]; 5] = [&["n4", "n6"], &["n6"], &["n4_3", "n4_2", "n6", "n4"], &["n4_2", "n4"], &[]];
    assert_eq!(named(&arrays), expected);
}

#[test]
fn a_name_stands_for_one_length() {
    // Without a coordinate nobody has it, with one the coordinate.
    let (u, v, w) = (variable("u", &[4, 3], "y x"), variable("v", &[5, 3], "y x"), variable("w", &[4], "y"));
    assert_eq!(named(&[u.clone(), v.clone()]), [["y_4", "x"], ["y_5", "x"]]);
    assert_eq!(named(&[u.clone(), w]), [vec!["y", "x"], vec!["y"]]);
    let y = variable("y", &[5], "y");
    assert_eq!(named(&[u.clone(), v.clone(), y]), [vec!["y_4", "x"], vec!["y", "x"], vec!["y"]]);
    let outer = [("y".to_string(), 4)].into();
    assert_eq!(
        name_dimensions(&[u, v, variable("y", &[5], "y")], &outer),
        [vec!["y", "x"], vec!["y_5", "x"], vec!["y_5"]]
    );
}

#[test]
fn a_variable_that_is_no_coordinate_keeps_its_name() {
    let u = variable("u", &[7], "tax");
    assert_eq!(named(&[u.clone(), variable("tax", &[], "")]), [vec!["tax_7"], vec![]]);
    assert_eq!(named(&[u.clone(), variable("tax", &[10], "")]), [["tax_7"], ["n10"]]);
    assert_eq!(named(&[u.clone(), variable("tax", &[7], "")]), [["tax_7"], ["n7"]]);
    assert_eq!(named(&[u.clone(), variable("tax", &[7, 2], "tax z")]), [vec!["tax_7"], vec!["tax_7", "z"]]);
    assert_eq!(named(&[u, variable("tax", &[7], "tax")]), [["tax"], ["tax"]]);
}

#[test]
fn names_that_are_made_are_nobodys() {
    let arrays = [
        variable("n4", &[4], ""),
        variable("u", &[4, 4], ""),
        variable("v", &[9], "n4_2"),
        variable("y_4", &[], ""),
        variable("w", &[4], "y"),
        variable("x", &[5, 6], "y y_5"),
    ];
    let expected: [&[&str]; 6] = [&["n4_"], &["n4_2_", "n4_"], &["n4_2"], &[], &["y_4_"], &["y_5_", "y_5"]];
    assert_eq!(named(&arrays), expected);
    assert_eq!(named(&[variable("u", &[4], "n4"), variable("v", &[4], "")]), [["n4"], ["n4"]]);
}

proptest! {
    #[test]
    fn names_fit_all_arrays_in_whatever_order_they_come(
        mut arrays in proptest::collection::btree_map(
            "(x|y|x_2|n2|n3|n2_2|n2_|rank)",
            (proptest::collection::vec(2usize..5, 0..4), "(|x|y|n2|x y|y x|n2 n3|x_2 x|n2_2 y|x y n2|rank x)"),
            0..7,
        ).prop_map(|arrays| arrays.into_iter().map(|(name, (shape, dims))| variable(&name, &shape, &dims)).collect::<Vec<_>>()),
    ) {
        let names = named(&arrays);
        let mut lengths: BTreeMap<&str, usize> = BTreeMap::new();
        let coordinates: Vec<&str> = arrays.iter().filter(|array| array.is_coordinate()).map(|array| array.name.as_str()).collect();
        for (array, names) in arrays.iter().zip(&names) {
            prop_assert_eq!(names.len(), array.shape.len());
            prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "twice in one array");
            for (name, length) in names.iter().zip(&array.shape) {
                prop_assert_eq!(lengths.insert(name, *length).unwrap_or(*length), *length, "{} is of two lengths", name);
                let is_variable = arrays.iter().any(|other| other.name == *name);
                prop_assert!(!is_variable || coordinates.contains(&name.as_str()), "{} is a variable", name);
            }
            if array.is_coordinate() {
                prop_assert_eq!(&names[0], &array.name);
            }
            let alike = variable("another", &array.shape, "");
            if array.given.iter().all(Option::is_none) {
                let with_another: Vec<Axes> = arrays.iter().cloned().chain([alike]).collect();
                let again = named(&with_another);
                prop_assert_eq!(again.last(), Some(names), "arrays of one shape have the same names");
            }
        }
        let mut found: Vec<(String, Vec<String>)> = arrays.iter().map(|array| array.name.clone()).zip(names.clone()).collect();
        arrays.reverse();
        found.reverse();
        prop_assert_eq!(named(&arrays), found.into_iter().map(|(_, names)| names).collect::<Vec<_>>());
    }
}
