//! Messages nobody meant, without a fuzzer.

use crate::bytes;

use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes_are_refused_or_within_their_bounds(mut message in vec(any::<u8>(), 0..300), shape in 0..4_u8) {
        let length = message.len();
        match shape {
            0 if length > 32 => {
                message[8..16].fill(0);
                message[8..10].copy_from_slice(&((length - 32) as u16).to_le_bytes());
            }
            1 if length > 24 => {
                message.truncate(24);
                message[1..8].fill(0);
            }
            2 if length > 60 => {
                message[0] = 1;
                for place in [7, 8, 31, 32, 50, 51, 52, 54] {
                    message[place] = 0;
                }
            }
            _ => {}
        }
        bytes::message(&message);
    }
}
