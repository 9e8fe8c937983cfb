//! Compiles the loops in C as a program would have them compiled.

fn main() {
    println!("cargo::rerun-if-changed=src/loops.c");
    cc::Build::new().file("src/loops.c").opt_level(3).warnings(true).compile("loops");
}
