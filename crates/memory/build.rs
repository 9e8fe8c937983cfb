//! The library begins before all others, so that nobody's handlers of `fork` come before its own and no thread runs yet.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,initfirst");
    println!("cargo:rerun-if-changed=build.rs");
}
