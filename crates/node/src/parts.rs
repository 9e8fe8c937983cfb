//! What is told in several messages where it is long: no message may be longer than the other side takes.

/// About so many bytes go into one message.
pub(crate) const PART_BYTES: usize = 4 << 20;

/// Splits items into parts of about [`PART_BYTES`], none of which is empty.
pub(crate) fn parts<T>(all: impl IntoIterator<Item = T>, bytes_of: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut bytes) = (Vec::<Vec<T>>::new(), 0);
    for one in all {
        let own = bytes_of(&one);
        bytes += own;
        match parts.last_mut().filter(|_| bytes <= PART_BYTES) {
            Some(last) => last.push(one),
            None => {
                bytes = own;
                parts.push(vec![one]);
            }
        }
    }
    parts
}
