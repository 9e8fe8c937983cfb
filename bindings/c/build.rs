//! Gives the shared library the name that programs look for when they start. Its number is raised when a program built
//! against an older one would no longer run. And it stays when a program unloads it: its threads may be at work, and what it
//! has to do in a child of fork or at the end of the process would be gone.

fn main() {
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstillframe.so.0");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rerun-if-changed=build.rs");
}
