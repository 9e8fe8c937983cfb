//! Many nodes with many writers, in short: versions are complete in order, and all nodes hear of them.

use std::thread;
use std::time::Duration;

use roster_bench::grid::Grid;
use roster_bench::world::World;
use stillframe_roster::writer::Version;

/// Ends the test if something hangs.
fn watchdog() {
    thread::spawn(|| {
        thread::sleep(Duration::from_secs(300));
        eprintln!("the simulation hangs");
        std::process::abort();
    });
}

fn publish(world: &mut World, versions: std::ops::RangeInclusive<Version>) {
    for version in versions {
        world.publish(version).unwrap();
        world.settle();
    }
}

fn fragments_known(world: &World, node: usize) -> usize {
    let roster = world.nodes[node].roster.as_ref().expect("each keeps it here");
    roster.declared().filter(|one| one.left.is_none()).count()
}

#[test]
fn all_nodes_hear_of_all_versions_in_order_and_of_all_writers() {
    watchdog();
    let (nodes, fragments) = (64, 2000);
    let grid = Grid::new(nodes, fragments);
    let mut world = World::new(grid);
    world.attach_all(1).unwrap();
    world.settle();
    publish(&mut world, 1..=3);
    for node in 0..nodes as usize {
        assert_eq!(world.nodes[node].complete, [1, 2, 3], "node {node}");
        assert_eq!(world.nodes[node].refused, [], "node {node}");
        assert_eq!(fragments_known(&world, node), fragments as usize, "node {node}");
    }

    // A reader on each node is told when it can have elements of another node.
    world.want(4);
    world.settle();
    assert!(world.nodes.iter().all(|node| node.ready.is_empty()));
    publish(&mut world, 4..=4);
    assert!(world.nodes.iter().all(|node| node.ready == [4]));

    // A writer leaves, and until another takes its elements nothing is complete.
    world.leave(fragments - 1, 5).unwrap();
    world.settle();
    publish(&mut world, 5..=5);
    assert_eq!(world.home().protocol().announced().version, 4);
    world.attach(fragments - 1, 0, 6).unwrap();
    world.settle();
    publish(&mut world, 6..=6);
    world.join();
    world.settle();
    for node in 0..nodes as usize {
        assert_eq!(world.nodes[node].complete, [1, 2, 3, 4, 6], "node {node}");
    }
    let late = nodes as usize;
    assert_eq!(world.nodes[late].complete, [6], "the one that came late");
    assert_eq!(fragments_known(&world, late), fragments as usize);

    // A new home knows what the former one announced, and goes on.
    world.change_home();
    world.settle();
    assert_eq!(world.home().protocol().announced().version, 6);
    publish(&mut world, 7..=7);
    for node in 0..=late {
        assert_eq!(world.nodes[node].complete.last(), Some(&7), "node {node}");
        assert_eq!(fragments_known(&world, node), fragments as usize, "node {node}");
    }
    assert_eq!(world.cost().long_messages, 0);
}

#[test]
fn a_fragment_that_overlaps_one_of_another_node_is_refused_among_many() {
    watchdog();
    let grid = Grid::new(16, 800);
    let mut world = World::new(grid);
    world.attach_all(1).unwrap();
    world.settle();
    world.attach(700, 3, 1).unwrap();
    world.settle();
    let [(writer, refusal)] = &world.nodes[3].refused[..] else { panic!("{:?}", world.nodes[3].refused) };
    assert_eq!(writer.process, 1500);
    assert!(refusal.to_string().contains("both write"), "{refusal}");
    publish(&mut world, 1..=1);
    assert!(world.nodes.iter().all(|node| node.complete == [1]));
}
