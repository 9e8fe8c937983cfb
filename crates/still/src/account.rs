//! Users and groups by their names or numbers.

use std::process::{Command, Stdio};

/// The number of a user.
pub fn parse_user(text: &str) -> Result<u32, String> {
    parse(text, "passwd", "user")
}

/// The number of a group.
pub fn parse_group(text: &str) -> Result<u32, String> {
    parse(text, "group", "group")
}

/// Names may come from a directory service, which getent(1) asks as the C library is set up to.
fn parse(text: &str, database: &str, what: &str) -> Result<u32, String> {
    let digits = text.trim().trim_start_matches(['+', '-']);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        // getent(1) would take of a larger number what is left in 32 bits, and 2^32 for root. Calls that change owners take the last
        // one for nobody, and leave them as they are.
        let number = text.parse().ok().filter(|number| *number != u32::MAX);
        return number.ok_or_else(|| format!("{text} is no number of a {what}"));
    }
    let asked = Command::new("getent").args([database, "--", text]).stdin(Stdio::null()).stderr(Stdio::null()).output();
    let told = asked.map_err(|error| format!("getent: {error}: give the number"))?;
    let line = String::from_utf8_lossy(&told.stdout);
    let number = line.lines().next().and_then(|line| line.split(':').nth(2)).and_then(|number| number.parse().ok());
    number.filter(|_| told.status.success()).ok_or_else(|| format!("there is no {what} '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_known() {
        assert_eq!((parse_user("root"), parse_user("4711")), (Ok(0), Ok(4711)));
        assert_eq!(parse_group("root"), Ok(0));
        for wrong in ["no-such-user", "", "-1", "--help", "4294967295", "4294967296"] {
            assert!(parse_user(wrong).is_err() && parse_group(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_user("4294967294"), Ok(u32::MAX - 1));
    }
}
