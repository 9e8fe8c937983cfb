//! Drawings of plans, as text and as SVG.

use drepl::{Bindings, Program, Schema, Source, Wanted, picture::Picture, plan};

fn schema(text: &str) -> Schema {
    Program::parse(text).unwrap().bind(&Bindings::new()).unwrap()
}

fn picture(schema: &Schema, wanted: &str, sources: &[&str]) -> Picture {
    let fragment = |text: &&str| schema.fragment(text, &Bindings::new()).unwrap();
    let of = |text| Source { fragment: fragment(text), version: 0, cost: 0, readable: true };
    let sources: Vec<Source> = sources.iter().map(of).collect();
    let wanted = fragment(&wanted);
    Picture::new(&plan(&Wanted::newest(&wanted), &sources).unwrap()).title("wanted")
}

/// The maps alone: lines that hold letters of sources and nothing else behind their index.
fn maps(picture: &Picture) -> Vec<String> {
    let text = picture.text();
    let is_map =
        |line: &&str| line.chars().all(|letter| "AB/ +".contains(letter)) && line.contains(['A', 'B', '/', '+']);
    text.lines()
        .map(|line| line.trim_start_matches(|letter: char| letter == ' ' || letter.is_ascii_digit()))
        .filter(is_map)
        .map(str::to_owned)
        .collect()
}

#[test]
fn ghost_cells_are_seen_beside_a_large_block() {
    let schema = schema("var g [10000,10000] int8");
    let blocks = ["{ var b [x:5000] = g[x,7] }", "{ var b [x:5000] = g[x+5000,7] }"];
    let text = picture(&schema, "{ var w [x:4001] = g[x+1000,7] }", &blocks).text();
    assert!(text.contains(&format!("  {}B\n", "A".repeat(71))), "{text}");
    assert!(text.contains("B  source 1  [5000, 7]        1 element\n"), "{text}");
    assert!(text.starts_with("wanted: 4001 elements from 2 sources\n\ng[1000..5001, 7]: 4001 elements\n"), "{text}");
}

#[test]
fn each_cell_shows_its_source_or_that_it_is_missing() {
    let schema = schema("var g [3,4] int8");
    let picture =
        picture(&schema, "{ var w = g }", &["{ var b [x:2,y:2] = g[x,y] }", "{ var b [x:1,y:4] = g[x+1,y] }"]);
    let row = |text: &str| text.chars().flat_map(|letter| [letter; 8]).collect::<String>();
    let expected = [row("AA//"), row("AA//"), row("AABB"), row("AABB"), row("////"), row("////")];
    assert_eq!(maps(&picture), expected, "{}", picture.text());
}

#[test]
fn of_what_alternates_the_beginning_is_drawn() {
    let schema = schema("var g [1000] int8");
    let picture = picture(&schema, "{ var w = g }", &["{ var b [x] = g[2*x] }", "{ var b [x] = g[2*x+1] }"]);
    assert_eq!(maps(&picture), ["AB".repeat(36)], "{}", picture.text());
    assert!(picture.text().contains("of index 0, the first 72 of 1000 places are drawn"));
    assert!(picture.svg().contains("of index 0, the first 56 of 1000 places are drawn"), "{}", picture.svg());
}

#[test]
fn every_fourth_element_is_drawn_without_what_lies_between() {
    let schema = schema("var g [16] int8");
    let picture = picture(&schema, "{ var w [i] = g[i*4] }", &["{ var b [x:8] = g[x] }"]);
    assert_eq!(maps(&picture), [format!("{}{}", "A".repeat(16), "/".repeat(16))], "{}", picture.text());
    assert!(picture.text().contains("g[0..13 step 4]: 4 elements"), "{}", picture.text());
}

#[test]
fn fields_are_apart_only_where_they_differ() {
    let schema = schema("var m [4] struct { a, b, c int8 }");
    let picture = picture(&schema, "{ var w = m }", &["{ var x [i]{a; b} = m[i] }", "{ var x [i:2]{c} = m[i] }"]);
    let text = picture.text();
    assert!(text.contains("m.a, m.b [0..4]: 4 elements each") && text.contains("m.c[0..4]: 4 elements"), "{text}");
    assert_eq!(maps(&picture), ["A".repeat(32), "B".repeat(16) + &"/".repeat(16)]);
}

#[test]
fn volumes_are_rows_of_planes_and_equal_planes_are_one() {
    let schema = schema("var v [9,4,4] int8");
    let sources = ["{ var b [x:2,y:4,z:4] = v[x+2,y,z] }", "{ var b [x:9,y:2,z:4] = v[x,y,z] }"];
    let text = picture(&schema, "{ var w = v }", &sources).text();
    assert!(text.contains("[0..2 and 4..9, …]") && text.contains("[2..4, …]"), "{text}");
}

/// Nothing but what belongs into a document: tags that close, and names that are no tags.
#[test]
fn svg_is_a_document_whatever_sources_are_called() {
    let schema = schema("var g [8,8] int8; var s float64");
    let names = ["<script>\"&\u{1}", "b"];
    let sources = ["{ var b [x:4,y:8] = g[x,y]; var s = s }", "{ var b [x:3,y:8] = g[x+4,y] }"];
    let svg = picture(&schema, "{ var w = g; var s = s }", &sources).names(names).title("a<b").svg();
    assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;&quot;&amp;<"), "{svg}");
    let mut open: Vec<&str> = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("every tag ends");
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        match (tag.starts_with('/'), tag.ends_with('/')) {
            (true, _) => assert_eq!(open.pop(), Some(name)),
            (false, false) => open.push(name),
            _ => {}
        }
    }
    assert!(open.is_empty(), "{open:?} is open");
    assert_eq!(svg.matches("fill=\"url(#missing)\"").count(), 2, "one map and the legend: {svg}");
}

/// As many columns as there are colours, or a multiple, would make stripes of blocks that are coloured in turn.
#[test]
fn blocks_beside_each_other_have_different_colours() {
    let schema = schema("var g [640,630] int8");
    let blocks: Vec<String> = (0..64 * 63)
        .map(|number| format!("{{ var b [x:10,y:10] = g[x+{},y+{}] }}", number / 63 * 10, number % 63 * 10))
        .collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let svg = picture(&schema, "{ var w = g }", &blocks).svg();
    let keys = svg.lines().filter(|line| line.contains("width=\"18\""));
    let colours: Vec<&str> = keys.map(|key| key.split("fill=\"").nth(1).unwrap().split('"').next().unwrap()).collect();
    assert_eq!(colours.len(), 120, "the legend has the first blocks: {svg}");
    for (number, colour) in colours.iter().enumerate() {
        for neighbour in [number + 1, number + 63] {
            assert_ne!(Some(colour), colours.get(neighbour), "{number} and {neighbour}");
        }
    }
}

#[test]
fn ten_thousand_pieces_are_still_a_drawing() {
    let schema = schema("var g [1000,1000] int8");
    let block = |number: usize| {
        let (i, j) = (number / 100 * 10, number % 100 * 10);
        format!("{{ var b [x:10,y:10] = g[x+{i},y+{j}] }}")
    };
    let blocks: Vec<String> = (0..9_999).map(block).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let picture = picture(&schema, "{ var w = g }", &blocks);
    assert!(picture.text().lines().count() < 200 && picture.svg().len() < 1_000_000);
    assert!(picture.text().contains("+  several sources\n"), "{}", picture.text());
    assert!(picture.text().contains("after 62 sources, letters are used again\n"), "{}", picture.text());
    assert!(picture.text().contains("… and 9900 pieces more"), "{}", picture.text());
}
