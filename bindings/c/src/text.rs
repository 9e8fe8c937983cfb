//! What the last failed call of a thread had to say, in a place that is there in signal handlers too.

use std::cell::Cell;
use std::ffi::c_char;
use std::fmt::Write;

const TEXT_BYTES: usize = 2048;

// Without destructor and allocation, so that they are there in signal handlers and at a thread's end.
thread_local! {
    /// What the last failed call had to say.
    static TEXT: [Cell<u8>; TEXT_BYTES] = const { [const { Cell::new(0) }; TEXT_BYTES] };
    /// Why stillframe_begin returned NULL last.
    static BEGIN: [Cell<u8>; TEXT_BYTES / 2] = const { [const { Cell::new(0) }; TEXT_BYTES / 2] };
}

/// The text in a buffer.
fn read<R>(buffer: &[Cell<u8>], work: impl FnOnce(&str) -> R) -> R {
    let mut bytes = [0; TEXT_BYTES];
    bytes.iter_mut().zip(buffer).for_each(|(to, from)| *to = from.get());
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
    work(std::str::from_utf8(&bytes[..length]).unwrap_or_default())
}

/// Puts a text into a buffer, as much of it as there is room for.
fn write_text(buffer: &[Cell<u8>], text: impl std::fmt::Display) {
    let mut cut = Cut { to: buffer, used: 0 };
    // An error here only says that the text is cut.
    let _ = write!(cut, "{text}");
    buffer[cut.used].set(0);
}

/// Text cut at the end of a buffer, between two characters, and ended by a zero.
struct Cut<'a> {
    to: &'a [Cell<u8>],
    used: usize,
}

impl Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for character in text.chars().filter(|character| *character != '\0') {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            if self.used + bytes.len() >= self.to.len() {
                return Err(std::fmt::Error);
            }
            self.to[self.used..].iter().zip(bytes).for_each(|(to, byte)| to.set(*byte));
            self.used += bytes.len();
        }
        Ok(())
    }
}

/// Keeps what the function of this name, which fails, has to say.
pub fn set_error_text(function: &str, failure: impl std::fmt::Display) {
    TEXT.with(|text| write_text(text, format_args!("{function}: {failure}")));
}

/// Keeps what stillframe_begin had to say, because its NULL says nothing.
pub fn note_begin(is_well: bool) {
    BEGIN.with(|begin| match is_well {
        true => begin[0].set(0),
        false => TEXT.with(|text| read(text, |text| write_text(begin, text))),
    });
}

/// Looks at why stillframe_begin returned NULL last; the text is empty if it did not.
pub fn with_begin<R>(work: impl FnOnce(&str) -> R) -> R {
    BEGIN.with(|begin| read(begin, work))
}

/// This thread's error text.
pub fn error_text() -> *const c_char {
    TEXT.with(|text| text.as_ptr().cast())
}

/// The same, for tests.
#[cfg(test)]
pub fn error_string() -> String {
    TEXT.with(|text| read(text, str::to_string))
}
