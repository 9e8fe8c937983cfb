//! Keys and values of etcd, read from bytes that nobody meant. What is read is written as it was.

use stillframe_etcd::{keys, values};

/// The first byte says as what the rest is read.
pub fn read(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else { return };
    match kind % 6 {
        0 => drop(keys::read(bytes)),
        1 => {
            if let Ok(description) = values::read_description(bytes) {
                let written = values::write_description("name", &description);
                // Numbers and names may take more room than they did, as one that is escaped where it was not.
                if let Ok(written) = written {
                    assert_eq!(values::read_description(&written), Ok(description));
                }
            }
        }
        2 => {
            if let Ok(node) = values::read_node(bytes) {
                assert_eq!(values::read_node(&values::write_node(&node)), Ok(node));
            }
        }
        3 => {
            if let Ok(home) = values::read_home(bytes) {
                assert_eq!(values::read_home(&values::write_home(home)), Ok(home));
            }
        }
        4 => {
            if let Ok(epoch) = values::read_epoch(bytes) {
                assert_eq!(values::read_epoch(&values::write_epoch(&epoch)), Ok(epoch));
            }
        }
        _ => drop(values::read_counter(bytes)),
    }
}
