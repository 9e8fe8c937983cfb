//! Puts any bytes into etcd, by its JSON gateway: what this crate itself would never write.

use std::io::{Read, Write};
use std::net::TcpStream;

pub fn put(endpoint: &str, key: &[u8], value: &[u8]) {
    let host = endpoint.strip_prefix("http://").unwrap();
    let body = format!(r#"{{"key":"{}","value":"{}"}}"#, base64(key), base64(value));
    let mut stream = TcpStream::connect(host).unwrap();
    let length = body.len();
    let head =
        format!("POST /v3/kv/put HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all(&[head.as_bytes(), body.as_bytes()].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
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
