//! Puts any bytes into etcd, by its JSON gateway: what this crate itself would never write. And ends leases when a test wants it.
#![allow(dead_code, reason = "not all suites use all of it")]

use std::io::{Read, Write};
use std::net::TcpStream;

pub fn put(endpoint: &str, key: &[u8], value: &[u8]) {
    ask(endpoint, "kv/put", &format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value)));
}

/// Ends the lease under which a key is kept, as it ends when nobody keeps it up.
pub fn end_lease(endpoint: &str, key: &str) {
    let kept = ask(endpoint, "kv/range", &format!(r#"{{"key":"{}"}}"#, base64(key.as_bytes())));
    let lease = kept.split_once(r#""lease":""#).unwrap_or_else(|| panic!("{key} has no lease: {kept}")).1;
    let lease = lease.split('"').next().unwrap();
    ask(endpoint, "lease/revoke", &format!(r#"{{"ID":"{lease}"}}"#));
}

fn ask(endpoint: &str, call: &str, body: &str) -> String {
    let host = endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let head =
        format!("POST /v3/{call} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let four = |three: &[u8]| {
        let number = (0..3).fold(0, |number, at| number << 8 | u32::from(three.get(at).copied().unwrap_or(0)));
        let digit =
            |at: usize| if at > three.len() { '=' } else { DIGITS[(number >> (18 - 6 * at) & 63) as usize].into() };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(four).collect()
}
