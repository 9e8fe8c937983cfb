//! Each construct of the language, and what it means.

use drepl::{
    Bindings, Program, Schema,
    fragment::Fragment,
    types::{AxisOrder, ByteOrder, Packing, Primitive, Type},
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
