//! What is asked of a broker, and what it answers: lines of text in one message each, beside which files go.
//!
//! A broker hands out descriptors of the files of regions. Who asks believes none of what is said, as none of what lies in the files.

use std::fmt::Write;

/// The first line of each message. Its number goes up when what follows means something else.
const BEGIN: &str = "stillframe broker 1";

/// Most bytes of a question.
pub const QUESTION_BYTES_MAX: usize = 4 << 10;
/// Most bytes of an answer.
pub const ANSWER_BYTES_MAX: usize = 32 << 10;

/// What tells the region or arena from others that have its name later: device and inode of its first file.
pub type Identity = (u64, u64);

/// What somebody who looks asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// The files of a region, or those of the arena in which it lies.
    Open {
        /// Name of the region.
        name: String,
    },
    /// Further files of a region or arena, or, with none, whether it is still the one of its name.
    More {
        /// Name of the region or arena.
        name: String,
        /// Which it is.
        identity: Identity,
        /// Names of the files.
        files: Vec<String>,
    },
    /// Which ranks of a group have a region.
    Ranks {
        /// Name of the group.
        name: String,
        /// Those behind this one, if any is named.
        after: Option<u32>,
    },
    /// Names of regions and arenas, in their order.
    Names {
        /// Those behind this one.
        after: String,
    },
    /// That another enclave is shown that somebody holds a version of it, who has locked its slot.
    Show {
        /// Which enclave.
        identity: u64,
        /// Number of the region in its arena.
        region: u32,
        /// The slot.
        slot: u32,
    },
}

/// What the broker says. Files that it names go with the answer, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The files of a region.
    Region {
        /// Their names, the head's first.
        files: Vec<String>,
    },
    /// The files of the arena in which the region lies.
    Arena {
        /// What of the region's name leads to the arena: it is the arena's name, and empty if that has none.
        leads: String,
        /// Their names, that of the arena's own first.
        files: Vec<String>,
    },
    /// Further files.
    More {
        /// Names of those that are there.
        files: Vec<String>,
    },
    /// Ranks.
    Ranks {
        /// They, as ranges from the first to the last, ascending.
        ranges: Vec<(u32, u32)>,
        /// The rank to ask on from, if there are more.
        next: Option<u32>,
    },
    /// Names.
    Names {
        /// Regions.
        regions: Vec<String>,
        /// Arenas.
        arenas: Vec<String>,
        /// The name to ask on from, if there are more.
        next: Option<String>,
    },
    /// There is nothing of this name, as far as it concerns who asks.
    Missing,
    /// The name is another one's by now, or nobody's.
    Gone,
    /// The other enclave sees that the slot is held.
    Shown,
    /// It does not count what is shown, as long as its agent has not seen this enclave.
    Unseen,
    /// It cannot, or will not.
    Refused {
        /// Why.
        why: String,
    },
}

/// A message that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: expected {expected}")]
pub struct Garbled {
    /// Which line, from 0.
    pub line: usize,
    /// What a message has there.
    pub expected: &'static str,
}

/// The lines of a message.
struct Lines<'a> {
    lines: std::str::Split<'a, char>,
    line: usize,
}

impl<'a> Lines<'a> {
    fn new(bytes: &'a [u8]) -> Result<Lines<'a>, Garbled> {
        let text = std::str::from_utf8(bytes).map_err(|_| Garbled { line: 0, expected: "text" })?;
        let mut lines = Lines { lines: text.split('\n'), line: 0 };
        match lines.next(BEGIN)? {
            BEGIN => Ok(lines),
            _ => Err(Garbled { line: 0, expected: BEGIN }),
        }
    }

    fn next(&mut self, expected: &'static str) -> Result<&'a str, Garbled> {
        let line = self.lines.next().ok_or(Garbled { line: self.line, expected })?;
        self.line += 1;
        Ok(line)
    }

    fn numbers<T: std::str::FromStr>(&mut self, between: char, expected: &'static str) -> Result<(T, T), Garbled> {
        let line = self.line;
        let pair = self.next(expected)?.split_once(between);
        let pair = pair.and_then(|(one, two)| Some((one.parse().ok()?, two.parse().ok()?)));
        pair.ok_or(Garbled { line, expected })
    }

    fn rest(self) -> Vec<String> {
        self.lines.map(String::from).collect()
    }

    fn end(mut self) -> Result<(), Garbled> {
        self.lines.next().map_or(Ok(()), |_| Err(Garbled { line: self.line, expected: "the end" }))
    }
}

fn text<'a>(verb: &str, fields: impl IntoIterator<Item = &'a str>) -> String {
    let mut text = format!("{BEGIN}\n{verb}");
    for field in fields {
        // A line that ended early would be another message.
        let _ = write!(text, "\n{}", field.replace('\n', " "));
    }
    text
}

impl Question {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let text = match self {
            Question::Open { name } => text("open", [&**name]),
            Question::More { name, identity: (device, inode), files } => {
                let identity = format!("{device} {inode}");
                text("more", [&**name, &identity].into_iter().chain(files.iter().map(String::as_str)))
            }
            Question::Ranks { name, after } => {
                let after = after.map(|after| after.to_string());
                text("ranks", [&**name].into_iter().chain(after.as_deref()))
            }
            Question::Names { after } => text("names", [&**after]),
            Question::Show { identity, region, slot } => {
                text("show", [&*identity.to_string(), &format!("{region} {slot}")])
            }
        };
        text.into_bytes()
    }

    /// What a message asks.
    ///
    /// # Errors
    /// [`Garbled`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Question, Garbled> {
        let mut lines = Lines::new(bytes)?;
        let verb = lines.next("what is asked")?;
        let name = lines.next("a name")?.to_string();
        match verb {
            "more" => {
                let identity = lines.numbers(' ', "device and inode")?;
                Ok(Question::More { name, identity, files: lines.rest() })
            }
            "open" => lines.end().map(|()| Question::Open { name }),
            "ranks" => {
                let after = match lines.rest().as_slice() {
                    [] => None,
                    [after] => Some(after.parse().map_err(|_| Garbled { line: 3, expected: "a rank" })?),
                    [_, ..] => return Err(Garbled { line: 4, expected: "the end" }),
                };
                Ok(Question::Ranks { name, after })
            }
            "names" => lines.end().map(|()| Question::Names { after: name }),
            "show" => {
                let identity = name.parse().map_err(|_| Garbled { line: 2, expected: "an identity" })?;
                let (region, slot) = lines.numbers(' ', "region and slot")?;
                lines.end().map(|()| Question::Show { identity, region, slot })
            }
            _ => Err(Garbled { line: 1, expected: "open, more, ranks, names or show" }),
        }
    }
}

impl Answer {
    /// The message.
    pub fn encode(&self) -> Vec<u8> {
        let all = |names: &[String]| names.to_vec();
        let (verb, fields) = match self {
            Answer::Region { files } => ("region", all(files)),
            Answer::Arena { leads, files } => ("arena", [std::slice::from_ref(leads), files].concat()),
            Answer::More { files } => ("more", all(files)),
            Answer::Ranks { ranges, next } => {
                let ranges = ranges.iter().map(|(first, last)| format!("{first}-{last}"));
                ("ranks", ranges.chain(next.map(|next| format!("next {next}"))).collect())
            }
            Answer::Names { regions, arenas, next } => {
                let of = |kind: &str, names: &[String]| {
                    names.iter().map(|name| format!("{kind} {name}")).collect::<Vec<String>>()
                };
                let next: Vec<String> = next.iter().cloned().collect();
                ("names", [of("region", regions), of("arena", arenas), of("next", &next)].concat())
            }
            Answer::Missing => ("missing", Vec::new()),
            Answer::Gone => ("gone", Vec::new()),
            Answer::Shown => ("shown", Vec::new()),
            Answer::Unseen => ("unseen", Vec::new()),
            Answer::Refused { why } => ("refused", vec![why.clone()]),
        };
        text(verb, fields.iter().map(String::as_str)).into_bytes()
    }

    /// What a message says.
    ///
    /// # Errors
    /// [`Garbled`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Answer, Garbled> {
        let mut lines = Lines::new(bytes)?;
        match lines.next("what is answered")? {
            "region" => Ok(Answer::Region { files: lines.rest() }),
            "arena" => {
                let leads = lines.next("the arena's name")?.to_string();
                Ok(Answer::Arena { leads, files: lines.rest() })
            }
            "more" => Ok(Answer::More { files: lines.rest() }),
            "ranks" => {
                let (mut ranges, mut next) = (Vec::new(), None);
                while let Some(line) = lines.lines.clone().next() {
                    if let Some(rank) = line.strip_prefix("next ") {
                        let expected = "a rank";
                        next = Some(rank.parse().map_err(|_| Garbled { line: lines.line, expected })?);
                        lines.next(expected)?;
                        lines.end()?;
                        break;
                    }
                    let (first, last) = lines.numbers('-', "the first and the last rank")?;
                    let is_next = ranges.last().is_none_or(|(_, before)| *before < first) && first <= last;
                    if !is_next {
                        return Err(Garbled { line: lines.line - 1, expected: "ranks that ascend" });
                    }
                    ranges.push((first, last));
                }
                Ok(Answer::Ranks { ranges, next })
            }
            "names" => {
                let (mut regions, mut arenas, mut next) = (Vec::new(), Vec::new(), None);
                for line in lines.lines.by_ref() {
                    match line.split_once(' ') {
                        Some(("region", name)) => regions.push(name.into()),
                        Some(("arena", name)) => arenas.push(name.into()),
                        Some(("next", name)) => next = Some(name.into()),
                        _ => return Err(Garbled { line: lines.line, expected: "region, arena or next" }),
                    }
                    lines.line += 1;
                }
                Ok(Answer::Names { regions, arenas, next })
            }
            "missing" => lines.end().map(|()| Answer::Missing),
            "gone" => lines.end().map(|()| Answer::Gone),
            "shown" => lines.end().map(|()| Answer::Shown),
            "unseen" => lines.end().map(|()| Answer::Unseen),
            "refused" => {
                let why = lines.next("why")?.to_string();
                lines.end().map(|()| Answer::Refused { why })
            }
            _ => Err(Garbled { line: 1, expected: "a kind of answer" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn what_is_said_is_what_is_heard() {
        let questions = [
            Question::Open { name: "run/plate".into() },
            Question::More { name: "plate".into(), identity: (u64::MAX, 7), files: texts(&["plane.3", "schema.9"]) },
            Question::More { name: "plate".into(), identity: (1, 2), files: Vec::new() },
            Question::Ranks { name: "heat".into(), after: None },
            Question::Ranks { name: "heat".into(), after: Some(u32::MAX) },
            Question::Names { after: String::new() },
            Question::Show { identity: u64::MAX, region: 1023, slot: 63 },
        ];
        for question in questions {
            assert_eq!(Question::decode(&question.encode()), Ok(question));
        }
        let answers = [
            Answer::Region { files: texts(&["head", "tables"]) },
            Answer::Arena { leads: String::new(), files: texts(&["arena", "lease"]) },
            Answer::Arena { leads: "pool".into(), files: Vec::new() },
            Answer::More { files: Vec::new() },
            Answer::Ranks { ranges: vec![(0, 9), (11, 11)], next: None },
            Answer::Ranks { ranges: vec![(0, 9), (11, 11)], next: Some(11) },
            Answer::Ranks { ranges: Vec::new(), next: None },
            Answer::Names { regions: texts(&["a", "b/c"]), arenas: texts(&["pool"]), next: Some("b/c".into()) },
            Answer::Names { regions: Vec::new(), arenas: Vec::new(), next: None },
            Answer::Missing,
            Answer::Gone,
            Answer::Shown,
            Answer::Unseen,
            Answer::Refused { why: "no".into() },
        ];
        for answer in answers {
            assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        }
        // What would end a line ends none.
        let name = "a\nnames".to_string();
        assert_eq!(Question::decode(&Question::Open { name }.encode()), Ok(Question::Open { name: "a names".into() }));
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let begin = |rest: &str| format!("{BEGIN}{rest}").into_bytes();
        let garbage: [&[u8]; 5] =
            [b"", b"\xff\xfe", b"GET / HTTP/1.1\r\n", b"stillframe broker 2\nopen\na", BEGIN.as_bytes()];
        let begun = [
            "\nopen",
            "\nopen\na\nb",
            "\nmore\na",
            "\nmore\na\n1",
            "\nmore\na\n1 x",
            "\nmore\na\n-1 2",
            "\nshut\na",
            "\nshow\nx\n1 2",
            "\nranks\na\nx",
            "\nranks\na\n1\n2",
        ];
        for bytes in garbage.map(<[u8]>::to_vec).into_iter().chain(begun.map(begin)) {
            assert!(Question::decode(&bytes).is_err(), "{}", String::from_utf8_lossy(&bytes));
            assert!(Answer::decode(&bytes).is_err() || bytes.starts_with(&begin("\nmore")));
        }
        for bytes in [
            "\nranks\n3-1",
            "\nranks\n1-2\n2-3",
            "\nranks\nx",
            "\nranks\nnext x",
            "\nranks\nnext 1\n2-3",
            "\nnames\nfile a",
            "\nmissing\n",
            "\nrefused",
            "\narena",
        ] {
            assert!(Answer::decode(&begin(bytes)).is_err(), "{bytes}");
        }
    }
}
