//! What is said about mistakes, and where.

use drepl::{Bindings, Diagnostics, Program, Schema};

const MESH: &str = "\
const N = 10
type Cell struct { rho, e float64; flux [3]float32; id int32 }
type Small struct { rho float64; id int32 }
var mesh [N,N]Cell
var line [1000]float64
";

fn bind(text: &str) -> Result<Schema, Diagnostics> {
    Program::parse(text)?.bind(&Bindings::new())
}

/// `line:column code: message (help)` of each mistake.
fn told(diagnostics: &Diagnostics) -> Vec<String> {
    let told = diagnostics.iter().map(|one| {
        let help = one.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{} {}: {}{help}", one.place.line, one.place.column, one.code.name(), one.message)
    });
    told.collect()
}

#[track_caller]
fn says(text: &str, expected: &[&str]) {
    let found = bind(text).expect_err("this text has mistakes");
    assert_eq!(told(&found), expected, "\n{found}");
    // Whatever is told can be shown.
    assert_eq!(found.to_string().matches("error[").count(), expected.len());
}

/// Mistakes of views of `mesh` and `line`; their lines count from the first view.
#[track_caller]
fn says_of_views(views: &str, expected: &[&str]) {
    let lines = MESH.lines().count();
    let found = bind(&format!("{MESH}{views}")).expect_err("these views have mistakes");
    let told: Vec<String> = told(&found)
        .into_iter()
        .map(|one| {
            let (line, rest) = one.split_once(':').unwrap();
            format!("{}:{rest}", line.parse::<usize>().unwrap() - lines)
        })
        .collect();
    assert_eq!(told, expected, "\n{found}");
}

#[test]
fn views_are_looked_at_beside_objects_with_mistakes() {
    let text = "var bad [0]int8\nvar good [4]int8\nview a { var b = bad }\nview c { var d [i:5] = good[i] }";
    let help = "shift or shorten it; in a view that says `clipped`, what lies outside is a hole";
    let second = format!("4:29 range: indices 0 to 4 of an axis of 0 to 3 ({help})");
    says(text, &["1:10 extent: an extent of 0 (an extent is at least 1)", &second]);
}

#[test]
fn a_mistake_is_shown_with_its_line_a_marker_and_a_suggestion() {
    let found = bind("var mesh [10]float64\nview v { var m = mehs }").unwrap_err();
    let expected = "\
error[unknown]: no object is named `mehs`
 --> <text>:2:18
  |
2 | view v { var m = mehs }
  |                  ^^^^
  |
  = help: did you mean `mesh`?";
    assert_eq!(found.to_string(), expected);
    let one = found.iter().next().unwrap();
    assert_eq!((one.place.line, one.place.column, one.place.end_line, one.place.end_column), (2, 18, 2, 22));
    assert_eq!(one.to_string(), expected);
}

#[test]
fn two_places_of_one_mistake_are_both_shown() {
    let found = bind("var line [9]int8\nview v {\n  var a = line\n  var b [i] = line[i*2 + 1]\n}").unwrap_err();
    let expected = "\
error[overlap]: line[1] lies in this view twice
 --> <text>:4:7
  |
3 |   var a = line
  |       -------- and here
4 |   var b [i] = line[i*2 + 1]
  |       ^^^^^^^^^^^^^^^^^^^^^ here
  |
  = help: only a view that says `readonly` may hold an element more than once";
    assert_eq!(found.to_string(), expected);
    let one = found.iter().next().unwrap();
    assert_eq!((one.labels[0].place.line, one.labels[0].place.column), (3, 7));
}

#[test]
fn many_mistakes_are_found_at_once() {
    let text = "\
var a [10 float64
const = 4
type T struct { x float64
var c [10]T
view v { var x = c[i }
view w { x = c[i] }
replica x y { view v }
const K = 3 + * 4
view ok { var x [3:y,] = c[i:5,j] }
var d [1a]float64; const L = 99999999999999999999
dataset { view g { var a = b } }
@@@ const view = 5
view clipp clippd { var m = c }
view rowmajor columnmajor { var m = c }
/* open
";
    says(
        text,
        &[
            "1:11 syntax: expected `,` or `]`, found `float64`",
            "2:7 syntax: expected the name of a constant, found `=`",
            "4:1 syntax: expected `}`, found `var`",
            "5:22 syntax: expected `,` or `]`, found `}`",
            "6:10 syntax: expected `var`, found `x`",
            "7:11 syntax: expected `{`, or the name of a file in quotes, found `y`",
            "8:15 syntax: expected a number, a name or `(`, found `*`",
            "9:29 syntax: extents stand on the left (write `var a [x:16] = grid[x]`)",
            "10:8 syntax: `1a` is neither a number nor a name (names begin with a letter; numbers are whole: 1000, \
             1_000, 0x3e8)",
            "10:30 arithmetic: 99999999999999999999 does not fit a 64-bit integer",
            "11:11 syntax: expected `var`, `const` or `type`, found `view` (views stand behind the dataset's braces)",
            "12:1 syntax: `@` means nothing here",
            "12:11 syntax: expected the name of a constant, found `view` (`view` is a word of the language and cannot \
             be a name)",
            "13:12 syntax: `clippd` is no attribute here (did you mean `clipped`?)",
            "14:15 duplicate: a view is either `rowmajor` or `columnmajor`",
            "15:1 syntax: this comment has no end (close it with `*/`)",
        ],
    );
}

#[test]
fn unbound_names_are_told_where_they_are_used() {
    says(
        "const length = 3\nvar grid [lenght,height] float64",
        &[
            "2:11 unbound: `lenght` is neither a constant nor bound by the caller (did you mean `length`?)",
            "2:18 unbound: `height` is neither a constant nor bound by the caller (declare it, `const height = …`, or \
             pass a number for `height`)",
        ],
    );
    let schema = Program::parse("var grid [64] float64").unwrap().bind(&Bindings::from([("ymin", 3)])).unwrap();
    let bindings = Bindings::from([("xmin", 48)]);
    let found = schema.fragment("{ var g[x:16] = grid[x+xmn] }", &bindings).unwrap_err();
    let expected = "1:24 unbound: `xmn` is neither a constant nor bound by the caller (did you mean `xmin`?)";
    assert_eq!(told(&found), [expected]);
    let found = schema.fragment("{ var g[x:16] = grid[ymi] }", &bindings).unwrap_err();
    assert_eq!(told(&found), ["1:22 index: `ymi` stands on the right side only (did you mean `ymin`?)"]);
    // Alone on the right it would else stand for all of the axis.
    let found = schema.fragment("{ var g = grid[k] }", &bindings).unwrap_err();
    let help = "write `k` on the left, too; or pass a number for `k` to choose one index";
    assert_eq!(told(&found), [format!("1:16 index: `k` stands on the right side only ({help})")]);
}

#[test]
fn cycles_are_told_with_their_way() {
    says(
        "const A = B + 1\nconst B = C\nconst C = A\ntype Loop struct { x float64; next Loop }\ntype P struct { q Q }\ntype \
         Q [3]P\nvar a [A]P",
        &[
            "3:11 cycle: constants need each other: A → B → C → A",
            "4:36 cycle: types contain each other: Loop → Loop",
            "6:11 cycle: types contain each other: P → Q → P",
        ],
    );
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    says(
        "\
const A = 9223372036854775807 + 1
const B = -9223372036854775807 - 2
const C = 9223372036854775807 * 2
const D = 1 / (3 - 3)
const E = 1 % 0
var big [9223372036854775807,2]int8
var huge [4611686018427387904]float64
",
        &[
            "1:11 arithmetic: this does not fit a 64-bit integer",
            "2:11 arithmetic: this does not fit a 64-bit integer",
            "3:11 arithmetic: this does not fit a 64-bit integer",
            "4:11 arithmetic: a division by zero",
            "5:11 arithmetic: a division by zero",
            "6:9 arithmetic: [9223372036854775807,2]int8 is larger than 2^63 - 1 bytes",
            "7:10 arithmetic: [4611686018427387904]float64 is larger than 2^63 - 1 bytes",
        ],
    );
    says_of_views(
        "\
view a { var m [i] = line[9223372036854775807*i] }
view b { var m [i:9223372036854775807] = line[i] }
view c clipped { var m [i:9223372036854775807] = line[i] }
view d { var m [9223372036854775807*i + 1] = line[i] }
view e { var m [i] = line[i - 9223372036854775807] }
",
        &[
            "1:27 arithmetic: this does not fit a 64-bit integer",
            "2:47 range: indices 0 to 9223372036854775806 of an axis of 0 to 999 (shift or shorten it; in a view that \
             says `clipped`, what lies outside is a hole)",
            "3:22 arithmetic: this variable is larger than 2^63 - 1 bytes",
            "4:17 arithmetic: this does not fit a 64-bit integer",
            "5:27 arithmetic: this does not fit a 64-bit integer",
        ],
    );
}

#[test]
fn extents_are_at_least_one() {
    says(
        "const N = 3\nvar a [N-3]float64\nvar b [4,N-5]float64\nvar c [2]string0\ntype E struct { }",
        &[
            "2:8 extent: an extent of 0 (an extent is at least 1)",
            "3:10 extent: an extent of -2 (an extent is at least 1)",
            "4:10 unknown: `string0` has no length that is possible (write `string16` for 16 bytes)",
            "5:8 empty: a record of no fields",
        ],
    );
    says_of_views(
        "view a { var m [x:0] = line[x] }\nview b { var m [x:-3] = line[x] }\nview c { var m [i] = line[i+1000] }",
        &[
            "1:19 extent: an extent of 0 (an extent is at least 1)",
            "2:19 extent: an extent of -3 (an extent is at least 1)",
            "3:27 empty: no element of `line` has this index (the indices of this axis are 0 to 999)",
        ],
    );
}

#[test]
fn slices_that_leave_their_object_are_told_with_the_range() {
    let place = "(this is the one place along the axis that is filled; places are counted from 0)";
    let help = "(shift or shorten it; in a view that says `clipped`, what lies outside is a hole)";
    says_of_views(
        "\
view a { var m [x:16] = line[x+990] }
view b { var m [x:16] = line[x-1] }
view c { var m [x:16] = line[10-x] }
view d { var m = line[1000] }
view e { var m = line[-1] }
view f { var m [x:500] = line[2*x+2] }
view g { var m [x:4,y:4] = mesh[x+7,y+6] }
view h { var m [-1] = line[3] }
view i { var m [5:5] = line[3] }
",
        &[
            &format!("1:30 range: indices 990 to 1005 of an axis of 0 to 999 {help}"),
            &format!("2:30 range: indices -1 to 14 of an axis of 0 to 999 {help}"),
            &format!("3:30 range: indices -5 to 10 of an axis of 0 to 999 {help}"),
            &format!("4:23 range: index 1000 of an axis of 0 to 999 {help}"),
            &format!("5:23 range: index -1 of an axis of 0 to 999 {help}"),
            &format!("6:31 range: indices 2 to 1000 of an axis of 0 to 999 {help}"),
            &format!("7:33 range: indices 7 to 10 of an axis of 0 to 9 {help}"),
            &format!("8:17 range: index -1 of a variable {place}"),
            &format!("9:17 range: index 5 of a variable of 0 to 4 {place}"),
        ],
    );
}

#[test]
fn extents_behind_a_type_are_told_where_they_belong() {
    says(
        "var g float64[10]\nvar h [2]int8",
        &["1:14 syntax: expected the next declaration, found `[` \
           (extents stand before the type of the elements: `[10]float64`)"],
    );
}

#[test]
fn types_that_do_not_match_are_refused() {
    let help = "(floating-point numbers are converted into others, and complex ones into complex ones; of all else write the \
                object's type, or none)";
    says_of_views(
        "\
type Wrong struct { rho int64 }
type Other struct { nope float32 }
view a { var m [i]complex128 = line[i] }
view b { var m [i,j]Wrong = mesh[i,j] }
view c { var m [i,j]Other = mesh[i,j] }
view d { var m = mesh[i] }
view e { var m = line[i][j] }
view f { var m = line.rho }
view g { var m {rho} = line }
view h { var m [i,j]{rho}Small = mesh[i,j] }
view i { var m [2]float64 = line[0]float32 }
view j { var m float64 = line }
view k { var m [i]flaot64 = line[i] }
view l { var m = line[0]int64 }
",
        &[
            &format!("3:19 mismatch: complex128 is not float64, which the object holds {help}"),
            &format!("4:21 mismatch: int64 is not float64, which the object holds {help}"),
            "5:21 mismatch: Other has a field `nope`, which Cell has not",
            "6:23 mismatch: 1 index here, where [10,10]Cell has 2 (write one for each axis; an empty one stands for \
             all)",
            "7:26 mismatch: float64 is no array and has no index",
            "8:23 mismatch: float64 is no record and has no fields",
            "9:16 mismatch: float64 is no record and has no fields",
            "10:26 mismatch: Small has a field `id`, which the braces leave out",
            "11:36 mismatch: float32 is not float64, which the object holds (numbers are converted on the left: write the type \
             there)",
            "12:16 mismatch: float64 is not of shape [1000], which the object has here (write the object's type, or \
             none)",
            "13:19 unknown: no type is named `flaot64` (did you mean `float64`?)",
            "14:25 mismatch: int64 is not float64, which the object holds (write the object's type, or none)",
        ],
    );
}

#[test]
fn fields_and_names_that_do_not_exist_are_told_with_those_that_do() {
    says_of_views(
        "\
view a { var m [i,j]{rhoo} = mesh[i,j] }
view b { var m [i,j] = mesh[i,j].flx }
view c { var m [i,j] = mesh[i,j]{pressure} }
view view_x { var m = lines }
view e { var m [i,j] {rho; rho} = mesh[i,j] }
replica r { view nope; view view_d }
",
        &[
            "1:22 unknown: `rhoo` is no field of what the right side chooses (did you mean `rho`?)",
            "2:34 unknown: `flx` is no field of Cell (did you mean `flux`?)",
            "3:34 unknown: `pressure` is no field of Cell (it has rho, e, flux, id)",
            "4:23 unknown: no object is named `lines` (did you mean `line`?)",
            "5:28 duplicate: two fields are named `rho` (give one of them another name)",
            "6:18 unknown: no view is named `nope`",
            "6:29 unknown: no view is named `view_d` (did you mean `view_x`?)",
        ],
    );
}

#[test]
fn one_name_stands_for_one_thing() {
    says(
        "\
const N = 4
const N = 5
type T int8
type T int16
type int32 int8
type R struct { x int8; x, y int16 }
var a [N]T
var b, a T
",
        &[
            "2:7 duplicate: two constants are named `N` (give one of them another name)",
            "4:6 duplicate: two types are named `T` (give one of them another name)",
            "5:6 duplicate: `int32` is a type of the language (choose another name)",
            "6:25 duplicate: two fields are named `x` (give one of them another name)",
            "8:8 duplicate: two objects are named `a` (give one of them another name)",
        ],
    );
    says_of_views(
        "\
view a { var m = line; var m = mesh }
view a default { var m = line }
view b default { var m = line }
replica r { view b; view b }
replica r { }
",
        &[
            "1:28 duplicate: two variables are named `m` (give one of them another name)",
            "2:6 duplicate: two views are named `a` (give one of them another name)",
            "3:8 duplicate: two views say `default` (only one view can be that from which the others are read)",
            "4:26 duplicate: `b` is in this replica already",
            "5:9 duplicate: two replicas are named `r` (give one of them another name)",
            "5:9 empty: a replica without views (name one in its braces: `view sim`)",
        ],
    );
    let found = Program::parse("const N = 3").unwrap().bind(&Bindings::from([("N", 4)])).unwrap_err();
    let expected = "1:7 duplicate: `N` is a constant, and the caller binds it, too (drop one of the two, or give one \
                    another name)";
    assert_eq!(told(&found), [expected]);
    let schema = bind(MESH).unwrap();
    let found = schema.fragment("{ var m = line }", &Bindings::from([("N", 4)])).unwrap_err();
    let expected = "1:1 duplicate: `N` is a constant of the schema, and the caller binds it, too (do not bind `N`)";
    assert_eq!(told(&found), [expected]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    says(
        "\
var a [4]int8
view v default readonly { var b = a }
view w readonly clipped default { var b = a }
replica r \"\" { view v }
",
        &[
            "2:8 duplicate: a view is either `default` or `readonly` (what is written to views that are stored nowhere \
             goes to the default one)",
            "3:25 duplicate: a view is either `default` or `readonly` (what is written to views that are stored nowhere \
             goes to the default one)",
            "4:11 syntax: a file without a name (name it, or leave the quotes out: the caller says then where it is)",
        ],
    );
}

#[test]
fn messages_are_lines_that_can_be_read_however_long_words_are() {
    let fields: String = (0..60_000).map(|n| format!("f{n} int8; ")).collect();
    let texts = [
        format!("const A = {}", "9".repeat(1_000_000)),
        format!("const A = {}x", "9".repeat(1_000_000)),
        format!("var a struct {{ {fields} }} view v {{ var b [i] = a[i] }}"),
        format!("const {0} = 1 const {0} = 2", "n".repeat(1_000_000)),
        format!("dataset \"{}\"", "n".repeat(1_000_000)),
    ];
    for text in texts {
        let found = bind(&text).unwrap_err();
        for one in &found {
            assert!(one.message.len() < 1000, "{}", one.message.len());
            assert!(one.to_string().len() < 2000, "{}", one.to_string().len());
        }
    }
}

#[test]
fn of_each_index_that_leaves_its_object_it_is_told() {
    let help = "shift or shorten it; in a view that says `clipped`, what lies outside is a hole";
    says_of_views(
        "view v { var m [i:4,j:5] = mesh[i+8,j-1] }\nview w { var m [i:20] = mesh[10,i].rho }\n",
        &[
            &format!("1:33 range: indices 8 to 11 of an axis of 0 to 9 ({help})"),
            &format!("1:37 range: indices -1 to 3 of an axis of 0 to 9 ({help})"),
            &format!("2:30 range: index 10 of an axis of 0 to 9 ({help})"),
            &format!("2:33 range: indices 0 to 19 of an axis of 0 to 9 ({help})"),
        ],
    );
}

#[test]
fn many_more_holes_than_elements_have_to_be_wanted() {
    let help = |places: u64| format!("if that is meant, write its extent in a view that says `clipped`: `…:{places}`");
    says_of_views(
        "\
view a { var m [i] = line[i-1000000000000] }
view b { var m [i*2000] = line[i] }
view c { var m [5000] = line[3] }
view d { var m [i*1024] = line[i] }
view e clipped readonly { var m [i:2000000] = line[i-1999999]; var n [5000:5001] = line[3]; var o [i] = line[i-1023000] }
",
        &[
            &format!(
                "1:17 extent: this axis has 1000000001000 places and 1000 elements ({})",
                help(1_000_000_001_000)
            ),
            &format!("2:17 extent: this axis has 1998001 places and 1000 elements ({})", help(1_998_001)),
            &format!("3:17 extent: this axis has 5001 places and 1 element ({})", help(5001)),
        ],
    );
}

#[test]
fn a_number_is_no_index_variable_that_links_both_sides() {
    let schema = bind(MESH).unwrap();
    let three = Bindings::from([("i", 3)]);
    let found = schema.fragment("{ var a [i] = line[i] }", &three).unwrap_err();
    let expected = "1:20 index: `i` is the number 3 on both sides, and no index variable (the caller binds it: give the variable \
                    another name; for the number write `i+0` where it stands alone)";
    assert_eq!(told(&found), [expected]);
    for text in ["{ var a [0] = line[i] }", "{ var a [i] = line[x] }", "{ var a [i] = line[7] }"] {
        let found = schema.fragment(text, &three).map_err(|found| told(&found));
        assert!(!format!("{found:?}").contains("both sides"), "{text}: {found:?}");
    }
}

#[test]
fn a_name_that_the_caller_binds_is_not_taken_for_an_index_variable_of_an_expression_either() {
    let schema = bind(MESH).unwrap();
    let three = Bindings::from([("i", 3)]);
    // One element each, where a row was meant.
    for (text, at) in [
        ("{ var a [i] = line[i + 1] }", "1:20"),
        ("{ var a [i] = line[2*(i + 1)] }", "1:20"),
        ("{ var a [i + 1] = line[i] }", "1:24"),
        ("{ var a [i/3] = line[i] }", "1:22"),
        ("{ var a [i,j:2] = mesh[i - 1,j].rho }", "1:24"),
        ("{ var a [j:2,i] = mesh[j,i - 1].rho }", "1:26"),
    ] {
        let expected = format!(
            "{at} index: `i` is the number 3 on both sides, and no index variable (the caller binds it: give the variable \
             another name; for the number write `i+0` where it stands alone)"
        );
        let found = schema.fragment(text, &three).map(drop).map_err(|found| told(&found));
        assert_eq!(found, Err(vec![expected]), "{text}");
        // With a variable of this name it is what it says.
        assert!(schema.fragment(text, &Bindings::new()).is_ok(), "{text}");
    }
    // Offsets, planes and lengths are numbers on both sides; so is what stands alone nowhere, as the last row, or is a part of another
    // axis only.
    for text in [
        "{ var a [i + 0] = line[i + 1] }",
        "{ var a [i + 0] = line[i + 0] }",
        "{ var a [i + 0,j:2] = mesh[j,i - 1].rho }",
        "{ var a [i,j:2] = mesh[j,i - 1].rho }",
        "{ var a [j + i] = line[j + i] }",
        "{ var a [j:i] = line[j + i] }",
        "{ var a [i - 1,j] = mesh[i - 1,j].rho }",
        "{ var a [j] = mesh[i,j].rho }",
    ] {
        assert!(schema.fragment(text, &three).is_ok(), "{text}: {:?}", schema.fragment(text, &three));
    }
}

#[test]
fn what_a_text_calls_a_constant_is_a_number_unless_it_stands_alone_on_both_sides() {
    for text in [
        "const n = 16\nvar grid [n+2,8] float64\nview ghost { var g [n+1,j] = grid[n,j] }",
        "const k = 3\nvar table [64,8] float64\nview part { var e [k,j] = table[4*k,j] }",
    ] {
        let found = Program::parse(text).unwrap().bind(&Bindings::new()).map(drop).map_err(|found| told(&found));
        assert_eq!(found, Ok(()), "{text}");
    }
    let both = Program::parse("const k = 3\nvar table [64,8] float64\nview part { var e [k,j] = table[k,j] }").unwrap();
    let found = both.bind(&Bindings::new()).map(drop).map_err(|found| told(&found));
    let expected = "3:33 index: `k` is the number 3 on both sides, and no index variable (it is a constant: give the variable \
                    another name; for the number write `k+0` where it stands alone)";
    assert_eq!(found, Err(vec![expected.into()]));
}

#[test]
fn a_name_that_an_outer_text_or_its_caller_made_a_number_is_told_as_theirs() {
    let outer =
        Program::parse("const last = 7\nvar u [16] float64").unwrap().bind(&Bindings::from([("x", 4)])).unwrap();
    let told_of =
        |text: &str, bindings: &Bindings| outer.fragment(text, bindings).map(drop).map_err(|found| told(&found));
    let number = |at: &str, name: &str, number: i64, whose: &str| {
        format!(
            "{at} index: `{name}` is the number {number} and no index variable ({whose}: give the variable another name; for the number \
             write `{name}+0`)"
        )
    };
    let both = |at: &str, name: &str, number: i64, whose: &str| {
        format!(
            "{at} index: `{name}` is the number {number} on both sides, and no index variable ({whose}: give the variable another \
             name; for the number write `{name}+0` where it stands alone)"
        )
    };
    let (none, four) = (Bindings::new(), Bindings::from([("y", 4)]));
    let (schema, constant) = ("it is bound for the schema", "it is a constant of the schema");
    assert_eq!(told_of("{ var v [x:4] = u[x+4] }", &none), Err(vec![number("1:10", "x", 4, schema)]));
    assert_eq!(told_of("{ var v [x] = u[x+4] }", &none), Err(vec![both("1:17", "x", 4, schema)]));
    assert_eq!(told_of("{ var v [y:4] = u[y+4] }", &four), Err(vec![number("1:10", "y", 4, "the caller binds it")]));
    assert_eq!(told_of("{ var v [last:4] = u[last] }", &none), Err(vec![number("1:10", "last", 7, constant)]));
    assert_eq!(told_of("{ var v [last] = u[last] }", &none), Err(vec![both("1:20", "last", 7, constant)]));
    assert_eq!(told_of("{ var v [last] = u[last-1] }", &none), Ok(()));
    assert_eq!(told_of("{ var v [last+0] = u[last] }", &none), Ok(()));
    assert_eq!(told_of("{ var v [last+0:8] = u[last+0] }", &none), Ok(()));
    let own = Program::parse("const n = 2\nvar u [4] float64\nview a { var v [n:2] = u[n] }").unwrap();
    let expected = number("3:17", "n", 2, "it is a constant");
    assert_eq!(own.bind(&none).map(drop).map_err(|found| told(&found)), Err(vec![expected]));
}

#[test]
fn index_variables_stand_on_both_sides_and_once_on_the_left() {
    says_of_views(
        "\
view a { var m [i] = mesh[i,j] }
view b { var m [i,j,k] = mesh[i,j] }
view c { var m [i] = mesh[i,i] }
view d { var m [i,i] = mesh[i,2] }
view e { var m [i] = line[i*i] }
view f { var m [i] = line[i-i] }
view g { var m [i,j] = mesh[i+j,j] }
view h { var m [N:5] = line[N] }
view i { var m [,,] = mesh[,] }
view j { var m [,] = mesh[i,j] }
view k { var m [i] = line[6/i] }
view l { var m [xi] = line[xj] }
view m { var m [i,j] = mesh[j,1/i] }
view n { var m [i] = line[i % 2] }
view o { var m [i % 2] = line[i] }
view p { var m [i:9] = line[i % 2 * 3] }
view q { var m [i:9] = line[i % -2] }
view r { var m [i:2000] = line[i % 1001] }
view s { var m [i:70000] = line[i % 1] }
view t { var m [i:11] = mesh[i,i] }
view u { const at = [3, 7, 19] var m [i] = line[at[i]*at[i]] }
view v { var m [at[i]] = line[i] }
view w { var m [i] = line[at] }
view x { var m [i] = line[N[i]] }
view y { var m [i] = line[to[i]] }
view z { var m [i:4] = line[at[i]] }
view A { var m [i] = line[at[i % 2]] }
view B { var m = line[at[3]] }
view C { var m [i] = line[at[i] + 998] }
view D { var m [i] = line[at[i] % 2] }
view E { var m [i] = mesh[at[i] + 2000,at[i]] }
view F readonly { var m [i:70000] = mesh[i % N,i % N] }
view G { var m [i,j]{rho; skip (0-1)} = mesh[i,j] }
view H fill nan { var m [i:3] = mesh[0,i].id }
",
        &[
            "1:29 index: `j` stands on the right side only (write `j` on the left, too; or pass a number for `j` to \
             choose one index)",
            "2:21 index: `k` stands on the left side only (write on the right which element it stands for)",
            "4:19 index: `i` stands twice on the left (write a variable for each axis; a diagonal stands on the right: \
             `var d [i] = m[i,i]`)",
            "5:27 index: this index is no straight line (an index is (a*x + b) / c, with numbers a, b and c)",
            "6:27 index: `i` cancels out here (write the number alone, or let the index depend on the variable)",
            "7:29 index: two variables in one index: `i` and `j` (an index holds one variable; a name that is meant as \
             a number needs `const` or a binding)",
            "8:17 index: `N` is the number 10 and no index variable (it is a constant: give the variable another \
             name; for the number write `N+0`)",
            "9:19 index: 3 empty indices on the left, where the right has 2 (an empty index stands for a whole axis, \
             and is linked with that of the same position)",
            "10:27 index: `i` stands on the right side only (write `i` on the left, too; or pass a number for `i` to \
             choose one index)",
            "11:27 index: this index is no straight line (an index is (a*x + b) / c, with numbers a, b and c)",
            "12:28 index: `xj` stands on the right side only (write `xj` on the left, too; or pass a number for `xj` \
             to choose one index)",
            "13:31 index: this index is no straight line (an index is (a*x + b) / c, with numbers a, b and c)",
            "14:27 extent: an index that wraps around has no last place (write its extent on the left: `var a [i:18] = \
             b[(i - 1) % 16]`)",
            "15:17 index: places of a variable do not wrap around (write `%` on the right: `var a [i:18] = b[(i - 1) % \
             16]`)",
            "16:29 index: nothing follows `%` in an index but its number (an index that wraps around is ((a*x + b) / c) \
             % n, with numbers a, b, c and n)",
            "17:29 index: this index is no straight line (an index is (a*x + b) / c, with numbers a, b and c)",
            "18:32 range: indices 0 to 1000 of an axis of 0 to 999 (shift or shorten it; in a view that says `clipped`, \
             what lies outside is a hole)",
            "19:33 limit: this index wraps around more than 65536 times (divide the view)",
            "20:30 range: index 10 of an axis of 0 to 9 (shift or shorten it; in a view that says `clipped`, what \
             lies outside is a hole)",
            "21:49 index: this is no straight line through the numbers of a list (an index by a list is \
             (d*at[(a*x + b) / c] + e) / f, with numbers a to f)",
            "22:17 index: places of a variable are not listed (write the list on the right: `var a [i] = \
             b[at[i]]`)",
            "23:27 index: `at` is a list of numbers (choose one of them: `at[i]`)",
            "24:27 index: `N` is the number 10, and no list (a list is `const at = [3, 7, 19]`)",
            "25:27 unbound: no list is named `to` (declare it: `const to = [3, 7, 19]`)",
            "26:29 range: index 3 of a list of 3 numbers (shorten it; in a view that says `clipped`, places \
             behind the end of a list are holes)",
            "27:27 index: this is no straight line through the numbers of a list (an index by a list is \
             (d*at[(a*x + b) / c] + e) / f, with numbers a to f)",
            "28:23 range: index 3 of a list of 3 numbers",
            "29:27 range: index 1001 of an axis of 0 to 999 (shift or shorten it; in a view that says `clipped`, \
             what lies outside is a hole)",
            "30:27 index: this is no straight line through the numbers of a list (an index by a list is \
             (d*at[(a*x + b) / c] + e) / f, with numbers a to f)",
            "31:27 range: index 2003 of an axis of 0 to 9 (shift or shorten it; in a view that says `clipped`, \
             what lies outside is a hole)",
            "32:42 limit: more than 65536 places, which a diagonal or a list links one by one (divide the view)",
            "33:32 range: -1 bytes cannot be left out (`skip` goes forward: write 0 or more)",
            "34:8 mismatch: this is no value of int32, which `m` has (choose another one, or give these fields a \
             view of their own)",
        ],
    );
}

#[test]
fn a_text_of_too_many_parts_is_told_once() {
    let many = "view { var p [i:60000] = l[i % 1] }\n".repeat(20);
    let text = format!("var l [1]int8\n{}", many.replace("view", "view readonly"));
    let mistakes = drepl::Program::parse(&text).and_then(|program| program.bind(&Bindings::new())).unwrap_err();
    assert_eq!(mistakes.iter().count(), 1, "{mistakes}");
}

#[test]
fn a_number_of_bytes_that_are_left_out_is_told_as_such() {
    let help = "`skip` goes forward: write 0 or more";
    says(
        "type G int8 const M = -4 var m [4]struct { a, b int8 }
view a { var m [i]{a; skip N; b} = m[i] }\nview b { var m [i]{a; skip G; b} = m[i] }
view c { var m [i]{a; skip M; b} = m[i] }\nview d { var m [i]{a; skip -M; b; skip -2} = m[i] }",
        &[
            "2:28 unbound: `N` is neither a constant nor bound by the caller (declare it, `const N = …`, or pass a number for \
             `N`)",
            "3:23 unknown: `skip` is no field of what the right side chooses (`G` is a type: to leave out bytes, write \
             `skip (G)`)",
            &format!("4:28 range: -4 bytes cannot be left out ({help})"),
            &format!("5:40 range: -2 bytes cannot be left out ({help})"),
        ],
    );
}

#[test]
fn a_replica_says_of_bytes_that_are_left_out_what_a_record_says() {
    says(
        "const M = -4 var m [4]int8 view e { var m = m } replica r { skip 8*M; view e }",
        &["1:66 range: -32 bytes cannot be left out (`skip` goes forward: write 0 or more)"],
    );
}

#[test]
fn bytes_are_left_out_on_the_left_and_holes_have_whole_numbers() {
    says(
        "var m [4]int8\nview a { var m [i]{a} = m[i]{a; skip 4} }\nview b fill x { var m = m }\nview c fill 1 fill 2 { var m = m }
view d fill -0.5 { var m = m }",
        &[
            "2:33 syntax: bytes are left out on the left (write `var a [i]{rho; skip 4; id} = b[i]{rho; id}`)",
            "3:13 syntax: expected what holes have: a whole number, or `nan`, found `x`",
            "4:15 duplicate: `fill` stands here twice",
            "5:15 syntax: expected what holes have as a whole number, or `nan`, found `.`",
        ],
    );
}

#[test]
fn a_view_that_may_be_written_to_holds_each_element_once() {
    says_of_views(
        "\
view a { var m = line; var n [i] = line[i*2] }
view b { var m [i,j]{rho} = mesh[i,j]; var n [i,j] = mesh[i,j].e; var o = mesh[3,4] }
view c readonly { var m = line; var n [i] = line[i*2] }
view d { var m [i] = line[i*2]; var n [i] = line[i*2+1] }
view e { var m [i:3] = line[i*3]; var n [i:3] = line[i*2+3] }
",
        &[
            "1:28 overlap: line[0] lies in this view twice (only a view that says `readonly` may hold an element more \
             than once)",
            "2:71 overlap: mesh[3,4].rho lies in this view twice (only a view that says `readonly` may hold an element \
             more than once)",
            "5:39 overlap: line[3] lies in this view twice (only a view that says `readonly` may hold an element more \
             than once)",
        ],
    );
}

#[test]
fn nothing_nests_without_end() {
    let nested = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    assert!(bind(&format!("const A = {}", nested("(", ")", 60))).is_ok());
    says(&format!("const A = {}", nested("(", ")", 70)), &["1:75 limit: this is nested deeper than 64"]);
    says(&format!("const A = {}1", "-".repeat(100_000)), &["1:75 limit: this is nested deeper than 64"]);
    let found = bind(&format!("var a {}int8", "[1]".repeat(100_000))).unwrap_err();
    assert_eq!(told(&found), ["1:197 limit: this is nested deeper than 64"]);
    // A sum is as long as anybody wants it.
    let sum = format!("const A = 1{}\nvar a [A]int8", "+1".repeat(100_000));
    assert_eq!(bind(&sum).unwrap().constant("A"), Some(100_001));
    // Constants that need others need not come after them, within reason.
    let chain = |count: usize| {
        let steps: Vec<String> = (0..count).map(|n| format!("const c{n} = c{} + 1", n + 1)).collect();
        format!("{}\nconst c{count} = 0", steps.join("\n"))
    };
    assert_eq!(bind(&chain(60)).unwrap().constant("c0"), Some(60));
    assert!(bind(&chain(100)).is_err());
    // Records that double with each name would have more fields than can be counted.
    let doubling: Vec<String> = (1..60).map(|n| format!("type T{n} struct {{ a, b T{} }}", n - 1)).collect();
    let found = bind(&format!("type T0 int8\n{}\nvar a T59", doubling.join("\n"))).unwrap_err();
    let expected = "18:22 limit: this record has more than 65536 numbers in all its fields";
    assert_eq!(told(&found), [expected]);
}
