//! The committed header is the one that the sources give, and C and C++ compilers take it without a word.

use std::path::PathBuf;
use std::process::Command;

/// The package of the C interface.
fn interface() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn committed() -> PathBuf {
    interface().join("include/stillframe.h")
}

fn generate() -> String {
    let config = cbindgen::Config::from_file(interface().join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new().with_crate(interface()).with_config(config).generate().unwrap();
    let mut text = Vec::new();
    bindings.write(&mut text);
    String::from_utf8(text).unwrap()
}

#[test]
fn the_committed_header_is_what_the_sources_give() {
    let generated = generate();
    if std::env::var_os("STILLFRAME_WRITE_HEADER").is_some() {
        std::fs::write(committed(), &generated).unwrap();
    }
    let committed = std::fs::read_to_string(committed()).unwrap_or_default();
    let differs = committed.lines().zip(generated.lines()).position(|(left, right)| left != right);
    assert!(committed == generated, "include/stillframe.h differs from line {differs:?} on: run `make header`");
}

#[test]
fn compilers_take_the_header_without_a_word() {
    let dir = tempfile::tempdir().unwrap();
    for (language, compiler, standard) in [("c", "cc", "c99"), ("c", "cc", "c11"), ("c++", "c++", "c++17")] {
        let source = dir.path().join(if language == "c" { "empty.c" } else { "empty.cpp" });
        std::fs::write(&source, "#include <stillframe.h>\nint main(void) { return STILLFRAME_OK; }\n").unwrap();
        let out = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"])
            .arg(format!("-std={standard}"))
            .arg("-I")
            .arg(interface().join("include"))
            .arg(&source)
            .output()
            .unwrap();
        assert!(out.status.success() && out.stderr.is_empty(), "{}", String::from_utf8_lossy(&out.stderr));
    }
}
