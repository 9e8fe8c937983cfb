//! Who writes an object, as its home tells the nodes.

use crate::parts::parts;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stillframe_roster::writer::{Node, Revision, Version, Writer};
use stillframe_wire::data::FragmentText;
use stillframe_wire::roster::{Declared, Roster, RosterChange};
use stillframe_wire::{Message, ObjectId};

/// How much later than the next home a node may hear that nodes were lost, or started again. Who is lost later had left: the home that
/// ended with others had not told so any more.
const HEARD: Duration = Duration::from_secs(60);

/// What is told: a whole roster, or what is new since one.
#[derive(Debug, Clone)]
pub struct News {
    /// The roster that it follows; none before a whole one.
    pub base: Option<u64>,
    /// Which roster it makes of that.
    pub serial: u64,
    /// Fragments that are new, or of which something is; writers ascend.
    pub declared: Arc<Vec<Declared>>,
    /// Writers of which nothing is left, ascending.
    pub gone: Arc<Vec<Writer>>,
    /// Whether this is all of it, or the last part.
    pub is_last: bool,
}

impl News {
    /// The message that tells a node.
    pub fn message(&self, object: ObjectId, revision: Revision) -> Message {
        let (serial, declared, is_last) = (self.serial, self.declared.to_vec(), self.is_last);
        match self.base {
            None => Message::Roster(Roster { object, revision, serial, declared, is_last }),
            Some(base) => {
                let gone = self.gone.to_vec();
                Message::RosterChange(RosterChange { object, revision, base, serial, declared, gone, is_last })
            }
        }
    }
}

/// The roster at the home, and when which part of it changed.
#[derive(Debug, Default)]
pub(crate) struct Told {
    declared: BTreeMap<Writer, Declared>,
    /// With which serial a writer came, changed or went last, and who.
    changed: BTreeMap<Writer, u64>,
    by_serial: BTreeSet<(u64, Writer)>,
    serial: u64,
    /// What was made last, since which serial: most nodes know the same.
    made: Option<(Option<u64>, Vec<News>)>,
}

impl Told {
    pub(crate) fn serial(&self) -> u64 {
        self.serial
    }

    /// What writers of a node declared.
    pub(crate) fn of(&self, node: Node) -> impl Iterator<Item = &Declared> {
        let named = |number| Writer { node, process: number, serial: number };
        self.declared.range(named(0)..=named(u32::MAX)).map(|(_, declared)| declared)
    }

    /// Takes what some writers declared now; nothing of one that is gone. Whether anything is new.
    pub(crate) fn note(&mut self, now: impl IntoIterator<Item = (Writer, Option<Declared>)>) -> bool {
        let differs = |(writer, now): &(Writer, Option<Declared>)| self.declared.get(writer) != now.as_ref();
        let new: Vec<_> = now.into_iter().filter(differs).collect();
        if new.is_empty() {
            return false;
        }
        (self.serial, self.made) = (self.serial + 1, None);
        for (writer, now) in new {
            match now {
                Some(declared) => self.declared.insert(writer, declared),
                None => self.declared.remove(&writer),
            };
            if let Some(before) = self.changed.insert(writer, self.serial) {
                self.by_serial.remove(&(before, writer));
            }
            self.by_serial.insert((self.serial, writer));
        }
        true
    }

    /// What makes the present roster out of an older one, or out of nothing; in several parts where it is long.
    pub(crate) fn news(&mut self, base: Option<u64>) -> Vec<News> {
        if let Some((_, made)) = self.made.as_ref().filter(|(since, _)| *since == base) {
            return made.clone();
        }
        let made = self.make(base);
        self.made = Some((base, made.clone()));
        made
    }

    fn make(&self, base: Option<u64>) -> Vec<News> {
        let Some(since) = base else { return self.parts(None, self.declared.values(), Vec::new()) };
        let changed = self
            .by_serial
            .range((since + 1, Writer { node: Node(0), process: 0, serial: 0 })..)
            .map(|(_, writer)| *writer);
        let changed: BTreeSet<Writer> = changed.collect();
        let gone = changed.iter().copied().filter(|writer| !self.declared.contains_key(writer)).collect();
        self.parts(base, changed.iter().filter_map(|writer| self.declared.get(writer)), gone)
    }

    fn parts<'a>(&self, base: Option<u64>, all: impl Iterator<Item = &'a Declared>, gone: Vec<Writer>) -> Vec<News> {
        let mut parts = parts(all.cloned(), bytes_of);
        if parts.is_empty() {
            parts.push(Vec::new());
        }
        // Those that are gone are told with the first.
        let gone = std::iter::once(gone).chain(std::iter::repeat_with(Vec::new));
        let serial = self.serial;
        let bases = std::iter::once(base).chain(std::iter::repeat(Some(serial)));
        let last = parts.len() - 1;
        let made = |(part, ((declared, gone), base))| News {
            base,
            serial,
            declared: Arc::new(declared),
            gone: Arc::new(gone),
            is_last: part == last,
        };
        parts.into_iter().zip(gone).zip(bases).enumerate().map(made).collect()
    }
}

fn bytes_of(one: &Declared) -> usize {
    bytes_of_layout(&one.layout)
}

/// About how many bytes of a message a writer's layout takes.
pub(crate) fn bytes_of_layout(layout: &FragmentText) -> usize {
    let numbers: usize = layout.bindings.iter().map(|(name, _)| name.len() + 12).sum();
    64 + layout.text.len() + numbers
}

/// The roster at a node.
#[derive(Debug, Default)]
pub struct Heard {
    at: (Revision, u64),
    declared: BTreeMap<Writer, Declared>,
    /// Fragments that a home told of and tells of no more though nobody detached them, and since when: their nodes ended, perhaps together
    /// with it. Whether they were lost or started again, this node has still to hear.
    former: BTreeMap<Writer, (Declared, Instant)>,
    /// Nodes of which it has heard that in this term.
    ended: BTreeSet<Node>,
    /// Whether it has missed something that the home told.
    is_behind: bool,
    /// Whether parts of it are still to come.
    is_partial: bool,
}

/// A change is of a roster that is not here: the home is to tell all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missing;

impl Heard {
    /// Takes a whole roster, or its first part, if it is newer; whether it is.
    pub fn hear(&mut self, revision: Revision, serial: u64, declared: Vec<Declared>, is_last: bool) -> bool {
        // Parts of it may have been lost, or it was asked for.
        let is_newer = (revision, serial) > self.at || self.is_behind() && (revision, serial) == self.at;
        if is_newer {
            let is_of_another_term = revision > self.at.0;
            (self.at, self.is_behind, self.is_partial) = ((revision, serial), false, !is_last);
            let declared = declared.into_iter().map(|one| (one.writer, one)).collect();
            let before = std::mem::replace(&mut self.declared, declared);
            self.note_former(before.into_values());
            if is_of_another_term {
                self.ended.clear();
            }
            self.former.retain(|writer, (_, since)| !self.declared.contains_key(writer) && since.elapsed() < HEARD);
        }
        is_newer
    }

    /// Takes what is new since one; whether anything is.
    ///
    /// # Errors
    /// [`Missing`]: then nothing has changed.
    pub fn change(&mut self, revision: Revision, news: News) -> Result<bool, Missing> {
        let News { base, serial, declared, gone, is_last } = news;
        if revision < self.at.0 || revision == self.at.0 && serial < self.at.1 {
            return Ok(false);
        }
        // On a former connection it, or a part of it, may come after the whole one that makes it old.
        if (revision, serial) == self.at && !self.is_partial {
            return Ok(false);
        }
        // Of one that is here in part the rest has to come first.
        if base.is_none_or(|base| (revision, base) != self.at) || self.is_partial && serial > self.at.1 {
            self.is_behind = true;
            return Err(Missing);
        }
        (self.at, self.is_partial) = ((revision, serial), !is_last);
        let gone: Vec<Declared> = gone.iter().filter_map(|writer| self.declared.remove(writer)).collect();
        self.note_former(gone.into_iter());
        self.former.retain(|_, (_, since)| since.elapsed() < HEARD);
        let declared = Arc::try_unwrap(declared).unwrap_or_else(|shared| shared.to_vec());
        declared.iter().for_each(|one| _ = self.former.remove(&one.writer));
        self.declared.extend(declared.into_iter().map(|one| (one.writer, one)));
        Ok(true)
    }

    /// Whether the home told of changes of a roster that is not here, or of a part of one, and has still to tell the rest.
    pub fn is_behind(&self) -> bool {
        self.is_behind || self.is_partial
    }

    /// The term of the home that told of it, and its serial.
    pub fn at(&self) -> (Revision, u64) {
        self.at
    }

    /// Notes fragments that the home tells of no more, of those that nobody detached, and of whose nodes nothing was heard yet.
    fn note_former(&mut self, all: impl Iterator<Item = Declared>) {
        let now = Instant::now();
        let open = all.filter(|one| one.left.is_none() && !self.ended.contains(&one.writer.node));
        self.former.extend(open.map(|one| (one.writer, (one, now))));
    }

    /// A node was lost or started again: what its writers had declared and had not left, also if the present home never heard of them.
    pub fn end(&mut self, node: Node) -> Vec<Declared> {
        self.ended.insert(node);
        let (of_node, former): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut self.former).into_iter().partition(|(writer, _)| writer.node == node);
        self.former = former;
        let heard = of_node.into_values().filter(|(_, since)| since.elapsed() < HEARD);
        let mut of_it: Vec<Declared> = heard.map(|(one, _)| one).collect();
        of_it.extend(self.declared.values().filter(|one| one.writer.node == node && one.left.is_none()).cloned());
        of_it
    }

    /// Whether a writer has a part in a version, as far as is known.
    pub fn has(&self, writer: Writer, version: Version) -> bool {
        let is_in = |one: &Declared| one.from <= version && one.left.is_none_or(|left| left > version);
        !self.is_behind() && self.declared.get(&writer).is_some_and(is_in)
    }

    /// Whether a writer is known to have no part in a version any more.
    pub fn has_left(&self, writer: Writer, version: Version) -> bool {
        self.declared.get(&writer).and_then(|one| one.left).is_some_and(|left| left <= version)
    }

    /// All fragments, in the order of their writers.
    pub fn declared(&self) -> impl ExactSizeIterator<Item = &Declared> {
        self.declared.values()
    }
}

#[cfg(test)]
mod tests {
    use super::{Heard, Missing, News, Told};
    use crate::parts::PART_BYTES;
    use stillframe_roster::writer::{Node, Writer};
    use stillframe_wire::data::FragmentText;
    use stillframe_wire::roster::Declared;

    fn writer(process: u32) -> Writer {
        Writer { node: Node(0), process, serial: 0 }
    }

    fn declared(process: u32, from: u64, text: &str) -> Declared {
        let layout = FragmentText { text: text.into(), ..FragmentText::default() };
        Declared { writer: writer(process), rank: None, layout, from, left: None, died: false, expected: None }
    }

    fn hear(heard: &mut Heard, news: News) -> Result<bool, Missing> {
        match news.base {
            None => Ok(heard.hear(1, news.serial, news.declared.to_vec(), news.is_last)),
            Some(_) => heard.change(1, news),
        }
    }

    fn is_same(told: &Told, heard: &Heard) -> bool {
        told.declared.values().eq(heard.declared())
    }

    #[test]
    fn changes_make_the_same_roster_whenever_a_node_hears_of_them() {
        let (mut told, mut often, mut seldom) = (Told::default(), Heard::default(), Heard::default());
        for step in 0..40_u32 {
            // Writers come, change and go.
            let (process, from) = (step * 7 % 11, u64::from(step));
            let now = (!step.is_multiple_of(3)).then(|| declared(process, from, "u"));
            let is_new = told.note([(writer(process), now)]);
            assert_eq!(is_new, !is_same(&told, &often));
            for (heard, is_due) in [(&mut often, true), (&mut seldom, step % 5 == 4)] {
                let base = (heard.at != (0, 0)).then_some(heard.at.1);
                if is_due && base != Some(told.serial()) {
                    told.news(base).into_iter().for_each(|news| _ = hear(heard, news).unwrap());
                    assert!(is_same(&told, heard), "step {step}");
                }
            }
        }
    }

    #[test]
    fn a_long_roster_comes_in_parts_none_of_which_is_too_long() {
        let mut told = Told::default();
        let text = "u".repeat(PART_BYTES / 3);
        told.note((0..10).map(|process| (writer(process), Some(declared(process, 1, &text)))));
        let parts = told.news(None);
        assert_eq!(parts.iter().map(|part| part.declared.len()).collect::<Vec<_>>(), [2, 2, 2, 2, 2]);
        let mut heard = Heard::default();
        for part in parts.clone() {
            let is_last = part.is_last;
            assert_eq!(hear(&mut heard, part), Ok(true));
            assert_eq!(heard.is_behind(), !is_last, "until all of it is there");
        }
        assert!(is_same(&told, &heard));
        // The rest of one is lost, and all of it comes again.
        let mut heard = Heard::default();
        assert_eq!(hear(&mut heard, parts[0].clone()), Ok(true));
        // A change of what is here in part only is none of what the home means.
        told.note([(writer(0), None)]);
        let changes = told.news(Some(parts[0].serial));
        assert_eq!(hear(&mut heard, changes[0].clone()), Err(Missing));
        parts.into_iter().chain(changes).for_each(|part| assert_eq!(hear(&mut heard, part), Ok(true)));
        assert!(is_same(&told, &heard) && !heard.is_behind());
    }

    #[test]
    fn a_part_that_comes_after_the_whole_says_nothing_new() {
        let mut told = Told::default();
        let text = "u".repeat(PART_BYTES / 3);
        told.note((0..10).map(|process| (writer(process), Some(declared(process, 1, &text)))));
        let (parts, mut heard) = (told.news(None), Heard::default());
        parts.iter().for_each(|part| assert_eq!(hear(&mut heard, part.clone()), Ok(true)));
        // Of a former connection.
        assert_eq!(hear(&mut heard, parts[1].clone()), Ok(false));
        assert!(is_same(&told, &heard) && !heard.is_behind());
    }

    #[test]
    fn a_change_of_a_roster_that_is_not_there_is_told_and_an_older_one_left() {
        let (mut told, mut heard) = (Told::default(), Heard::default());
        told.note([(writer(0), Some(declared(0, 1, "u")))]);
        let first = told.news(None);
        told.note([(writer(1), Some(declared(1, 1, "u")))]);
        let second = told.news(Some(1));
        told.note([(writer(0), None)]);
        let third = told.news(Some(2));
        assert_eq!(hear(&mut heard, second[0].clone()), Err(Missing));
        first.iter().chain(&second).for_each(|news| assert_eq!(hear(&mut heard, news.clone()), Ok(true)));
        assert_eq!(heard.change(2, third[0].clone()), Err(Missing), "another term's");
        assert_eq!(hear(&mut heard, third[0].clone()), Ok(true));
        assert_eq!(hear(&mut heard, second[0].clone()), Ok(false));
        assert!(is_same(&told, &heard));
        // One of a former connection, after all of it has come on a new one.
        let (mut heard, late) = (Heard::default(), told.news(Some(2)));
        told.news(None).into_iter().for_each(|news| assert_eq!(hear(&mut heard, news), Ok(true)));
        assert_eq!(hear(&mut heard, late[0].clone()), Ok(false));
        assert!(is_same(&told, &heard) && !heard.is_behind());
        // What it has missed it asks for, and may be told by the number that it has.
        told.note([(writer(2), Some(declared(2, 1, "u")))]);
        told.note([(writer(3), Some(declared(3, 1, "u")))]);
        assert_eq!(hear(&mut heard, told.news(Some(4))[0].clone()), Err(Missing));
        assert!(heard.is_behind() && heard.hear(1, 3, Vec::new(), true) && !heard.is_behind());
    }
}
