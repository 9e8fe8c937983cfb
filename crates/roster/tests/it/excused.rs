//! A home that goes on without a silent node, and is then lost with all writers that it heard of: whatever the nodes that are left have
//! heard, no number is given twice, as long as one of them was never excused.

use drepl::{IndexBox, IndexSet, Progression};
use stillframe_roster::{
    home::Home,
    refusal::Refusal,
    runtime::{Event, Runtime},
    writer::{Node, Stage, Version, Who, Writer},
};

const SILENT: Node = Node(1);

fn who(node: u32, process: u32) -> Who {
    Who { writer: Writer { node: Node(node), process, serial: 0 }, rank: None }
}

fn range(start: u64, end: u64) -> IndexSet {
    IndexBox::new([Progression::range(start, end).unwrap()]).unwrap().into()
}

fn home(revision: u64, nodes: impl IntoIterator<Item = u32>) -> Home {
    let mut home = Home::new(revision, range(0, 8), 0, nodes.into_iter().map(Node));
    home.set_margin(4);
    home
}

/// Has a node hear the newest decision; what is refused with it.
fn hear(home: &Home, node: &mut Runtime) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for event in home.decision(node.node()).cloned().map_or_else(Vec::new, |decision| node.hear(decision)) {
        match event {
            Event::Pin { version, .. } => _ = node.hold(version),
            Event::Refused { refusal, .. } => refused.push(refusal),
            _ => {}
        }
    }
    refused
}

fn exchange(home: &mut Home, nodes: &mut [&mut Runtime]) -> Vec<Refusal> {
    let mut refused = Vec::new();
    for _ in 0..8 {
        nodes.iter().for_each(|node| _ = home.receive(node.report()));
        nodes.iter_mut().for_each(|node| refused.extend(hear(home, node)));
    }
    refused
}

/// Two nodes with a half each, the second of which is silent now and then, and a third one without.
struct World {
    home: Home,
    nodes: [Runtime; 3],
    /// Who writes the lower half, and how far that is.
    lower: Who,
    newest: Version,
    /// How far the upper half is.
    ahead: Version,
    next: u32,
}

impl World {
    fn new() -> World {
        let nodes = [0, 1, 2].map(|number| {
            let mut node = Runtime::new(Node(number), 0);
            node.follow(1);
            node
        });
        let mut world = World { home: home(1, 0..3), nodes, lower: who(1, 1), newest: 0, ahead: 0, next: 2 };
        world.nodes[0].declare(who(0, 1), Stage::member(1, range(4, 8))).unwrap();
        world.nodes[1].declare(world.lower, Stage::member(1, range(0, 4))).unwrap();
        world.publish();
        let [home_node, silent, third] = &mut world.nodes;
        exchange(&mut world.home, &mut [home_node, silent, third]);
        assert_eq!(world.home.announced().version, 1);
        world
    }

    /// Both halves come to the next version; of the lower one the home may not hear.
    fn publish(&mut self) {
        self.newest += 1;
        self.nodes[self.lower.writer.node.0 as usize].publish(self.lower.writer, self.newest).unwrap();
        self.ahead += 1;
        self.nodes[0].publish(who(0, 1).writer, self.ahead).unwrap();
    }

    /// The lower half goes to the other node, if anything was published of it where it is.
    fn hand_over(&mut self) {
        let (from, of) = (self.newest + 1, self.lower.writer.node.0 as usize);
        if self.nodes[of].record(self.lower.writer).is_none_or(|record| record.published.newest.is_none()) {
            return;
        }
        self.nodes[of].declare(self.lower, Stage::left(from)).unwrap();
        self.home.receive(self.nodes[of].report());
        self.lower = who(1 - of as u32, self.next);
        self.next += 1;
        self.nodes[1 - of].declare(self.lower, Stage::member(from, range(0, 4))).unwrap();
    }

    fn step(&mut self, choice: u64) {
        match choice % 16 {
            0..=4 => self.publish(),
            5 => self.hand_over(),
            6 | 7 => _ = self.home.receive(self.nodes[1].report()),
            8 => _ = hear(&self.home, &mut self.nodes[1]),
            9..=11 => _ = self.home.receive(self.nodes[2].report()),
            12 | 13 => _ = hear(&self.home, &mut self.nodes[2]),
            _ if *self.home.unacknowledged() == [SILENT].into() => _ = self.home.excuse(&[SILENT].into()),
            _ => {}
        }
        exchange(&mut self.home, &mut [&mut self.nodes[0]]);
    }
}

#[test]
fn a_home_that_was_lost_with_its_writers_gave_no_number_that_the_next_one_gives() {
    let mut beyond = 0;
    for seed in 0..2000_u64 {
        let (mut world, mut random) = (World::new(), seed);
        for _ in 0..60 {
            random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            world.step(random >> 33);
        }
        let complete = world.home.announced().version;
        let [_, silent, third] = &mut world.nodes;
        beyond += u64::from(complete > silent.report().ceiling.version);
        let mut next = home(2, 1..3);
        [&mut *silent, &mut *third].into_iter().for_each(|node| node.follow(2));
        exchange(&mut next, &mut [&mut *silent, &mut *third]);
        // The upper half's writer is lost, and somebody wants its place.
        third.declare(who(2, 0), Stage::member(complete, range(4, 8))).unwrap();
        let refused = exchange(&mut next, &mut [silent, third]);
        let is_late = |refusal: &Refusal| matches!(refusal, Refusal::Late { settled, .. } if *settled >= complete);
        assert!(refused.iter().any(is_late), "{:?} and {refused:?} after {complete}, seed {seed}", next.announced());
    }
    assert!(beyond > 20, "{beyond} homes went on without the silent node");
}
