//! Gives the shared library the name that programs look for when they start. It stays when a program unloads it: what it has to
//! do in a child of fork and at the end of the process would be gone.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstillframe-xpmem.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
