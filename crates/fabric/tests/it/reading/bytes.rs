//! Bytes that anybody may have sent, read as each message of a fabric: shared by a test and a fuzzer.

use stillframe_fabric::message::{Address, CHUNK_BYTES, HEAD_BYTES, Head, Pass, WINDOW, decode_grant};

/// Reads them. What is read is within its bounds, and an address is written as it was read.
pub fn message(bytes: &[u8]) {
    if let Ok(address) = Address::decode(bytes) {
        assert_eq!(address.encode(), bytes);
    }
    // A peer knows its pass, and lies about the rest.
    let mut random = [0; 32];
    for (place, byte) in random.iter_mut().zip(bytes) {
        *place = *byte;
    }
    let mut pass = Pass::new(&random);
    if let Some(token) = bytes.get(16..HEAD_BYTES) {
        pass.token.copy_from_slice(token);
    }
    if let Ok(head) = Head::decode(bytes, &pass) {
        assert!((1..=CHUNK_BYTES).contains(&head.bytes));
        assert_eq!(HEAD_BYTES + head.bytes, bytes.len());
        assert_eq!(head.encode(&pass), bytes[..HEAD_BYTES]);
    }
    if let Some(token) = bytes.get(8..24) {
        pass.token.copy_from_slice(token);
    }
    if let Ok(granted) = decode_grant(bytes, &pass, 5, 3) {
        assert!((3..=5 + WINDOW).contains(&granted));
    }
}
