//! The calls by which programs and their libraries change memory, and who else allocates.

use super::*;

/// The scenes of calls.
pub fn calls() -> &'static Path {
    static CALLS: OnceLock<PathBuf> = OnceLock::new();
    CALLS.get_or_init(|| program("calls", &C, "calls.c"))
}

fn play_call(scene: &str, mib: u64) {
    let Some(pool) = Made::new(scene, mib) else { return };
    succeed(pool.run(calls(), &[scene]));
    pool.is_free(mib);
}

#[test]
fn advice_that_changes_nothing_leaves_an_array_in_large_pages_that_lies_there_in_part() {
    play_call("advised_in_part", 128);
}

#[test]
fn who_has_memory_registered_with_a_device_hears_of_what_the_heap_gives_up() {
    let Some(pool) = Made::new("cached", 32) else { return };
    let cache = program("libcache.so", &["cc", "-O1", "-Wall", "-shared", "-fPIC"], "cache.c");
    let mut command = pool.run(calls(), &["cached"]);
    command.env("LD_PRELOAD", &cache);
    let (_, complained) = succeed(command);
    assert!(complained.contains("pages are gone"), "{complained}");
}

#[test]
fn what_is_populated_when_it_is_mapped_takes_its_memory_once() {
    play_call("populated", 32);
}

#[test]
fn memory_that_a_monitor_of_registrations_watches_stays_what_a_device_has() {
    play_call("registered", 64);
}

#[test]
fn a_program_may_bound_its_addresses_itself() {
    play_call("bounded", 96);
}

#[test]
fn a_fork_that_finds_no_memory_for_the_copy_is_an_error_and_kills_nobody() {
    let Some(group) = Group::of_memory("fork", 256) else { return };
    let Some(pool) = Made::new("fork-memory", 224) else { return };
    succeed(group.within(&pool.run(calls(), &["forks_without_memory"])));
    assert_eq!(group.kills(), 0);
}

#[test]
fn libraries_that_are_bound_to_themselves_first_free_what_the_c_library_gave_them() {
    let Some(pool) = Made::new("deep", 32) else { return };
    let library = program("libdeep.so", &["cc", "-O1", "-Wall", "-shared", "-fPIC", "-DLIBRARY"], "deep.c");
    let opener = program("deep", &C, "deep.c");
    succeed(pool.run(opener, &[library.to_str().unwrap()]));
}

#[test]
fn programs_with_a_part_of_an_allocator_of_their_own_keep_it() {
    let Some(pool) = Made::new("partly", 32) else { return };
    let all = [("partly-forwards", &["-DFORWARDS"][..]), ("partly-counts", &["-DCOUNTS"]), ("partly-own", &[])];
    for (name, options) in all {
        let command = [&["cc", "-O1", "-Wall", "-fno-builtin"][..], options].concat();
        succeed(pool.run(program(name, &command, "partly.c"), &[]));
    }
}

#[test]
fn a_program_at_fixed_addresses_that_points_to_functions_of_the_family_is_served() {
    let Some(pool) = Made::new("pointed", 32) else { return };
    let program = program("calls-fixed", &[&C[..], &["-fno-pie", "-no-pie"]].concat(), "calls.c");
    succeed(pool.run(program, &["pointed"]));
}

#[test]
fn what_a_program_places_where_it_unmapped_something_is_its_own() {
    let Some(pool) = Made::new("placed", 320) else { return };
    succeed(pool.run_with(&["--mappings=2M"], calls(), &["placed"]));
}

#[test]
fn threads_that_stand_on_blocks_go_on_beside_cuts_though_the_kernel_writes_to_their_data() {
    play_call("preempted", 96);
}
