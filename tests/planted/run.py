#!/usr/bin/env python3
"""Plants known bugs into copies of the engine and of the store of checkpoints, and shows that their simulators catch each of them.

usage: run.py [NAME...]

A simulator that finds nothing proves nothing unless it would have found something. Each bug below is one that they had, or
could have by one line less. For each, a copy of the sources is changed and built in target/planted, and the
simulator plays seeds until one fails. The table at the end says which bugs were caught, and after how many runs. The
status is 1 if one was not.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANTED = ROOT / "target" / "planted"
STORE = "crates/stillframe/src/store/"
PRODUCER = "crates/stillframe/src/producer/"
WORKING = "crates/stillframe/src/working/"
CHECKPOINT = "crates/checkpoint/src/"
OTHERS = "crates/stillframe/src/place/arena/others.rs"
AGENT = "crates/enclave/src/agent/"
# The simulator of the store has shorter runs, and that of two machines longer ones.
RUNS = {"stillframe": "20000", "stillframe-checkpoint": "100000", "stillframe-enclave": "5000"}

# Name, file, what stands there, and what takes its place.
BUGS = [
    ("held_versions_are_retired", "crates/protocol/src/lib.rs",
     "    if leases.is_held(version.slot)? {\n        return Ok(false);\n    }\n",
     "    let _ = leases;\n"),
    ("leases_of_other_machines_are_not_asked_for", OTHERS,
     "        self.any(region, |shown| is_held_elsewhere(shown, slot))\n",
     "        let _ = |shown: &OfRegion<'_>| is_held_elsewhere(shown, slot);\n        self.any(region, |_| false)\n"),
    ("leases_of_machines_that_count_are_not_believed", OTHERS,
     "self.others.admitted(self.place) == self.peer.identity && said == self.peer.identity",
     "self.others.admitted(self.place) == self.peer.identity && said != self.peer.identity"),
    ("agents_hide_what_is_held", AGENT + "peer.rs",
     "Some(file) => lock::is_held(file, Kind::Write, arena::slot_at(self.region, slot), 1),",
     "Some(file) => lock::is_held(file, Kind::Write, arena::slot_at(self.region, slot), 1).map(|_| false),"),
    ("agents_forget_what_they_showed", AGENT + "peer.rs",
     "        if subject.load(Relaxed) != said.arena {\n", "        if subject.load(Relaxed) != 0 {\n"),
    ("commit_before_description", STORE + "draft.rs",
     "        store.head.set_descriptor(slot, &descriptor);\n        points::hit(points[0]);\n",
     "        protocol::commit(&store.head, slot, sequence);\n        points::hit(points[0]);\n"
     "        store.head.set_descriptor(slot, &descriptor);\n"),
    ("recovery_keeps_what_was_not_committed", "crates/protocol/src/lib.rs",
     "if stamp.sequence() <= newest && stamp.sequence() > 0 => {", "if stamp.sequence() > 0 => {"),
    ("frames_of_neighbours_are_freed", STORE + "retirement.rs",
     "{ 0..self.versions.len() } else { index.saturating_sub(1)..index + 1 };", "{ 0..0 } else { index..index };"),
    ("frames_of_versions_before_a_rollback_are_freed", STORE + "retirement.rs",
     "let is_rolled_back = !self.versions.windows(2).all(follows);",
     "let (is_rolled_back, _) = (false, follows);"),
    ("a_table_is_given_back_twice", STORE + "retirement.rs",
     "        self.tables.release(version.manifest.0, version.manifest.1);\n",
     "        self.tables.release(version.manifest.0, version.manifest.1);\n" * 2),
    ("shared_sub_tables_are_counted_once", STORE + "entries.rs",
     "                retain(known.new, tables);\n                return Ok(known.new);\n",
     "                return Ok(known.new);\n"),
    ("entries_are_known_whatever_pages_went", STORE + "entries.rs",
     "(known.old, known.plane) == (old, part.plane) && known.pages == part.pages;",
     "(known.old, known.plane) == (old, part.plane);"),
    ("recovery_forgets_blocks_of_tables", STORE + "recovery.rs",
     "        self.tables.retain(descriptor.table_block, entries.len() * 4);\n", ""),
    ("recovery_forgets_frames", STORE + "recovery.rs",
     "                mark_used(&mut self.planes, &self.tables, window, *word);\n",
     "                let _ = (window, word, mark_used);\n"),
    ("dropped_drafts_keep_their_frames", STORE + "draft.rs",
     "        if !self.keeps_frames {\n            store.free_frames_of(frames);\n        }\n", ""),
    ("dropped_drafts_keep_their_blocks", STORE + "draft.rs",
     "        for (block, bytes) in blocks.drain(..) {\n            store.tables.release(block, bytes);\n        }\n",
     "        blocks.clear();\n"),
    ("refused_publishes_forget_dirty_pages", PRODUCER + "publish.rs",
     "            room => {\n                self.workspace.remember(&jobs);\n", "            room => {\n"),
    ("failed_searches_forget_dirty_pages", PRODUCER + "publish.rs",
     "            self.workspace.remember(&jobs);\n            return Err(error);\n", "            return Err(error);\n"),
    ("resize_leaves_what_was_behind_the_end", WORKING + "managed.rs",
     "            memory.memory.write(end, &[0; PAGE_BYTES][tail..]);\n", ""),
    ("resize_leaves_pages_behind_the_end", WORKING + "managed.rs",
     "                false => cut = memory.cut(pages)?,\n", "                false => {}\n"),
    ("resize_that_fails_has_changed_content", WORKING + "managed.rs",
     "        let has_tail = tail > 0",
     "        if tail > 0 && bytes < old_bytes {\n            memory.memory.write(end, &[0; PAGE_BYTES][tail..]);\n        }\n"
     "        let has_tail = tail > 0"),
    ("dirty_pages_show_planes_still", WORKING + "pages.rs",
     "            memory.touch(window * WINDOW_BYTES + start * PAGE_BYTES, bytes).map_err(|failure| {",
     "            memory.touch(0, 0).map_err(|failure| {"),
    ("ended_loans_free_what_is_shown", PRODUCER + "publish.rs",
     "ended.extend((Some(*index) != *shown).then_some(loan));", "let _ = shown;\n                ended.push(loan);"),
    ("variables_get_old_numbers", STORE + "recovery.rs",
     "        self.next_id = told_ids;\n        if told_schemas == 0 {", "        self.next_id = 0;\n        self.schemas = 0;\n        if false {"),
    ("memory_taken_by_a_failed_scan_is_counted_twice", STORE + "planes.rs",
     "self.present_pages = self.present_pages + plane.present_pages() - before;",
     "self.present_pages += plane.present_pages();\n            let _ = before;"),
    ("chunks_given_back_are_found_again", STORE + "recovery.rs",
     "                    Some(_) => index.set_chunk(plane, window, None)?,\n", "                    Some(_) => {}\n"),
    ("checkpoints_are_safe_before_their_names", CHECKPOINT + "save.rs",
     "        self.store.folder().sync().map_err(|source| {\n", "        Ok::<(), std::io::Error>(()).map_err(|source| {\n"),
    ("checkpoints_get_their_names_before_their_files", CHECKPOINT + "save.rs", "        partial.sync()?;\n", ""),
    ("directories_of_checkpoints_are_not_synced", CHECKPOINT + "tree.rs",
     """            folder.sync().map_err(|error| fail("fsync", &path, error))?;\n""", ""),
    ("a_failed_syncfs_is_tried_again", CHECKPOINT + "partial.rs",
     "disk::sync_file_system(dir).map_err(", "disk::sync_file_system(dir).or_else(|_| disk::sync_file_system(dir)).map_err("),
    ("checkpoints_are_deleted_before_the_new_one_is_safe", CHECKPOINT + "save.rs",
     """            points::hit("save.announced");\n""",
     """            let mut versions = Store::open(self.dir())?.versions()?;
            versions.push(version);
            for removable in self.options.keep.removable(&versions, version, |_| true) {
                directory::remove(&self.store, removable)?;
            }
"""),
    ("deleted_checkpoints_keep_their_names", CHECKPOINT + "directory.rs",
     """    store.sync()?;
    points::hit("remove.synced");""", """    points::hit("remove.synced");"""),
    ("left_overs_keep_their_names", CHECKPOINT + "left_over.rs", "store.discard(&name)?;", "store.remove_all(&name)?;"),
    ("undone_checkpoints_keep_their_names", CHECKPOINT + "save.rs",
     "let _ = self.store.discard(&aside);", "let _ = self.store.remove_all(&aside);"),
    ("commits_that_fail_are_not_undone", CHECKPOINT + "save.rs",
     "                    drop(self.rename(&layout::checkpoint_dir(version), partial.name()));\n", ""),
    ("what_is_safe_may_have_no_name", CHECKPOINT + "safe.rs",
     "Folder::open(dir, true).and_then(|folder| folder.sync())", "Folder::open(dir, true).map(drop)"),
    ("earlier_runs_go_before_the_new_one_is_safe", CHECKPOINT + "save.rs",
     "            earlier.as_ref().map_or(Ok(()), Earlier::announce)?;\n",
     "            Earlier::find(&self.store, version, source.published_ns())?.map(Earlier::set_aside);\n"),
    ("nobody_is_told_that_earlier_runs_go", CHECKPOINT + "save.rs",
     "            earlier.as_ref().map_or(Ok(()), Earlier::announce)?;\n", ""),
    ("the_highest_goes_before_the_others_are_gone", CHECKPOINT + "earlier.rs",
     "if index > 0 && index + 1 == self.versions.len() {", "if false && index > 0 {"),
    ("what_is_between_two_names_is_not_looked_for", CHECKPOINT + "store.rs",
     "        places.extend(interrupted.filter(", "        drop(interrupted.filter("),
]


def copy_source():
    """Makes a copy of the project as it is."""
    copy = PLANTED / "source"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True).stdout
    files = [Path(os.fsdecode(file)) for file in listed.split(b"\0")[:-1]]
    for gone in {file.relative_to(copy) for file in copy.rglob("*.rs")} - set(files):
        (copy / gone).unlink()
    for file in files:
        source, target = ROOT / file, copy / file
        if source.is_file() and not (target.is_file() and target.read_bytes() == source.read_bytes()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)
    return copy


def plant(name, path, old, new):
    """Changes one file in a copy of the project."""
    copy = copy_source()
    text = (copy / path).read_text()
    if text.count(old) != 1:
        sys.exit(f"{name}: {path} has {text.count(old)} places where the bug could be planted, not one")
    (copy / path).write_text(text.replace(old, new))
    return copy


def package_of(path):
    """The package whose simulator plays what is in a file."""
    if path.startswith(CHECKPOINT):
        return "stillframe-checkpoint"
    return "stillframe-enclave" if path == OTHERS or path.startswith(AGENT) else "stillframe"


def play(name, package, copy):
    """Builds the simulator of a package, and returns after how many runs it failed, or none."""
    environment = {"STILLFRAME_TEST_RUNS": RUNS[package], **os.environ}
    # The same runs each time: whether they meet the bug is not to be luck.
    environment.pop("STILLFRAME_TEST_SEED", None)
    environment |= {"CARGO_TARGET_DIR": str(PLANTED / "target"), "CARGO_INCREMENTAL": "0"}
    command = ["cargo", "test", "--locked", "-q", "-p", package, "--features", "points", "--test", "it"]
    built = subprocess.run(command + ["--no-run"], cwd=copy, env=environment, capture_output=True, text=True)
    if built.returncode != 0:
        sys.exit(f"{name} does not compile:\n{built.stderr}")
    try:
        done = subprocess.run(command + ["simulator::", "--", "--nocapture"], cwd=copy, env=environment, capture_output=True, text=True, timeout=3600)
    except subprocess.TimeoutExpired:
        return "after a hang"
    if done.returncode == 0:
        return None
    (PLANTED / f"{name}.log").write_text(done.stdout + done.stderr)
    seed = re.search(r"STILLFRAME_TEST_SEED=(\d+)", done.stdout + done.stderr)
    return f"by run {int(seed[1]) + 1}" if seed else f"by the end of the process ({done.returncode})"


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__.strip())
        return
    PLANTED.mkdir(parents=True, exist_ok=True)
    chosen = [bug for bug in BUGS if not sys.argv[1:] or bug[0] in sys.argv[1:]]
    missed = []
    # What fails without a bug catches none.
    for package in sorted({package_of(path) for _, path, _, _ in chosen}):
        if failed := play("none", package, copy_source()):
            sys.exit(f"the simulator of {package} fails {failed} without any bug: {PLANTED / 'none.log'}")
    for name, path, old, new in chosen:
        caught = play(name, package_of(path), plant(name, path, old, new))
        print(f"{name:55} {'caught ' + caught if caught else 'not caught'}", flush=True)
        missed += [] if caught else [name]
    if missed:
        sys.exit(f"{len(missed)} of {len(chosen)} bugs were not caught")


if __name__ == "__main__":
    main()
