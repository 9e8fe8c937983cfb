//! Gives the shared library the name that programs look for when they start. Its number is raised when a program built
//! against an older one would no longer run.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstillframe.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
