//! `docs/drepl-language.md`: what it shows is read, and comes to what it says.

use drepl::{Bindings, Program};

const PAGE: &str = include_str!("../../../../../docs/drepl-language.md");

/// The blocks of code, each with what stands behind its backticks.
fn blocks() -> Vec<(&'static str, &'static str)> {
    let mut blocks = Vec::new();
    let mut rest = PAGE;
    while let Some((_, opened)) = rest.split_once("\n```") {
        let (kind, body) = opened.split_once('\n').unwrap();
        let (body, after) = body.split_once("\n```").unwrap();
        blocks.push((kind, body));
        rest = after;
    }
    blocks
}

fn objects() -> &'static str {
    blocks()[0].1
}

#[test]
fn every_row_of_the_examples_has_the_bytes_it_says() {
    let mut rows = 0;
    for line in PAGE.lines() {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [view, _, bytes] = cells[..] else { continue };
        let Some(view) = view.strip_prefix('`').and_then(|view| view.strip_suffix('`')) else { continue };
        let Ok(bytes) = bytes.parse::<u64>() else { continue };
        let text = format!("{}\n{view}", objects());
        let schema = Program::parse(&text).and_then(|program| program.bind(&Bindings::new()));
        let schema = schema.unwrap_or_else(|mistakes| panic!("{mistakes}"));
        assert_eq!(schema.views()[0].fragment.size_bytes(), bytes, "{view}");
        rows += 1;
    }
    assert_eq!(rows, 16);
}

#[test]
fn every_program_of_the_page_can_be_bound() {
    let programs: Vec<&str> = blocks().iter().filter(|(kind, _)| *kind == "drepl").map(|(_, body)| *body).collect();
    assert_eq!(programs.len(), 3);
    for program in &programs[1..] {
        let text = format!("{}\n{program}", objects());
        let schema = Program::parse(&text).and_then(|program| program.bind(&Bindings::new()));
        schema.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    }
}

#[test]
fn mistakes_look_as_the_page_shows_them() {
    let blocks = blocks();
    let at = blocks.iter().position(|(kind, _)| *kind == "drepl mistake").unwrap();
    // The objects stand behind, so that lines count as on the page.
    let text = format!("{}\n{}", blocks[at].1, objects());
    let mistakes = Program::parse(&text).unwrap().bind(&Bindings::new()).unwrap_err();
    assert_eq!(mistakes.to_string(), blocks[at + 1].1);
}

#[test]
fn every_code_of_a_mistake_is_explained() {
    use drepl::text::diagnostic::Code;
    for code in Code::ALL {
        assert!(PAGE.contains(&format!("`{}`", code.name())), "{}", code.name());
    }
}
