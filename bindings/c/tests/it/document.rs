//! What docs/c.md shows, done as a reader would.

use crate::common::{libraries, regions, root};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

struct Block {
    language: String,
    file: Option<String>,
    is_run: bool,
    text: String,
}

fn blocks() -> Vec<Block> {
    let document = std::fs::read_to_string(root().join("../../docs/c.md")).unwrap();
    let mut found = Vec::new();
    for piece in document.split("\n```").skip(1).step_by(2) {
        let (first, text) = piece.split_once('\n').unwrap();
        let mut words = first.split_whitespace();
        let language = words.next().unwrap_or_default().to_string();
        let words: Vec<&str> = words.collect();
        let file = words.iter().find_map(|word| word.strip_prefix("file=")).map(str::to_string);
        found.push(Block { language, file, is_run: words.contains(&"run"), text: format!("{text}\n") });
    }
    assert!(found.len() > 5);
    found
}

/// The program before and after the lines with `+`.
fn before_and_after(diff: &str) -> (String, String) {
    let (mut before, mut after) = (String::new(), String::new());
    for line in diff.lines() {
        let text = line.get(1..).unwrap_or_default();
        assert!(line.is_empty() || line.starts_with([' ', '+']), "{line}");
        for program in if line.starts_with('+') { vec![&mut after] } else { vec![&mut before, &mut after] } {
            program.push_str(text);
            program.push('\n');
        }
    }
    (before, after)
}

#[test]
fn the_links_of_the_page_lead_somewhere() {
    let docs = root().join("../../docs");
    let document = std::fs::read_to_string(docs.join("c.md")).unwrap();
    let links: Vec<&str> = document.split("](").skip(1).filter_map(|rest| rest.split(')').next()).collect();
    assert!(links.len() > 2);
    for link in links {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        assert!(docs.join(file).exists(), "{link}");
        if heading.is_empty() {
            continue;
        }
        let page = if file.is_empty() { "c.md" } else { file };
        let page = std::fs::read_to_string(docs.join(page)).unwrap();
        let anchor = |line: &str| line.trim_start_matches('#').trim().to_lowercase().replace(' ', "-");
        assert!(page.lines().any(|line| line.starts_with('#') && anchor(line) == heading), "{link}");
    }
}

#[test]
fn the_programs_of_the_page_build_and_run_as_printed() {
    let (work, regions) = (tempfile::tempdir().unwrap(), regions());
    // A reader has it installed; here its answer is that of the libraries just built.
    let pkg_config = work.path().join("pkg-config");
    let (include, lib) = (root().join("include"), libraries());
    let flags = format!("-I{} -L{1} -lstillframe -Wl,-rpath,{1}", include.display(), lib.display());
    std::fs::write(&pkg_config, format!("#!/bin/sh\necho '{flags}'\n")).unwrap();
    std::fs::set_permissions(&pkg_config, std::fs::Permissions::from_mode(0o755)).unwrap();
    let shell = |text: &str| {
        let path = format!("{}:{}", work.path().display(), std::env::var("PATH").unwrap());
        let mut command = Command::new("timeout");
        command.args(["120", "sh", "-e", "-c", text]).current_dir(work.path()).env("PATH", path);
        let out = command.env("STILLFRAME_DIR", regions.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{text}{printed}{}", String::from_utf8_lossy(&out.stderr));
        printed
    };
    let mut printed = String::new();
    for Block { language, file, is_run, text } in blocks() {
        match (language.as_str(), file) {
            ("diff", Some(file)) => {
                let (before, after) = before_and_after(&text);
                assert_eq!(after.lines().count() - before.lines().count(), 4, "lines that Stillframe takes");
                std::fs::write(work.path().join("plain.c"), before).unwrap();
                shell("cc -Wall -Wextra -Werror -O1 -o plain plain.c && ./plain");
                std::fs::write(work.path().join(file), after).unwrap();
            }
            ("c", Some(file)) => std::fs::write(work.path().join(file), text).unwrap(),
            ("sh", None) if is_run => printed += &shell(&text),
            (language, _) => panic!("a block of {language} that nobody looks at"),
        }
    }
    assert!(printed.contains("step 500: mean "), "{printed}");
    assert!(printed.contains("sum 30, version 30 is safe"), "{printed}");
    // The second run of the careful program goes on from the first.
    assert!(printed.contains("step 10: ") && printed.contains("step 20: "), "{printed}");
    shell("for file in *.c; do cc -std=c11 -Wall -Wextra -Wpedantic -Werror $(pkg-config --cflags) -c $file; done");
}
