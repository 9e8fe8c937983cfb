//! What etcd has no room for: the error says whether that is one value, or all that there is, and what to do about it.

use crate::common::{LONG, described, open, watchdog};
use stillframe_etcd::Child;
use stillframe_object::Names;

/// An etcd with other options than those that it is started with.
fn start_with(options: &str) -> Child {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("etcd");
    std::fs::write(&program, format!("#!/bin/sh\nexec etcd \"$@\" {options}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    Child::options().program(program).deadline(LONG).start().unwrap()
}

/// What is said of a description of so many bytes.
fn refusal(child: &Child, bytes: usize) -> String {
    open(child).names().put("large", &described(&" ".repeat(bytes), 1)).unwrap_err().to_string()
}

#[test]
fn a_value_that_is_too_large_does_not_make_etcd_full() {
    let _watchdog = watchdog(120);
    let child = start_with("--max-request-bytes 65536");
    // What gRPC does not take in, etcd never sees.
    for (bytes, code) in [(100 << 10, 3), (800 << 10, 8)] {
        let text = refusal(&child, bytes);
        assert!(text.contains(&format!("code {code}")) && text.contains("too large for it alone"), "{text}");
        assert!(text.contains("--max-request-bytes") && !text.contains("etcd is full"), "{text}");
    }
}

#[test]
fn an_etcd_that_is_full_says_so() {
    let _watchdog = watchdog(120);
    let text = refusal(&start_with("--quota-backend-bytes 500000"), 600 << 10);
    assert!(text.contains("code 8") && text.contains("etcd is full: compact and defragment it"), "{text}");
    assert!(text.contains("alarm disarm") && text.contains("--quota-backend-bytes"), "{text}");
    assert!(!text.contains("--max-request-bytes"), "{text}");
}
