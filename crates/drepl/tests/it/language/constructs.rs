//! Each construct of the language, and what it means.

use std::sync::Arc;

use drepl::{
    Bindings, Program, Schema,
    dataset::Dataset,
    fill::Fill,
    fragment::{Fragment, Variable},
    types::{AxisOrder, ByteOrder, Layout, Packing, Primitive, Type},
};

fn bind(text: &str) -> Schema {
    bind_with(text, &Bindings::new())
}

fn bind_with(text: &str, bindings: &Bindings) -> Schema {
    let schema = Program::parse(text).and_then(|program| program.bind(bindings));
    schema.unwrap_or_else(|mistakes| panic!("{mistakes}"))
}

/// `name @offset type` of each variable.
fn variables(fragment: &Fragment) -> Vec<String> {
    let variables = fragment.variables().iter();
    variables.map(|one| format!("{} @{} {}", one.name, one.offset_bytes, one.kind)).collect()
}

/// `leaf[start+step*count, …] @offset strides` of each part.
fn parts(fragment: &Fragment) -> Vec<String> {
    let parts = fragment.parts().iter().map(|part| {
        let axes: Vec<String> = part
            .elements
            .axes()
            .iter()
            .map(|axis| format!("{}+{}*{}", axis.start(), axis.step(), axis.count()))
            .collect();
        let name = fragment.dataset().leaf_name(part.leaf);
        let strides: Vec<String> = part.strides_bytes.iter().map(i64::to_string).collect();
        format!("{name}[{}] @{} [{}]", axes.join(","), part.offset_bytes, strides.join(","))
    });
    parts.collect()
}

#[track_caller]
fn part(text: &str, view: &str) -> String {
    let schema = bind(text);
    let parts = parts(&schema.view(view).unwrap().fragment);
    assert_eq!(parts.len(), 1);
    parts[0].clone()
}

const MESH: &str = "\
const N = 1000
type Cell struct { rho, e float64; id int32 }
var mesh [N,N]Cell
var line [N]float64
var data [N]int32
";

#[test]
fn constants_are_integers_with_the_precedence_of_c() {
    let text = "\
        const A = 2 + 3 * 4 - 1
        const B = (2 + 3) * 4 / 3 % 4
        const C = 7 - 2 - 1; const D = -2*-3
        const E = - - G * 0x10 const F=A-1
        const G = 1_000 + x";
    let schema = bind_with(text, &Bindings::from([("x", 24)]));
    let values = ["A", "B", "C", "D", "E", "F", "G"].map(|name| schema.constant(name).unwrap());
    assert_eq!(values, [13, 2, 4, 6, 16384, 12, 1024]);
}

#[test]
fn the_least_number_is_a_number_and_its_opposite_is_none() {
    let schema =
        bind("const A = -9223372036854775808 const B = -0x8000_0000_0000_0000 + 1 const C = -9223372036854775808 / 2");
    assert_eq!(schema.constant("A"), Some(i64::MIN));
    assert_eq!(schema.constant("B"), Some(-i64::MAX));
    assert_eq!(schema.constant("C"), Some(i64::MIN / 2));
    for text in
        ["const A = 9223372036854775808", "const A = -(9223372036854775808)", "const A = - -9223372036854775808"]
    {
        let mistakes = Program::parse(text).and_then(|program| program.bind(&Bindings::new())).unwrap_err().to_string();
        assert!(mistakes.contains("does not fit a 64-bit integer"), "{mistakes}");
    }
}

#[test]
fn division_of_numbers_goes_down() {
    let schema =
        bind("const A = -7 / 2\nconst B = -7 % 2\nconst C = 7 / -2\nconst D = 7 % -2\nconst E = 8 / 2 / 2 * 3 % 4");
    let values = ["A", "B", "C", "D", "E"].map(|name| schema.constant(name).unwrap());
    assert_eq!(values, [-4, 1, -4, -1, 2]);
}

#[test]
fn types_are_primitives_records_and_arrays() {
    let schema = bind(
        "type Vector [3]float64
        type Particle struct {
            position, velocity Vector
            spin [2,2]complex64
            charge int8; alive bool
            name string16
            inner struct { a uint8 b uint16 c uint32 d uint64 }
        }
        var a [2][3,4]Particle
        var b, c int16
        var d float16",
    );
    let dataset = schema.dataset();
    let leaves: Vec<(String, Vec<u64>, Primitive)> = (0..dataset.leaves().len() as u32)
        .map(drepl::dataset::LeafId)
        .map(|id| {
            (dataset.leaf_name(id), dataset.leaf(id).unwrap().extents.clone(), dataset.leaf(id).unwrap().primitive)
        })
        .collect();
    let expected = [
        ("a.position", vec![2, 3, 4, 3], Primitive::Float64),
        ("a.velocity", vec![2, 3, 4, 3], Primitive::Float64),
        ("a.spin", vec![2, 3, 4, 2, 2], Primitive::Complex64),
        ("a.charge", vec![2, 3, 4], Primitive::Int8),
        ("a.alive", vec![2, 3, 4], Primitive::Bool),
        ("a.name", vec![2, 3, 4], Primitive::Text(16)),
        ("a.inner.a", vec![2, 3, 4], Primitive::UInt8),
        ("a.inner.b", vec![2, 3, 4], Primitive::UInt16),
        ("a.inner.c", vec![2, 3, 4], Primitive::UInt32),
        ("a.inner.d", vec![2, 3, 4], Primitive::UInt64),
        ("b", vec![], Primitive::Int16),
        ("c", vec![], Primitive::Int16),
        ("d", vec![], Primitive::Float16),
    ];
    assert_eq!(leaves, expected.map(|(name, extents, primitive)| (name.to_string(), extents, primitive)));
    assert_eq!(schema.type_named("Vector").unwrap().to_string(), "[3]float64");
    assert_eq!(dataset.object("a").unwrap().1.kind.to_string(), "[2][3,4]Particle");
}

#[test]
fn every_primitive_has_its_size() {
    let expected = [
        ("bool", 1),
        ("int8", 1),
        ("int16", 2),
        ("int32", 4),
        ("int64", 8),
        ("uint8", 1),
        ("uint16", 2),
        ("uint32", 4),
        ("uint64", 8),
        ("float16", 2),
        ("bfloat16", 2),
        ("float32", 4),
        ("float64", 8),
        ("complex64", 8),
        ("complex128", 16),
        ("string1", 1),
        ("string80", 80),
    ];
    for (name, size) in expected {
        let schema = bind(&format!("var a {name} {{ var a = a }}"));
        assert_eq!(schema.views()[0].fragment.size_bytes(), size, "{name}");
        assert_eq!(schema.dataset().objects()[0].kind.to_string(), name);
    }
}

#[test]
fn declarations_come_in_any_order_inside_and_outside_of_datasets() {
    let schema = bind(
        "view v { var a = a }
        dataset { var a [N]T } # of a kind
        type T struct { x U } // declared below
        replica r { view v }
        dataset { const N = M * 2 /* twice */ type U int8 }
        const M = 3;;",
    );
    assert_eq!(schema.view("v").unwrap().fragment.size_bytes(), 6);
    assert_eq!(schema.replica("r").unwrap().fragment.size_bytes(), 6);
}

#[test]
fn files_of_other_systems_and_letters_of_other_alphabets_are_read() {
    let schema = bind(
        "\u{feff}const größe = 3\r\ntype Zelle struct {\r\n  \u{3c1} float64\r\n}\r\nvar netz [größe]Zelle\r\n{ var a [i]{\u{3c1}\r\n} = netz[i] }",
    );
    assert_eq!(variables(&schema.views()[0].fragment), ["a @0 [3]struct { \u{3c1} float64 }"]);
}

#[test]
fn the_examples_of_the_design_mean_what_they_say() {
    let text = format!(
        "{MESH}
        view sim default {{ var mesh = mesh }}
        view soa {{ var r [,]{{rho}} = mesh[,]; var e [,]{{e}} = mesh[,] }}
        view coarse readonly {{ var m [i,j]{{rho}} = mesh[i*4,j*4] }}
        view ft columnmajor {{ var m [i,j] = mesh[j,i] }}
        view shifted {{ var w [i] = line[i + 10] }}
        view fifth {{ var d[i] = data[i*5] }}
        replica complete main \"main.dat\" {{ view sim; view soa }}
        var grid [length,height] float64"
    );
    let schema = bind_with(&text, &Bindings::from([("length", 64), ("height", 128)]));
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    assert_eq!(variables(view("sim")), ["mesh @0 [1000,1000]Cell"]);
    let expected = [
        "mesh.rho[0+1*1000,0+1*1000] @0 [20000,20]",
        "mesh.e[0+1*1000,0+1*1000] @8 [20000,20]",
        "mesh.id[0+1*1000,0+1*1000] @16 [20000,20]",
    ];
    assert_eq!(parts(view("sim")), expected);
    assert!(schema.view("sim").unwrap().default);
    assert_eq!(schema.default_view().unwrap().name.as_deref(), Some("sim"));
    let expected = ["mesh.rho[0+1*1000,0+1*1000] @0 [8000,8]", "mesh.e[0+1*1000,0+1*1000] @8000000 [8000,8]"];
    assert_eq!(parts(view("soa")), expected);
    assert_eq!(variables(view("coarse")), ["m @0 [250,250]struct { rho float64 }"]);
    assert_eq!(parts(view("coarse")), ["mesh.rho[0+4*250,0+4*250] @0 [2000,8]"]);
    assert!(schema.view("coarse").unwrap().readonly);
    // Transposed, and the first index of the result contiguous: the same bytes again.
    assert_eq!(parts(view("ft")), expected_sim());
    assert_eq!(view("ft").variables()[0].layout.order, AxisOrder::ColumnMajor);
    assert_eq!(variables(view("shifted")), ["w @0 [990]float64"]);
    assert_eq!(parts(view("shifted")), ["line[10+1*990] @0 [8]"]);
    assert_eq!(variables(view("fifth")), ["d @0 [200]int32"]);
    let main = schema.replica("main").unwrap();
    assert_eq!((main.file.as_deref(), main.complete), (Some("main.dat"), true));
    let expected = [
        "sim.mesh @0 [1000,1000]Cell",
        "soa.r @20000000 [1000,1000]struct { rho float64 }",
        "soa.e @28000000 [1000,1000]struct { e float64 }",
        "rest.line @36000000 [1000]float64",
        "rest.data @36008000 [1000]int32",
        "rest.grid @36012000 [64,128]float64",
    ];
    assert_eq!(variables(&main.fragment), expected);
    let fragment = schema.fragment("{ var g[x:16,y:32] = grid[x+48,y+96] }", &Bindings::new()).unwrap();
    assert_eq!(parts(&fragment), ["grid[48+1*16,96+1*32] @0 [256,8]"]);
    let ghost = schema.parse_view("view readonly { var ghost[x:1,y:32] = grid[x+47,y+96] }", &Bindings::new()).unwrap();
    assert!(ghost.readonly);
    assert_eq!(parts(&ghost.fragment), ["grid[47+1*1,96+1*32] @0 [0,8]"]);
}

fn expected_sim() -> [&'static str; 3] {
    [
        "mesh.rho[0+1*1000,0+1*1000] @0 [20000,20]",
        "mesh.e[0+1*1000,0+1*1000] @8 [20000,20]",
        "mesh.id[0+1*1000,0+1*1000] @16 [20000,20]",
    ]
}

/// Otstott et al., "A Foundation for Automated Placement of Data", Figure 1, character by character.
#[test]
fn the_strings_of_the_placement_paper_mean_the_block_and_its_neighbours() {
    let program = Program::parse("var grid [length,height] float64").unwrap();
    let schema = program.bind(&Bindings::from([("length", 30), ("height", 30)])).unwrap();
    let rank = [("xrange", 5), ("yrange", 6), ("xmin", 10), ("ymin", 12)];
    let fragment = |text: &str, bindings: &[(&str, i64)]| {
        let bindings: Bindings = bindings.iter().copied().collect();
        let fragment = schema.fragment(text, &bindings).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        (variables(&fragment), parts(&fragment))
    };
    let one = |variable: &str, part: &str| (vec![variable.to_string()], vec![part.to_string()]);
    // The paper has `min` for `ymin`; whoever runs it has to bind that.
    let with_min: Vec<(&str, i64)> = rank.iter().copied().chain([("min", 12)]).collect();
    assert_eq!(
        fragment("{var grid[x:xrange,y:yrange] = grid[x+xmin,y+min\n]}", &with_min),
        one("grid @0 [5,6]float64", "grid[10+1*5,12+1*6] @0 [48,8]")
    );
    assert_eq!(
        fragment("{var grid[x:xrange,y:yrange] =\ngrid[x+xmin,y+min]}", &with_min),
        one("grid @0 [5,6]float64", "grid[10+1*5,12+1*6] @0 [48,8]")
    );
    assert_eq!(
        fragment("{var rank_yghost[x:1,y:yrange] = grid[x+xmin-1,\ny+ymin]}", &rank),
        one("rank_yghost @0 [1,6]float64", "grid[9+1*1,12+1*6] @0 [0,8]")
    );
    assert_eq!(
        fragment("{var rank_yghost[x:1,y:yrange] =\ngrid[x+xmin-1,y+ymin]}", &rank),
        one("rank_yghost @0 [1,6]float64", "grid[9+1*1,12+1*6] @0 [0,8]")
    );
    assert_eq!(
        fragment("{var rank_yghost[x:1,y:yrange] = grid[x+xmin+\nxrange,y+ymin]}", &rank),
        one("rank_yghost @0 [1,6]float64", "grid[15+1*1,12+1*6] @0 [0,8]")
    );
    assert_eq!(
        fragment("{var rank_xghost[x:xrange+2,y:1] = grid[x+xmin\n-1,y+ymin-1]}", &rank),
        one("rank_xghost @0 [7,1]float64", "grid[9+1*7,11+1*1] @0 [8,0]")
    );
    assert_eq!(
        fragment("{var rank_xghost[x:xrange+2,y:1] = grid[x+xmin\n-1,y+ymin+yrange]}", &rank),
        one("rank_xghost @0 [7,1]float64", "grid[9+1*7,18+1*1] @0 [8,0]")
    );
    // Without the binding, the name is told.
    let bindings: Bindings = rank.iter().copied().collect();
    let text = "{var grid[x:xrange,y:yrange] = grid[x+xmin,y+min\n]}";
    let mistakes = schema.fragment(text, &bindings).unwrap_err().to_string();
    assert!(
        mistakes.contains("`min` is neither a constant nor bound") && mistakes.contains("`xmin` or `ymin`"),
        "{mistakes}"
    );
}

#[test]
fn indices_are_shifted_strided_and_turned_round() {
    let line = |right: &str| part(&format!("{MESH} view v {{ var a [i] = {right} }}"), "v");
    assert_eq!(line("line[i]"), "line[0+1*1000] @0 [8]");
    assert_eq!(line("line[i-10]"), "line[0+1*1000] @80 [8]");
    assert_eq!(line("line[3*i+1]"), "line[1+3*333] @0 [8]");
    assert_eq!(line("line[999-i]"), "line[0+1*1000] @7992 [-8]");
    assert_eq!(line("line[99-i]"), "line[0+1*100] @792 [-8]");
    assert_eq!(line("line[-2*i+10]"), "line[0+2*6] @40 [-8]");
    assert_eq!(line("line[i/4]"), "line[0+1*1000] @0 [32]");
    assert_eq!(line("line[(i+1)/2-1]"), "line[0+1*1000] @8 [16]");
    // Where a division leaves a remainder there is no element, also if it is multiplied again.
    assert_eq!(line("line[i/2*2]"), "line[0+2*500] @0 [16]");
    assert_eq!(line("line[i/2+i/3]"), "line[0+5*200] @0 [48]");
    assert_eq!(line("line[i+7/2]"), "line[3+1*997] @0 [8]");
}

#[test]
fn an_index_wraps_around() {
    let line = |left: &str, right: &str| {
        let schema = bind(&format!("{MESH} view v readonly {{ var a [{left}] = {right} }}"));
        parts(&schema.view("v").unwrap().fragment)
    };
    let ghosts = ["line[999+1*1] @0 [0]", "line[0+1*1000] @8 [8]", "line[0+1*1] @8008 [0]"];
    assert_eq!(line("i:1002", "line[(i - 1) % N]"), ghosts);
    assert_eq!(line("i:4", "line[(1 - i) % 1000]"), ["line[998+1*2] @24 [-8]", "line[0+1*2] @8 [-8]"]);
    assert_eq!(line("i:4", "line[i % 2]"), ["line[0+1*2] @0 [8]", "line[0+1*2] @16 [8]"]);
    // Each element stands once where the variable goes round once.
    let schema = bind(&format!("{MESH} view v {{ var a [i:N,j:N] = mesh[(i + 7) % N,(j - 300) % N].id }}"));
    assert_eq!(schema.view("v").unwrap().fragment.parts().len(), 4);
}

#[test]
fn a_variable_in_several_indices_takes_a_diagonal() {
    let square = |text: &str| part(&format!("var m [3,4]int32 view v {{ {text} }}"), "v");
    let all = |text: &str| parts(&bind(&format!("var m [3,4]int32 view v {{ {text} }}")).view("v").unwrap().fragment);
    assert_eq!(
        all("var d [i] = m[i,i]"),
        ["m[0+1*1,0+1*1] @0 [0,0]", "m[1+1*1,1+1*1] @4 [0,0]", "m[2+1*1,2+1*1] @8 [0,0]"]
    );
    assert_eq!(
        all("var d [2*i+1] = m[i,3-i]"),
        ["m[0+1*1,3+1*1] @4 [0,0]", "m[1+1*1,2+1*1] @12 [0,0]", "m[2+1*1,1+1*1] @20 [0,0]"]
    );
    assert_eq!(square("var d [i:1] = m[i/2,i]"), "m[0+1*1,0+1*1] @0 [0,0]");
    // Only what has a place or an element counts, however far the variable runs.
    let wide = bind(
        "var l [100000,100000]int8 view v readonly { var p [i/1000] = l[i,i]; var q [i:300000] = l[i/3000,i/3000] }",
    );
    let fragment = &wide.view("v").unwrap().fragment;
    assert_eq!((fragment.size_bytes(), fragment.parts().len()), (100 + 300_000, 100 + 100));
    assert_eq!(parts(fragment)[99], "l[99000+1*1,99000+1*1] @99 [0,0]");
    assert_eq!(parts(fragment)[101], "l[1+1*1,1+1*1] @3100 [0,0]");
    // Another axis goes on along each of its elements.
    let cube = bind("var c [2,5,2]int32 view v { var d [j,i] = c[i,j,i] }");
    let fragment = &cube.view("v").unwrap().fragment;
    assert_eq!(variables(fragment), ["d @0 [5,2]int32"]);
    assert_eq!(parts(fragment), ["c[0+1*1,0+1*5,0+1*1] @0 [0,8,0]", "c[1+1*1,0+1*5,1+1*1] @4 [0,8,0]"]);
    let holes = bind("var m [3,4]int32 view v clipped { var d [i:6] = m[i-1,i] }");
    let fragment = &holes.view("v").unwrap().fragment;
    assert_eq!(fragment.size_bytes(), 24);
    let there = ["m[0+1*1,1+1*1] @4 [0,0]", "m[1+1*1,2+1*1] @8 [0,0]", "m[2+1*1,3+1*1] @12 [0,0]"];
    assert_eq!(parts(fragment), there);
    let turned = bind("var m [3,4]int32 view v readonly { var d [i:4] = m[i%3,i] }");
    assert_eq!(parts(&turned.view("v").unwrap().fragment)[3], "m[0+1*1,3+1*1] @12 [0,0]");
}

#[test]
fn a_record_of_a_view_leaves_bytes_out() {
    let schema = bind(
        "type Cell struct { rho float64; skip int8; id int32; flux [3]float32 }
         const N = 2 var m [5]Cell
         view v { var a [i]{skip 2; id; skip 3; skip (2*N); rho; skip 1} = m[i] }
         view w aligned { var a [i]{id; skip 1; rho; skip 1} = m[i] }
         view f { var a [i]{skip; id} = m[i] }
         view inner { var a {rho [i]; skip 8; id [i]} = m[i] }
         view whole { var a [i]{rho; skip 4; flux} = m[i]{rho; flux} }",
    );
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    assert_eq!(variables(view("v")), ["a @0 [5]struct { skip 2; id int32; skip 7; rho float64; skip 1 }"]);
    assert_eq!(parts(view("v")), ["m.rho[0+1*5] @13 [22]", "m.id[0+1*5] @2 [22]"]);
    assert_eq!(parts(view("w")), ["m.rho[0+1*5] @8 [24]", "m.id[0+1*5] @0 [24]"]);
    assert_eq!(variables(view("f")), ["a @0 [5]struct { skip int8; id int32 }"]);
    assert_eq!(parts(view("inner")), ["m.rho[0+1*5] @0 [8]", "m.id[0+1*5] @48 [4]"]);
    assert_eq!(view("whole").size_bytes(), 5 * (8 + 4 + 12));
    // What has gaps is no `Small`, though the braces have its fields.
    let text = "type Small struct { rho float64; id int32 } var m [5]Small
         view g { var a [i]{rho; skip 4; id}Small = m[i] } view n { var a [i]{rho; skip 0; id}Small = m[i] }";
    let small = bind(text);
    let of = |name: &str| variables(&small.view(name).unwrap().fragment).concat();
    assert_eq!(of("g"), "a @0 [5]struct { rho float64; skip 4; id int32 }");
    assert_eq!(of("n"), "a @0 [5]Small");
    // A name alone is a number unless it is a type; the next line is the next field.
    let text = "type Cell struct { rho float64; skip int8; id int32 } type T int8
         const N = 2 const T = 3 const at = [5, 6] var m [5]Cell
         view n { var a [i]{id; skip N; skip N*2 + G; skip at[1]; skip G} = m[i] }
         view t { var a [i]{skip T; id} = m[i] } view u { var a [i]{skip int8; id} = m[i] }
         view p { var a [i]{id; skip (T)} = m[i] } view l { var a [i]{skip
         id} = m[i] }";
    let named = bind_with(text, &Bindings::from([("G", 7)]));
    let of = |name: &str| variables(&named.view(name).unwrap().fragment).concat();
    assert_eq!(of("n"), "a @0 [5]struct { id int32; skip 26 }");
    assert_eq!([of("t"), of("u"), of("l")], [(); 3].map(|()| "a @0 [5]struct { skip int8; id int32 }"));
    assert_eq!(of("p"), "a @0 [5]struct { id int32; skip 3 }");
    let sent = Fragment::decode(&view("v").encode()).unwrap();
    assert_eq!((&*sent, variables(&sent)), (view("v"), variables(view("v"))));
}

#[test]
fn holes_have_the_value_that_a_view_says() {
    let schema = bind(
        "type Cell struct { a float64; b int16; c complex64; d float16; e bfloat16; f bool }
         var line [4]float64 var m [3]Cell var n [2]int32 var g [3,4]int16
         view v clipped fill nan { var l [i:6] = line[i-1] }
         view big clipped bigendian fill -2 { var l [i:6] = line[i-1]; var n [2*i] = n[i] }
         view all clipped aligned fill 1 { var m [i:4]{a; b; skip 3; c; d; e; f} = m[i] }
         view turned columnmajor clipped fill 3 { var l [i:5] = line[3-i]; var g [j:2,i:4] = g[i,j] }
         view full fill 7 { var l = line }",
    );
    let cleared = |name: &str| {
        let fragment = &schema.view(name).unwrap().fragment;
        let mut buffer = vec![9; fragment.size_bytes() as usize + 1];
        fragment.clear(&mut buffer);
        assert_eq!(buffer.pop(), Some(9));
        for bytes in 1..buffer.len() {
            let mut pieces = vec![9; buffer.len()];
            for (number, piece) in pieces.chunks_mut(bytes).enumerate() {
                fragment.clear_from((number * bytes) as u64, piece);
            }
            assert_eq!(pieces, buffer, "{name} in pieces of {bytes} bytes");
        }
        assert_eq!(Fragment::decode(&fragment.encode()).unwrap(), *fragment);
        (fragment.fills(), buffer)
    };
    let (fills, bytes) = cleared("v");
    let numbers =
        |bytes: &[u8]| bytes.chunks(8).map(|one| f64::from_ne_bytes(one.try_into().unwrap())).collect::<Vec<_>>();
    let numbers = numbers(&bytes);
    assert!(fills && numbers[0].is_nan() && numbers[5].is_nan(), "{numbers:?}");
    assert_eq!(numbers[1..5], [0.0; 4], "elements are zero, whatever holes have");
    let (_, bytes) = cleared("big");
    let (hole, element) = ((-2_f64).to_be_bytes(), [0; 8]);
    assert_eq!(bytes[..48], [hole, element, element, element, element, hole].concat());
    assert_eq!(bytes[48..], [[0; 4], (-2_i32).to_be_bytes(), [0; 4]].concat());
    let (_, bytes) = cleared("all");
    assert_eq!(bytes.len(), 4 * 32);
    assert_eq!(bytes[..3 * 32], [0; 3 * 32]);
    for cell in bytes[3 * 32..].chunks(32) {
        assert_eq!(cell[..8], 1_f64.to_ne_bytes());
        assert_eq!(cell[8..10], 1_i16.to_ne_bytes());
        assert_eq!((&cell[16..20], &cell[20..24]), (&1_f32.to_ne_bytes()[..], &[0; 4][..]));
        assert_eq!((&cell[24..26], &cell[26..28]), (&0x3c00_u16.to_ne_bytes()[..], &0x3f80_u16.to_ne_bytes()[..]));
        assert_eq!((cell[28], &cell[10..16], &cell[29..]), (1, &[0; 6][..], &[0; 3][..]));
    }
    let (_, bytes) = cleared("turned");
    assert_eq!(bytes[..40], [[0; 8], [0; 8], [0; 8], [0; 8], 3_f64.to_ne_bytes()].concat());
    assert_eq!(bytes[40..], [&[0; 12][..], &3_i16.to_ne_bytes(), &3_i16.to_ne_bytes()].concat());
    assert_eq!(cleared("full"), (false, vec![0; 32]), "a view without holes");
    let long = bind("var s string4000000000 view v clipped fill 0 { var s = s }");
    assert!(!long.view("v").unwrap().fragment.fills());
}

#[test]
fn holes_of_a_replica_have_the_value_of_its_views() {
    let text = |replicas: &str| {
        format!(
            "var l [4]float64 var n [2]int32 view v clipped fill nan {{ var l [i:6] = l[i-1] }}
             view n clipped fill nan {{ var l [i:2] = l[i+3] }} view o clipped fill 3 {{ var n [i:3] = n[i] }} {replicas}"
        )
    };
    let schema = bind(&text("replica complete r { view v; skip 8; view n }"));
    let fragment = &schema.replica("r").unwrap().fragment;
    let mut buffer = vec![9; fragment.size_bytes() as usize];
    fragment.clear(&mut buffer);
    let is_nan = |at: usize| f64::from_ne_bytes(buffer[8 * at..][..8].try_into().unwrap()).is_nan();
    // Of `l` six places, eight bytes that are left out, two places, and of `n` the rest.
    let nans: Vec<usize> = (0..9).filter(|at| is_nan(*at)).collect();
    assert_eq!((nans, buffer.len()), (vec![0, 5, 8], 9 * 8 + 8));
    assert!(buffer[72..].iter().all(|byte| *byte == 0));
    assert_eq!(Fragment::decode(&fragment.encode()).unwrap(), *fragment);
    let program = drepl::Program::parse(&text("replica r { view v; view o }")).unwrap();
    let error = program.bind(&Bindings::new()).unwrap_err().to_string();
    assert!(error.contains("another value"), "{error}");
}

/// As bytes from elsewhere may describe one.
#[test]
fn a_fragment_may_have_more_places_than_can_be_counted() {
    let empty = || Type::array(vec![1 << 63, 1 << 63, 1 << 63], Type::Primitive(Primitive::Text(0)));
    let kind = Type::record([("a", empty()), ("b", empty())]);
    let variable =
        |name: &str| Variable { name: name.into(), offset_bytes: 0, kind: kind.clone(), layout: Layout::default() };
    let variables = vec![variable("v"), variable("w")];
    let fragment = Fragment::new(Arc::new(Dataset::default()), variables, Vec::new(), 8).unwrap();
    let fragment = fragment.with_fill(Some(Fill::Number(0)));
    let mut buffer = [9; 8];
    fragment.clear(&mut buffer);
    assert!(fragment.fills() && buffer == [0; 8]);
}

#[test]
fn lists_choose_elements() {
    let line = |list: &str, right: &str| {
        let text = format!("var line [100]float64 const at = [{list}] view v readonly {{ var a [i] = {right} }}");
        parts(&bind(&text).view("v").unwrap().fragment)
    };
    // Those at equal distances are one part, if there are eight of them, or if they are next to each other.
    let eight = "3, 7, 11, 15, 19, 23, 27, 31, 99";
    assert_eq!(line(eight, "line[at[i]]"), ["line[3+4*8] @0 [8]", "line[99+1*1] @64 [0]"]);
    assert_eq!(line("3, 7", "line[at[i]]"), ["line[3+4*2] @0 [8]"]);
    let alone = ["line[3+1*1] @0 [0]", "line[7+1*1] @8 [0]", "line[19+1*1] @16 [0]"];
    assert_eq!(line("3, 7, 19", "line[at[i]]"), alone);
    assert_eq!(line("3, 4, 5, 6, 90", "line[at[i]]"), ["line[3+1*4] @0 [8]", "line[90+1*1] @32 [0]"]);
    assert_eq!(line("9, 7, 5", "line[at[i]]"), ["line[5+2*3] @16 [-8]"]);
    assert_eq!(line("4, 4, 4", "line[at[i]]").len(), 3);
    assert_eq!(line("1, 2, 3", "line[at[i] - 1]"), ["line[0+1*3] @0 [8]"]);
    assert_eq!(line("1, 2, 3", "line[99 - 2*at[i]]"), ["line[93+2*3] @16 [-8]"]);
    assert_eq!(line("8, 1, 7, 2", "line[at[2*i+1]]"), ["line[1+1*2] @0 [8]"]);
    assert_eq!(line("8, 6, 5", "line[at[i] / 2]"), ["line[3+1*2] @8 [-8]"], "an odd number has no half");
    let schema = bind(
        "const N = 5 const rows = [0, N-1, 2] const columns = [1, 1, 3] var m [N,4]int32
         view v { var p [i] = m[rows[i],columns[i]] } view w { var p [i,j] = m[rows[i],columns[2] - j] }
         view one { var p [j] = m[rows[1],j] } replica all { skip rows[1]; view v }",
    );
    let of = |name: &str| parts(&schema.view(name).unwrap().fragment);
    assert_eq!(of("v"), ["m[0+1*1,1+1*1] @0 [0,0]", "m[4+1*1,1+1*1] @4 [0,0]", "m[2+1*1,3+1*1] @8 [0,0]"]);
    let planes = ["m[0+1*1,0+1*4] @12 [0,-4]", "m[4+1*1,0+1*4] @28 [0,-4]", "m[2+1*1,0+1*4] @44 [0,-4]"];
    assert_eq!(of("w"), planes);
    assert_eq!(of("one"), ["m[4+1*1,0+1*4] @0 [0,4]"]);
    assert_eq!(schema.replica("all").unwrap().fragment.size_bytes(), 16);
    // A text that comes later, and bytes that were sent, know the list.
    let sent = drepl::schema::Schema::decode(&schema.encode()).unwrap();
    assert_eq!(sent.list("rows"), Some(&[0, 4, 2][..]));
    assert_eq!((sent.constant("rows"), sent.list("N")), (None, None));
    let later = sent.fragment("{ const own = [2] var p [i] = m[own[i],rows[i] - 1] }", &Bindings::new());
    assert!(later.unwrap_err().to_string().contains("index -1 of an axis"));
    let later = sent.fragment("{ const own = [2, 0] var p [i] = m[own[i],i + rows[0]] }", &Bindings::new()).unwrap();
    assert_eq!(parts(&later), ["m[2+1*1,0+1*1] @0 [0,0]", "m[0+1*1,1+1*1] @4 [0,0]"]);
    let holes = bind("var l [9]int8 const at = [3, 12, 5] view v clipped { var a [i:5] = l[at[i]] }");
    assert_eq!(parts(&holes.view("v").unwrap().fragment), ["l[3+2*2] @0 [2]"]);
}

/// Of any order, as many as a list may have, and by whom they are written, too.
#[test]
fn long_lists_in_no_order_are_written() {
    const COUNT: u64 = 1 << 16;
    // An odd number leads to each place once.
    let numbers: Vec<String> = (0..COUNT).map(|number| (number * 40503 % COUNT * 3).to_string()).collect();
    let list = numbers.join(", ");
    let text =
        format!("const at = [{list}] var l [200000]int8 view own {{ var a [i] = l[at[i]] }} view all {{ var a = l }}");
    let schema = bind(&text);
    let [own, all] = ["own", "all"].map(|name| schema.view(name).unwrap().fragment.clone());
    for (wanted, source) in [(&own, &all), (&all, &own), (&own, &own)] {
        let sources = [drepl::Source { fragment: source.clone(), version: 1, cost: 0, readable: true }];
        let plan = drepl::plan(&drepl::Wanted::newest(wanted), &sources).unwrap();
        assert_eq!(plan.transfers.iter().map(|(_, transfer)| transfer.moved_bytes()).sum::<u64>(), COUNT);
    }
}

/// Elements that lie at many places are looked for once.
#[test]
fn an_element_at_many_places_is_planned_as_soon() {
    let schema = bind("var l [1]int8 view own readonly { var a [i:60000] = l[i % 1] } view all { var a = l }");
    let [own, all] = ["own", "all"].map(|name| schema.view(name).unwrap().fragment.clone());
    for sources in [vec![], vec![all], vec![own.clone()]] {
        let count = sources.len();
        let sources: Vec<_> = sources
            .into_iter()
            .map(|fragment| drepl::Source { fragment, version: 1, cost: 0, readable: true })
            .collect();
        let plan = drepl::plan(&drepl::Wanted::newest(&own), &sources).unwrap();
        assert_eq!((plan.pieces.len(), plan.is_complete()), (60000 * count, count == 1));
        assert_eq!(plan.missing.iter().map(|missing| missing.elements.count()).sum::<u128>(), 1 - count as u128);
    }
}

/// The longest list says how many places there are.
#[test]
fn lists_of_different_lengths_are_no_pair() {
    let mistake = |view: &str| {
        let text = format!("const r = [0, 1, 2, 3] const c = [0, 1, 2] var m [5,5]int8 var n [4,1]int8 {view}");
        drepl::Program::parse(&text)
            .and_then(|program| program.bind(&Bindings::new()))
            .err()
            .map(|error| error.to_string())
    };
    for view in ["m[r[i],c[i]]", "m[c[i],r[i]]", "m[c[i] + r[i - i + 3],r[i]]", "n[r[i],i]"] {
        assert!(mistake(&format!("view v {{ var p [i] = {view} }}")).is_some(), "{view}");
    }
    assert!(mistake("view v { var p [i] = m[r[i],c[i]] }").unwrap().contains("index 3 of a list of 3 numbers"));
    assert_eq!(mistake("view v clipped { var p [i:4] = m[r[i],c[i]] } view w { var p [i:3] = m[r[i],c[i]] }"), None);
}

#[test]
fn the_left_side_has_places_of_its_own() {
    let line = |left: &str| part(&format!("{MESH} view v {{ var a [{left}] = line[i] }}"), "v");
    assert_eq!(line("2*i"), "line[0+1*1000] @0 [16]");
    assert_eq!(line("i+1"), "line[0+1*1000] @8 [8]");
    assert_eq!(line("i/2"), "line[0+2*500] @0 [8]");
    assert_eq!(line("9-i"), "line[0+1*10] @72 [-8]");
    assert_eq!(line("3:5,i:4"), "line[0+1*4] @96 [8]");
    assert_eq!(line("i:4,3"), "line[0+1*4] @24 [32]");
}

#[test]
fn a_constant_index_takes_a_plane() {
    let volume =
        "var v [4,5,6]float32 view p { var a [i,k] = v[i,2,k] } view q { var a = v[,2,] } view r { var a = v[3,2,1] }";
    let schema = bind(volume);
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    assert_eq!(variables(view("p")), ["a @0 [4,6]float32"]);
    assert_eq!(parts(view("p")), ["v[0+1*4,2+1*1,0+1*6] @0 [24,0,4]"]);
    assert_eq!(parts(view("q")), parts(view("p")));
    assert_eq!(variables(view("r")), ["a @0 float32"]);
    assert_eq!(parts(view("r")), ["v[3+1*1,2+1*1,1+1*1] @0 [0,0,0]"]);
}

#[test]
fn indices_are_linked_across_brackets() {
    let vectors = "var b [4,5][3]float32 view soa { var a [k][i,j] = b[i,j][k] } view same { var a = b[,][] } \
                   view wild { var a [,][] = b[,][] } view one { var a [k,j,i] = b[i,j][k] }";
    let schema = bind(vectors);
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    assert_eq!(variables(view("soa")), ["a @0 [3][4,5]float32"]);
    assert_eq!(parts(view("soa")), ["b[0+1*4,0+1*5,0+1*3] @0 [20,4,80]"]);
    assert_eq!(variables(view("same")), ["a @0 [4,5][3]float32"]);
    assert_eq!(parts(view("same")), ["b[0+1*4,0+1*5,0+1*3] @0 [60,12,4]"]);
    assert_eq!(parts(view("wild")), parts(view("same")));
    assert_eq!(parts(view("one")), ["b[0+1*4,0+1*5,0+1*3] @0 [4,16,80]"]);
}

#[test]
fn records_are_reordered_narrowed_and_taken_apart() {
    let text = "\
type Flux struct { x, y float32 }
type Cell struct { rho, e float64; flux [3]Flux; id int32 }
type Small struct { id int32; flux [3]struct { y float32 } }
var mesh [4,5]Cell
view reordered { var m [,]{id; rho} = mesh }
view typed { var m [i,j]Small = mesh[i,j] }
view both { var m [i,j]{id; flux}Small = mesh[i,j] }
view right { var m = mesh{flux {y}; id} }
view numbers { var m [i,j] = mesh[i,j].flux[1].y }
view whole { var m = mesh.rho }
view apart { var m {rho [j,i]
    id [i,j]} = mesh[i,j] }
view inner { var m [i]{ flux [k]{x} } = mesh[i,2]{ flux[k] } }
view primitive { var m [i,j]float64 = mesh[i,j].rho }
type Short struct { rho float32; id int32 }
view converted { var m [i,j]Short = mesh[i,j] }
view one { var m [i,j]{rho bfloat16; id} = mesh[i,j] }
";
    let schema = bind(text);
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    assert_eq!(variables(view("reordered")), ["m @0 [4,5]struct { id int32; rho float64 }"]);
    assert_eq!(parts(view("reordered")), ["mesh.rho[0+1*4,0+1*5] @4 [60,12]", "mesh.id[0+1*4,0+1*5] @0 [60,12]"]);
    assert_eq!(variables(view("typed")), ["m @0 [4,5]Small"]);
    let typed = ["mesh.flux.y[0+1*4,0+1*5,0+1*3] @4 [80,16,4]", "mesh.id[0+1*4,0+1*5] @0 [80,16]"];
    assert_eq!(parts(view("typed")), typed);
    assert_eq!(parts(view("both")), typed);
    let right = ["mesh.flux.y[0+1*4,0+1*5,0+1*3] @0 [80,16,4]", "mesh.id[0+1*4,0+1*5] @12 [80,16]"];
    assert_eq!(parts(view("right")), right);
    assert_eq!(variables(view("numbers")), ["m @0 [4,5]float32"]);
    assert_eq!(parts(view("numbers")), ["mesh.flux.y[0+1*4,0+1*5,1+1*1] @0 [20,4,0]"]);
    assert_eq!(variables(view("whole")), ["m @0 [4,5]float64"]);
    assert_eq!(variables(view("apart")), ["m @0 struct { rho [5,4]float64; id [4,5]int32 }"]);
    assert_eq!(parts(view("apart")), ["mesh.rho[0+1*4,0+1*5] @0 [8,32]", "mesh.id[0+1*4,0+1*5] @160 [20,4]"]);
    assert_eq!(variables(view("inner")), ["m @0 [4]struct { flux [3]struct { x float32 } }"]);
    assert_eq!(parts(view("inner")), ["mesh.flux.x[0+1*4,2+1*1,0+1*3] @0 [12,0,4]"]);
    assert_eq!(variables(view("primitive")), ["m @0 [4,5]float64"]);
    assert_eq!(variables(view("converted")), ["m @0 [4,5]Short"]);
    let converted = ["mesh.rho[0+1*4,0+1*5] @0 [40,8]", "mesh.id[0+1*4,0+1*5] @4 [40,8]"];
    assert_eq!(parts(view("converted")), converted);
    assert_eq!(variables(view("one")), ["m @0 [4,5]struct { rho bfloat16; id int32 }"]);
    assert_eq!(
        view("one").parts().iter().map(|part| part.primitive).collect::<Vec<_>>(),
        [Primitive::Bfloat16, Primitive::Int32]
    );
}

#[test]
fn braces_behind_brackets_are_records_in_an_array_and_braces_alone_are_arrays_in_a_record() {
    let text = "\
var mesh [4,5]struct { rho float64; flux float32; id int8 }
view records { var a [,]{rho; flux} = mesh }
view same { var a = mesh{rho; flux} }
view both { var a [,]{rho; flux} = mesh{flux; rho} }
view arrays { var a {rho; flux} = mesh }
view arrays_too { var a {rho; flux} = mesh{flux; rho} }
";
    let schema = bind(text);
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    for name in ["records", "same", "both"] {
        assert_eq!(variables(view(name)), ["a @0 [4,5]struct { rho float64; flux float32 }"], "{name}");
        let expected = ["mesh.rho[0+1*4,0+1*5] @0 [60,12]", "mesh.flux[0+1*4,0+1*5] @8 [60,12]"];
        assert_eq!(parts(view(name)), expected, "{name}");
    }
    for name in ["arrays", "arrays_too"] {
        assert_eq!(variables(view(name)), ["a @0 struct { rho [4,5]float64; flux [4,5]float32 }"], "{name}");
        let expected = ["mesh.rho[0+1*4,0+1*5] @0 [40,8]", "mesh.flux[0+1*4,0+1*5] @160 [20,4]"];
        assert_eq!(parts(view(name)), expected, "{name}");
    }
}

#[test]
fn arrays_of_structures_come_from_structures_of_arrays_as_well() {
    let schema = bind(
        "type Soa struct { rho [9]float64; e [9]float32 }
        var gas Soa
        view aos { var a [i]{rho; e} = gas{rho[i]; e[i]} }",
    );
    let fragment = &schema.view("aos").unwrap().fragment;
    assert_eq!(variables(fragment), ["a @0 [9]struct { rho float64; e float32 }"]);
    assert_eq!(parts(fragment), ["gas.rho[0+1*9] @0 [12]", "gas.e[0+1*9] @8 [12]"]);
}

#[test]
fn columns_are_contiguous_where_the_view_says_so() {
    let text = "var b [4,5][3]float32 view v columnmajor { var a = b }";
    let schema = bind(text);
    assert_eq!(parts(&schema.view("v").unwrap().fragment), ["b[0+1*4,0+1*5,0+1*3] @0 [12,48,4]"]);
    let schema = bind("var b [4,5]float32 view v columnmajor { var a [j,i] = b[i,j] }");
    assert_eq!(parts(&schema.view("v").unwrap().fragment), ["b[0+1*4,0+1*5] @0 [20,4]"]);
}

#[test]
fn bytes_are_in_the_order_of_the_view() {
    let schema =
        bind("var a int32 view b bigendian { var a = a } view l littleendian readonly { var a = a } { var a = a }");
    let orders: Vec<ByteOrder> = schema.views().iter().map(|view| view.fragment.parts()[0].byte_order).collect();
    assert_eq!(orders, [ByteOrder::BigEndian, ByteOrder::LittleEndian, ByteOrder::NATIVE]);
    assert_eq!(schema.views()[2].name, None);
}

#[test]
fn aligned_records_lie_as_in_c() {
    let text = "\
type T struct { a int8; b float64; c int16; d complex128; e string3; f struct { x bool; y int32 } }
var t [2]T
var u uint8
view as_in_c aligned { var first = u; var t = t }
view tight packed { var first = u; var t = t }
";
    let schema = bind(text);
    let view = |name: &str| schema.view(name).unwrap();
    // sizeof and offsetof of a C compiler.
    let expected = [
        "t.a[0+1*2] @8 [56]",
        "t.b[0+1*2] @16 [56]",
        "t.c[0+1*2] @24 [56]",
        "t.d[0+1*2] @32 [56]",
        "t.e[0+1*2] @48 [56]",
        "t.f.x[0+1*2] @52 [56]",
        "t.f.y[0+1*2] @56 [56]",
        "u[] @0 []",
    ];
    assert_eq!(parts(&view("as_in_c").fragment), expected);
    assert_eq!(view("as_in_c").fragment.size_bytes(), 120);
    assert_eq!(view("tight").fragment.size_bytes(), 1 + 2 * (1 + 8 + 2 + 16 + 3 + 5));
    assert_eq!(view("as_in_c").layout.packing, Packing::Aligned);
    let kind = &view("as_in_c").fragment.variables()[1].kind;
    assert_eq!(view("as_in_c").layout.size_bytes(kind), Some(112));
    assert_eq!(view("as_in_c").layout.alignment_bytes(kind), 8);
    let Type::Array(array) = kind else { panic!("an array") };
    assert_eq!(view("as_in_c").layout.strides_bytes(array).unwrap(), [56]);
    let Type::Record(record) = &array.element else { panic!("a record") };
    assert_eq!(view("as_in_c").layout.field_offsets_bytes(record).unwrap(), [0, 8, 16, 24, 40, 44]);
}

#[test]
fn what_lies_beyond_the_rim_of_a_clipped_view_is_a_hole() {
    let text = "var g [10,10]float32 view v clipped { var a [x:4,y:4] = g[x-1,y+8] } view out clipped { var a [x:4] = g[x+20,0] }
        view plane clipped { var a [x:4] = g[x,10]; var b [x:3] = g[x,9] }";
    let schema = bind(text);
    let view = |name: &str| &*schema.view(name).unwrap().fragment;
    assert_eq!(parts(view("v")), ["g[0+1*3,8+1*2] @16 [16,4]"]);
    assert_eq!(view("v").size_bytes(), 64);
    assert_eq!(parts(view("out")), [""; 0]);
    assert_eq!(view("out").size_bytes(), 16);
    assert_eq!(parts(view("plane")), ["g[0+1*3,9+1*1] @16 [4,0]"]);
}

#[test]
fn a_replica_holds_its_views_back_to_back_behind_what_it_skips() {
    let text = "\
const HEADER = 100
var a [7]int32
var b [3]int16
view x { var a = a }
view y aligned { var b = b; var a = a }
replica readonly file \"data.bin\" { skip HEADER + 28; view y; skip 3 view x }
";
    let schema = bind(text);
    let file = schema.replica("file").unwrap();
    assert!(file.readonly && !file.complete);
    assert_eq!(variables(&file.fragment), ["y.b @128 [3]int16", "y.a @136 [7]int32", "x.a @167 [7]int32"]);
    assert_eq!(
        file.views.iter().map(|stored| (stored.view, stored.offset_bytes)).collect::<Vec<_>>(),
        [(1, 128), (0, 167)]
    );
    assert_eq!(file.fragment.size_bytes(), 195);
    assert_eq!(file.rest_offset_bytes, 195);
}

#[test]
fn a_complete_replica_holds_what_its_views_leave_out() {
    let text = "\
var a [10]int32
var b [3]int16
view x { var a [i] = a[i*4+1] }
replica complete bigendian r { view x }
replica complete all { }
";
    let schema = bind(text);
    let r = schema.replica("r").unwrap();
    assert_eq!(r.rest_offset_bytes, 12);
    assert_eq!(r.fragment.size_bytes(), 46);
    // Each element lies in it exactly once.
    let mut seen: Vec<u64> = r
        .fragment
        .parts_of(drepl::dataset::LeafId(0))
        .1
        .iter()
        .flat_map(|part| part.elements.axes()[0].iter().collect::<Vec<_>>())
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..10).collect::<Vec<_>>());
    assert!(r.fragment.parts().iter().all(|part| part.offset_bytes < 12 || part.byte_order == ByteOrder::BigEndian));
    let all = schema.replica("all").unwrap();
    assert_eq!(variables(&all.fragment), ["rest.a @0 [10]int32", "rest.b @40 [3]int16"]);
}

#[test]
fn a_text_of_one_view_may_have_a_name_and_attributes_and_uses_the_names_of_the_schema() {
    let schema = bind_with(&format!("{MESH} type Small struct {{ id int32 }}"), &Bindings::from([("half", 500)]));
    let view = schema.parse_view(
        "view lower columnmajor readonly { var m [i:half,j:K]Small = mesh[i,j+N-K] const K = 10 }",
        &Bindings::new(),
    );
    let view = view.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert_eq!(view.name.as_deref(), Some("lower"));
    assert_eq!(variables(&view.fragment), ["m @0 [500,10]Small"]);
    assert_eq!(parts(&view.fragment), ["mesh.id[0+1*500,990+1*10] @0 [4,2000]"]);
    // A binding of the call counts more than one of the schema.
    let view = schema.fragment("{ var m [i:half] = line[i] }", &Bindings::from([("half", 3)])).unwrap();
    assert_eq!(view.size_bytes(), 24);
    assert!(schema.fragment("{ var m = line } { var n = line }", &Bindings::new()).is_err());
    assert!(schema.fragment("var m [3]int8", &Bindings::new()).is_err());
    assert!(schema.fragment("", &Bindings::new()).is_err());
}

#[test]
fn records_of_as_many_fields_as_there_may_be_are_taken_apart_on_either_side() {
    let fields = |write: &dyn Fn(usize) -> String| (0..1 << 16).map(write).collect::<String>();
    let braces = fields(&|n| format!("f{n}; "));
    let types = [fields(&|n| format!("f{n} int8; ")), fields(&|n| format!("f{} int8; ", (1 << 16) - 1 - n))];
    let schema = bind(&format!("type T struct {{ {} }} type Turned struct {{ {} }} var t T", types[0], types[1]));
    let each = fields(&|n| format!("var a{n} = t.f{n} "));
    let texts = [
        format!("{{ var a = t{{ {braces} }} }}"),
        format!("{{ var a {{ {braces} }} = t }}"),
        format!("{{ var a {{ {braces} }} = t{{ {braces} }} }}"),
        "{ var a Turned = t }".into(),
        "{ var a = t Turned }".into(),
        format!("{{ {each} }}"),
    ];
    for text in texts {
        let fragment = schema.fragment(&text, &Bindings::new()).unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!((fragment.size_bytes(), fragment.parts().len()), (1 << 16, 1 << 16));
    }
}
