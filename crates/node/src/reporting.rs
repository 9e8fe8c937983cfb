//! What a node tells the home of an object.

use crate::parts::parts;
use crate::roster::bytes_of_layout;
use stillframe_roster::message::Report;
use stillframe_roster::runtime::Runtime;
use stillframe_roster::writer::{Node, Revision, Writer};
use stillframe_wire::ObjectId;
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::{Layouts, ObjectChange};

/// What the home was told last.
#[derive(Debug, Default)]
pub struct Reporting {
    sent: Option<(Node, Revision, u64)>,
    /// The report that the home of another node has now.
    report: Option<Report>,
}

/// What is to be sent.
#[derive(Debug)]
pub enum News {
    /// All that the node knows.
    Whole(Report),
    /// What is new since then.
    Change(ObjectChange),
}

impl Reporting {
    /// What an object's home does not know yet, which is to be sent to it now: the whole first, and then what changes.
    pub fn news(&mut self, runtime: &Runtime, object: ObjectId, home: Node) -> Option<News> {
        let now = (home, runtime.revision(), runtime.due());
        if self.sent == Some(now) {
            return None;
        }
        let is_same_home = self.sent.replace(now).is_some_and(|(node, revision, _)| (node, revision) == (now.0, now.1));
        let report = runtime.report();
        if home == runtime.node() {
            self.report = None;
            return Some(News::Whole(report));
        }
        let before = self.report.replace(report.clone()).filter(|_| is_same_home);
        Some(match before {
            Some(before) => News::Change(ObjectChange::between(object, &before, &report)),
            None => News::Whole(report),
        })
    }

    /// The home may know nothing any more.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// How fragments of an object lie, in several messages where that is long: a new home is told of all at once.
pub(crate) fn layouts(object: ObjectId, name: &str, layouts: Vec<(Writer, FragmentText)>) -> Vec<Layouts> {
    let parts = parts(layouts, |(_, layout)| bytes_of_layout(layout));
    parts.into_iter().map(|layouts| Layouts { object, name: name.into(), layouts }).collect()
}

#[cfg(test)]
mod tests {
    use super::{News, Reporting, layouts};
    use drepl::{IndexBox, IndexSet};
    use std::num::NonZeroU64;
    use stillframe_roster::runtime::Runtime;
    use stillframe_roster::writer::{Node, Stage, Who, Writer};
    use stillframe_wire::bounds::{BODY_BYTES_MAX, TEXT_BYTES_MAX};
    use stillframe_wire::data::FragmentText;
    use stillframe_wire::{Message, ObjectId};

    const OBJECT: ObjectId = ObjectId(NonZeroU64::MIN);

    fn writer(process: u32) -> Writer {
        Writer { node: Node(1), process, serial: 0 }
    }

    /// A node with so many writers, which obeys a home.
    fn node(writers: u32) -> Runtime {
        let mut runtime = Runtime::new(Node(1), 0);
        runtime.follow(1);
        for process in 0..writers {
            let elements = IndexSet::from(IndexBox::all(&[1]).unwrap());
            runtime.declare(Who { writer: writer(process), rank: None }, Stage::member(1, elements)).unwrap();
        }
        runtime
    }

    #[test]
    fn changes_follow_a_whole_report_and_make_the_same_of_it() {
        let (mut runtime, mut reporting) = (node(3), Reporting::default());
        let Some(News::Whole(mut known)) = reporting.news(&runtime, OBJECT, Node(0)) else { panic!("it is the first") };
        assert!(reporting.news(&runtime, OBJECT, Node(0)).is_none(), "nothing is new");
        for version in 1..4 {
            runtime.publish(writer(1), version).unwrap();
            let Some(News::Change(change)) = reporting.news(&runtime, OBJECT, Node(0)) else {
                panic!("the home knows it")
            };
            assert_eq!(change.writers.len(), 1, "the others did nothing");
            change.apply(&mut known).unwrap();
            assert_eq!(known, runtime.report());
        }
    }

    #[test]
    fn another_home_and_one_that_may_know_nothing_are_told_all() {
        let (mut runtime, mut reporting) = (node(2), Reporting::default());
        let is_whole = |news| matches!(news, Some(News::Whole(_)));
        assert!(is_whole(reporting.news(&runtime, OBJECT, Node(0))));
        runtime.follow(2);
        assert!(is_whole(reporting.news(&runtime, OBJECT, Node(0))), "another term");
        assert!(is_whole(reporting.news(&runtime, OBJECT, Node(2))), "another node");
        reporting.forget();
        assert!(is_whole(reporting.news(&runtime, OBJECT, Node(2))), "another connection");
        assert!(is_whole(reporting.news(&runtime, OBJECT, Node(1))), "the node itself");
        runtime.publish(writer(0), 1).unwrap();
        assert!(is_whole(reporting.news(&runtime, OBJECT, Node(1))), "nothing is encoded there");
    }

    #[test]
    fn texts_that_are_longer_together_than_a_message_may_be_are_told_in_several() {
        for (count, text_bytes) in [(17, TEXT_BYTES_MAX), (300, 60_000), (1, TEXT_BYTES_MAX), (3, 1), (0, 0)] {
            let layout = FragmentText { text: "u".repeat(text_bytes), ..FragmentText::default() };
            let all: Vec<_> = (0..count).map(|process| (writer(process), layout.clone())).collect();
            let told = layouts(OBJECT, "heat", all.clone());
            for one in &told {
                let mut body = Vec::new();
                Message::Layouts(one.clone()).encode(&mut body);
                assert!(body.len() <= BODY_BYTES_MAX, "{} of {count}", one.layouts.len());
            }
            assert!(told.len() <= 1 + count as usize * text_bytes / (2 << 20), "{} messages", told.len());
            assert!(told.into_iter().flat_map(|one| one.layouts).eq(all));
        }
    }
}
