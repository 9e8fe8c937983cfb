#!/usr/bin/env python3
"""Kills ranks, runtimes and etcd, at every named point and at random, while ranks publish over nodes and readers check.

kills.py                          every named point once, and some random kills of each kind
kills.py --kills 1000             so many of each kind
kills.py --seed 7 --groups 1      what a failure names, once more

What is killed is started again. What must be so: no element that is read is of another version or place; no reader sees an older
version after a newer one; ranks publish on while runtimes and etcd are dead; the newest complete version can be read, or an
error says who has it; and all goes on when what was killed is back. How long that takes is told, and not judged.

It needs programs that were built with the feature `points`: `make nodes-kills` builds them. Exits with 1 if anything is wrong.
"""

import argparse
import collections
import faulthandler
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from nodes import Nodes, NodesError, child_of  # noqa: E402
from nodes_runtimes import Etcd, Runtimes  # noqa: E402

KINDS = ("rank", "runtime", "etcd")
ROWS, BANDS = 144, 2
PERIOD_NS = 50_000_000
#: Long enough for a node that gets no processor for a while to keep its own.
LEASE_SECONDS = 10
#: Seconds. Nothing comes near them unless something hangs.
PATIENCE = 60
#: Seconds. Ranks and readers have to go on within them, where others take the processors too.
RECOVERY = 60
#: How often a point is tried before it counts as one that is not reached. Each try waits longer than the one before.
TRIES = 12
#: Of the home, and of a node that begins, which most runtimes pass only when others end or the names are lost.
HOME = {"home.claimed", "home.begun", "home.asked", "report.taken", "change.taken", "decision.made", "roster.sent"}
HOME |= {"home.given"}
KEEPER = {"keeper.begun", "keeper.ended", "keeper.again", "etcd.spawned"}
AGAIN = {"keeper.ended", "keeper.again"}
NAMES = {"names.lost", "names.rebuilt", "reenter.raised", "reenter.put"}
LOST = {"node.lost", "node.ended"}
NAME = {"name.put", "name.noted", "name.removed"}
#: What ranks pass that has to do with other nodes. `make crash` walks the rest of the engine, on one machine.
OF_RANKS = ("attach.", "board.", "collect.", "detach.", "publish.")
#: Only the first node of a job passes it, once.
FIRST = "meeting.first"
#: Each version passes them.
OFTEN = {"hint.taken", "report.sent", "pin.held", "complete.heard", "change.taken", "decision.made"}
OFTEN |= {"fill.asked", "fill.piece", "fill.filled", "fill.published", "send.held", "send.pieces"}
OFTEN |= {"link.sends", "link.receives"}


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def runtime_points():
    """All points of a runtime, as its sources have them: none is forgotten."""
    sources = [path for crate in ("node", "etcd", "link") for path in (ROOT / "crates" / crate / "src").rglob("*.rs")]
    found = [name for path in sources for name in re.findall(r'points::hit\(\s*"([^"]+)"', path.read_text())]
    return sorted(set(found))


RUNTIME_POINTS = runtime_points()


class Wrong(Exception):
    """Something is as it may never be."""


class Teller:
    """A program in a node, and what it says line by line."""

    def __init__(self, node, words, env=None):
        self.node = node
        self.words = words
        self.lines = collections.deque(maxlen=30)
        self.wrong = []
        self.begun_ns = None
        self.is_attached = False
        #: The newest version that it published or saw, and when.
        self.newest, self.newest_ns = 0, None
        self.count = 0
        #: The longest pause between two versions, in nanoseconds.
        self.pause_ns = 0
        #: When it first saw versions that were due at or after `wanted_ns`.
        self.wanted_ns, self.reached_ns = None, None
        self.answer = None
        self.changed = threading.Condition()
        how = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1, "cwd": "/"}
        self.process = node.popen(words, env=env, **how)
        self.thread = threading.Thread(target=self._hear, daemon=True)
        self.thread.start()

    def _hear(self):
        for line in self.process.stdout:
            what, _, rest = line.rstrip("\n").partition(" ")
            with self.changed:
                self._note(what, rest)
                self.changed.notify_all()

    def _note(self, what, rest):
        if what == "begun":
            self.begun_ns = int(rest)
        elif what in ("attached", "detached"):
            self.is_attached = what == "attached"
        elif what in ("seen", "published"):
            version, at_ns = map(int, rest.split()[:2])
            self.count += 1
            if self.newest_ns is not None:
                self.pause_ns = max(self.pause_ns, at_ns - self.newest_ns)
            self.newest, self.newest_ns = version, at_ns
            if self.wanted_ns is not None and self.reached_ns is None and self.due_ns(version) >= self.wanted_ns:
                self.reached_ns = at_ns
            return
        elif what in ("wrong", "failed"):
            self.wrong.append(f"{self.node.name}: {' '.join(map(str, self.words[1:]))}: {what} {rest}")
        self.lines.append(f"{what} {rest}")
        if what in ("newest", "without"):
            self.answer = (what, rest)

    due_ns = staticmethod(lambda version: 0)

    def want(self, at_ns):
        """From now on it is noted when a version comes that was due at this time or later."""
        with self.changed:
            self.wanted_ns, self.reached_ns = at_ns, None

    def wait(self, is_so, seconds):
        """Whether something becomes so in time."""
        with self.changed:
            return self.changed.wait_for(is_so, seconds)

    def ask(self, word, seconds):
        """What it answers to a word; None if nothing."""
        with self.changed:
            self.answer = None
        try:
            self.process.stdin.write(word + "\n")
        except (BrokenPipeError, ValueError):
            return None
        self.wait(lambda: self.answer is not None, seconds)
        return self.answer

    @property
    def is_alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait(PATIENCE)
        self.thread.join(PATIENCE)
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass


class Figures:
    """What all groups found, and what is still to be done."""

    def __init__(self, kills, points):
        self.lock = threading.Lock()
        self.goal = kills
        self.killed = collections.Counter()
        #: How often something died at each named point, and how often that was tried in vain.
        self.at = collections.Counter({point: 0 for point in points})
        self.tries = collections.Counter()
        self.recovery_ms = collections.defaultdict(list)
        self.start_ms = []
        self.pause_ms = 0.0
        self.seen = 0
        self.failures = []
        #: Runtimes whose lease ended, although they ran.
        self.rejoined = 0

    def note_kill(self, kind, point=None):
        with self.lock:
            self.killed[kind] += 1
            if point:
                self.at[point] += 1
                self.tries[point] -= 1

    def window(self, point, seconds):
        """How long to wait until something dies at a point: so long at first, and longer where that was in vain."""
        with self.lock:
            return seconds * max(1, self.tries[point])

    def note_recovery(self, kind, ms):
        with self.lock:
            self.recovery_ms[kind].append(ms)

    def note_end(self, teller):
        with self.lock:
            if "read" in teller.words:
                self.seen += teller.count
            else:
                self.pause_ms = max(self.pause_ms, teller.pause_ns / 1e6)

    def next_task(self, group):
        """What a group is to kill, and at which point if at one; None if all is done."""
        with self.lock:
            possible = [point for point in self.at if group.is_possible(point)]
            rare = lambda point: (self.at[point] + self.tries[point], self.tries[point], group.dice.random())  # noqa: E731
            unreached = [point for point in possible if self.at[point] == 0 and self.tries[point] < TRIES]
            kinds = [kind for kind in KINDS if self.killed[kind] < self.goal]
            if not unreached and not kinds:
                return None
            if unreached and (not kinds or group.dice.random() < 0.8):
                point = min(unreached, key=rare)
            else:
                kind = group.dice.choice(kinds)
                of_kind = [point for point in possible if (point in group.rank_points) == (kind == "rank")]
                if kind == "etcd" or not of_kind or group.dice.random() < 0.5:
                    return kind, None
                point = min(of_kind, key=rare)
            self.tries[point] += 1
            return ("rank" if point in group.rank_points else "runtime"), point

    def unreached(self):
        return sorted(point for point, count in self.at.items() if count == 0)

    def told(self):
        lines = [f"killed: {', '.join(f'{self.killed[kind]} {kind}' for kind in KINDS)}; "]
        lines[0] += f"{sum(self.at.values())} of them at {sum(count > 0 for count in self.at.values())} of {len(self.at)} named points"
        lines.append(f"versions read and checked: {self.seen}; longest pause of a rank: {self.pause_ms:.0f} ms")
        for kind, all_ms in [*sorted(self.recovery_ms.items()), ("a runtime's start", self.start_ms)]:
            if all_ms:
                middle, worst = statistics.median(all_ms), max(all_ms)
                late = sum(ms > 1000 for ms in all_ms)
                lines.append(f"{kind}: median {middle:.0f} ms, worst {worst:.0f} ms, {late} of {len(all_ms)} above 1 s")
        lines.append(f"runtimes that joined anew: {self.rejoined}")
        return "\n".join(lines)


class Group:
    """Three nodes with runtimes, two ranks, and two readers."""

    def __init__(self, number, seed, programs, figures, has_own_etcd):
        self.dice = random.Random(f"{seed}.{number}")
        self.number = number
        self.programs = programs
        self.rank_program = programs / "nodes-rank"
        self.figures = figures
        self.has_own_etcd = has_own_etcd
        self.origin_ns = now_ns()
        self.names = 0
        self.history = collections.deque(maxlen=12)
        self.runtimes, self.tellers, self.armed, self.rank_points = {}, {}, {}, set()
        self.etcd = None

    def __enter__(self):
        self.nodes = Nodes(3, shm_bytes=512 << 20)
        self.nodes.__enter__()
        try:
            self.making = Runtimes(self.nodes, self.programs / "still", lease_seconds=LEASE_SECONDS)
            self.making.certificate = self.making.make_certificate("kills")
            if not self.has_own_etcd:
                self.etcd = Etcd(self.nodes[2], self.nodes.folder / "etcd.log")
                self.etcd.start()
                self.making.names = self.etcd.endpoint
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for teller in self.tellers.values():
            teller.kill()
            self.figures.note_end(teller)
        for process in self.runtimes.values():
            process.kill()
            process.wait()
        self.nodes.__exit__()

    def _begin(self):
        if self.has_own_etcd:
            self.start_runtime(0, FIRST)
            if self.await_death(0, lambda: None, PATIENCE):
                with self.figures.lock:
                    self.figures.tries[FIRST] += 1
                self.figures.note_kill("runtime", FIRST)
            self.start_again(0)
        else:
            self.start_runtime(0)
        for index in (1, 2):
            self.start_runtime(index)
        self.do(0, "create", "heat", str(ROWS))
        count = self.nodes.folder / "points"
        self.start_rank("writer0", {"STILLFRAME_COUNT_POINTS": str(count)})
        for name in ("writer1", "reader0", "reader2"):
            self.start_rank(name)
        self.await_versions("start", now_ns())
        # It detaches and attaches anew meanwhile.
        begin = self.tellers["writer0"].newest
        if not self.tellers["writer0"].wait(lambda: self.tellers["writer0"].newest > begin + 50, PATIENCE):
            raise Wrong(f"a rank does not go on: {self.state()}")
        self.rank_points = {point for point in count.read_text().split() if point.startswith(OF_RANKS)}
        with self.figures.lock:
            for point in self.rank_points:
                self.figures.at.setdefault(point, 0)

    # Programs.

    def start_runtime(self, index, point=None, times=1):
        """Starts a runtime, which perhaps is to die at a point; whether it said that it runs, and did not die before."""
        self.history.append(f"start runtime {index + 1}{f', to die at {point}:{times}' if point else ''}")
        begin = time.monotonic()
        env = {"STILLFRAME_DIE_AT": f"{point}:{times}"} if point else {}
        process = self.making.begin(index, env=env)
        self.runtimes[index], self.armed[index] = process, point
        said = []
        thread = threading.Thread(target=self._hear_runtime, args=(process, said), daemon=True)
        thread.start()
        while not said and process.poll() is None:
            if time.monotonic() - begin > PATIENCE:
                raise Wrong(f"the runtime of node {index + 1} says nothing: {self.state()}")
            time.sleep(0.002)
        if said and not point:
            with self.figures.lock:
                self.figures.start_ms.append((time.monotonic() - begin) * 1000)
        return bool(said)

    def _hear_runtime(self, process, said):
        for line in process.stdout:
            if said:
                with self.figures.lock:
                    self.figures.rejoined += 1
            said.append(line)
        process.stdout.close()

    def start_again(self, index):
        """Starts a runtime until it runs; when that is, in nanoseconds."""
        deadline = time.monotonic() + PATIENCE
        while not self.start_runtime(index):
            if time.monotonic() > deadline:
                raise Wrong(f"the runtime of node {index + 1} ends at once: {self.state()}")
            # Another one may have come to the point at which it was to die, and it may be the one that keeps the names.
            for other, process in list(self.runtimes.items()):
                if other != index and process.poll() is not None:
                    self.start_runtime(other)
        return now_ns()

    def end_runtime(self, index):
        process = self.runtimes.pop(index)
        process.kill()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Wrong(f"the runtime of node {index + 1} does not end: {self.where(process)}: {self.state()}") from None

    @staticmethod
    def where(process):
        """What a process does that was killed and does not end, as the kernel tells."""
        inner = process.inner
        told = []
        for number in (process.pid, inner):
            for file in ("status", "wchan", "stack"):
                try:
                    told.append(Path(f"/proc/{number}/{file}").read_text())
                except OSError as error:
                    told.append(str(error))
        return f"{inner} of {process.pid}: {told}"

    def start_rank(self, name, env=None):
        self.history.append(f"start {name} {env or ''}")
        index = int(name[-1])
        clock = (str(self.origin_ns), str(PERIOD_NS))
        if name.startswith("writer"):
            rows = ROWS // BANDS
            order = ("rowmajor", "columnmajor")[index]
            words = ["write", "heat", *clock, str(index * rows), str(rows), str(index), order]
        else:
            words = ["read", "heat", *clock]
        teller = Teller(self.nodes[index], [self.rank_program, *words], env)
        teller.due_ns = lambda version: self.origin_ns + version * PERIOD_NS
        self.tellers[name] = teller
        return teller

    def end_rank(self, name):
        teller = self.tellers.pop(name)
        teller.kill()
        self.figures.note_end(teller)
        if teller.wrong:
            raise Wrong(f"{teller.wrong[:3]}: {self.state()}")

    def do(self, index, *words):
        """Lets a program do one thing until that succeeds; when it did."""
        deadline = time.monotonic() + PATIENCE
        while True:
            teller = Teller(self.nodes[index], [self.rank_program, *words])
            teller.process.wait(PATIENCE)
            teller.thread.join(PATIENCE)
            is_done = teller.process.returncode == 0
            teller.kill()
            if is_done:
                return now_ns()
            if time.monotonic() > deadline:
                raise Wrong(f"{words}: {list(teller.lines)}; {self.state()}")
            time.sleep(0.01)

    def etcd_process(self):
        """The number of the etcd that the first node's runtime started; None if it has none now."""
        runtime = self.runtimes[0].inner
        tasks = Path(f"/proc/{runtime}/task")
        try:
            children = [number for task in tasks.iterdir() for number in (task / "children").read_text().split()]
            for child in children:
                if Path(f"/proc/{child}/comm").read_text().strip() == "etcd":
                    return int(child)
        except (FileNotFoundError, ProcessLookupError):
            pass
        return None

    # What is looked at.

    def state(self):
        """What led here, what was said last, and what each node shows."""
        lines = [f"history: {list(self.history)}"]
        for name, teller in self.tellers.items():
            lines.append(f"{name}, at {teller.newest}: {list(teller.lines)[-2:]}")
        for index in range(3):
            path = self.making.log(index)
            if path.exists():
                lines.append(f"node {index + 1} complained: {path.read_text()[-300:]}")
            lines.append(f"node {index + 1} shows:\n{self.shown(index)}")
        return "\n".join(lines)

    def shown(self, index):
        try:
            show = [self.programs / "still", "show", "heat"]
            nodes = [self.programs / "still", "ls"]
            shown = [self.nodes[index].run(words, check=False, timeout=10).stdout for words in (nodes, show)]
        except (NodesError, OSError, subprocess.SubprocessError) as error:
            return str(error)
        # Who has what is drawn below.
        return "\n".join(shown).partition("who has what")[0]

    def check(self):
        """Nothing was said that may never be, and nobody ended who was not killed."""
        for name, teller in self.tellers.items():
            if teller.wrong:
                raise Wrong(f"{teller.wrong[:3]}: {self.state()}")
            if not teller.is_alive:
                raise Wrong(f"{name} ended with {teller.process.returncode}: {self.state()}")
        for index, process in self.runtimes.items():
            if process.poll() is not None and not self.armed.get(index):
                raise Wrong(f"the runtime of node {index + 1} ended with {process.returncode}: {self.state()}")

    def await_versions(self, kind, back_ns, names=("reader0", "reader2")):
        """Waits until readers see a version that was due when something was back; how long that took is noted."""
        tellers = [self.tellers[name] for name in names]
        for teller in tellers:
            teller.want(back_ns)
        for teller in tellers:
            deadline = time.monotonic() + RECOVERY
            while not teller.wait(lambda teller=teller: teller.reached_ns is not None, 0.25):
                self.check()
                if time.monotonic() > deadline:
                    raise Wrong(f"{kind}: {teller.node.name} sees nothing new for {RECOVERY} s: {self.state()}")
        self.check()
        self.figures.note_recovery(kind, (max(teller.reached_ns for teller in tellers) - back_ns) / 1e6)

    def look(self, name):
        """A reader can have the newest complete version, or says whom it waits for."""
        answer = self.tellers[name].ask("look", RECOVERY)
        self.check()
        if answer is None:
            raise Wrong(f"{name} does not answer: {self.state()}")
        what, text = answer
        if what != "newest" and not re.search(r"node \d|runtime|rank \d|process \d|newest complete", text):
            raise Wrong(f"{name} says not who has what it waits for: {text}: {self.state()}")

    def watch_publishing(self, seconds):
        """Ranks publish while something is dead. One that comes anew just then may wait for who accepts it."""
        writers = [teller for name, teller in self.tellers.items() if name.startswith("writer")]
        before = [writer.newest for writer in writers]
        time.sleep(seconds)
        for writer, newest in zip(writers, before):

            def goes_on(writer=writer, newest=newest):
                return writer.newest > newest or not writer.is_attached

            if not writer.wait(goes_on, RECOVERY):
                raise Wrong(f"a rank on {writer.node.name} publishes no more: {self.state()}")

    # Kills.

    def kill_rank(self, point=None):
        name = self.dice.choice(("writer0", "writer1") if point else ("writer0", "writer1", "writer1", "reader0", "reader2"))
        if point:
            self.end_rank(name)
            self.history.append(f"kill {name}")
            self.figures.note_kill("rank")
            teller = self.start_rank(name, {"STILLFRAME_DIE_AT": f"{point}:{self.dice.choice((1, 2, 3))}"})
            # It comes anew every few seconds.
            if not self.await_end(lambda: teller.is_alive, lambda: None, self.figures.window(point, 5)):
                if teller.process.returncode != -signal.SIGKILL:
                    raise Wrong(f"{name} ended with {teller.process.returncode}: {self.state()}")
                self.figures.note_kill("rank", point)
        else:
            time.sleep(self.dice.uniform(0, 0.2))
            self.figures.note_kill("rank")
        self.end_rank(name)
        self.history.append(f"kill {name}, {point}")
        time.sleep(self.dice.uniform(0, 0.1))
        if self.dice.random() < 0.2:
            self.look(self.dice.choice([other for other in self.tellers if other.startswith("reader")]))
        teller = self.start_rank(name)
        if not teller.wait(lambda: teller.begun_ns is not None, PATIENCE):
            raise Wrong(f"{name} does not begin: {self.state()}")
        self.await_versions("rank", teller.begun_ns)

    def kill_runtime(self, point=None):
        index = self.node_for(point)
        time.sleep(self.dice.uniform(0, 0.2))
        self.end_runtime(index)
        self.history.append(f"kill runtime {index + 1}")
        self.figures.note_kill("runtime")
        self.watch_publishing(self.dice.uniform(0, 0.1))
        if self.dice.random() < 0.2:
            self.look(self.dice.choice(("reader0", "reader2")))
        if point:
            self.start_runtime(index, point, self.dice.choice((1, 2, 5, 20)) if point in OFTEN else 1)
            seconds = LEASE_SECONDS + 10 if point in LOST else 12 if point in HOME else 6
            if self.await_death(index, lambda: self.provoke(index, point), self.figures.window(point, seconds)):
                self.figures.note_kill("runtime", point)
            else:
                self.end_runtime(index)
                self.history.append(f"kill runtime {index + 1}, which did not come to {point}")
                self.figures.note_kill("runtime")
            time.sleep(self.dice.uniform(0, 0.05))
        back_ns = self.start_again(index)
        self.await_versions("runtime", back_ns)
        if point in NAME:
            # Whatever became of the name: another node can have it.
            self.do((index + 1) % 3, "create", f"name{self.names}", "2")
            self.do((index + 1) % 3, "remove", f"name{self.names}")

    def kill_etcd(self):
        """Kills etcd, perhaps while a node joins. Names and versions go on when it is back."""
        index = self.dice.randrange(3)
        if self.dice.random() < 0.3 and not (self.has_own_etcd and index == 0):
            self.end_runtime(index)
            self.figures.note_kill("runtime")
            begun = threading.Timer(self.dice.uniform(0, 0.15), self.end_etcd)
            begun.start()
            self.start_unsure(index)
            begun.join()
        else:
            time.sleep(self.dice.uniform(0, 0.2))
            self.end_etcd()
        self.watch_publishing(self.dice.choice((0, 0.1, LEASE_SECONDS + 0.5)) if not self.has_own_etcd else 0)
        if self.etcd:
            self.etcd.start(is_empty=self.dice.random() < 0.5)
        else:
            deadline = time.monotonic() + PATIENCE
            while self.etcd_process() is None:
                if time.monotonic() > deadline:
                    raise Wrong(f"etcd is not started again: {self.state()}")
                time.sleep(0.005)
        back_ns = now_ns()
        if self.runtimes.get(index) is None or self.runtimes[index].poll() is not None:
            self.start_again(index)
        self.names += 1
        done_ns = self.do(index, "create", f"name{self.names}", "2")
        self.figures.note_recovery("etcd: a name", (done_ns - back_ns) / 1e6)
        self.await_versions("etcd", back_ns)
        self.do((index + 1) % 3, "remove", f"name{self.names}")

    def start_unsure(self, index):
        """Starts a runtime that may find no etcd, and then ends with an error."""
        self.start_runtime(index)
        process = self.runtimes[index]
        if process.poll() is not None:
            del self.runtimes[index]

    def end_etcd(self):
        self.history.append("kill etcd")
        self.figures.note_kill("etcd")
        if self.etcd:
            self.etcd.kill()
            return
        deadline = time.monotonic() + PATIENCE
        while (process := self.etcd_process()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if process is not None:
            os.kill(process, signal.SIGKILL)
            while self.etcd_process() == process and time.monotonic() < deadline:
                time.sleep(0.001)

    def is_possible(self, point):
        """Whether runtimes of this group can come to a point."""
        if point == FIRST or point not in self.rank_points and point not in RUNTIME_POINTS:
            return False
        return self.has_own_etcd or point not in KEEPER

    def node_for(self, point):
        if point in KEEPER:
            return 0
        if point in LOST | NAMES:
            return self.dice.choice((1, 2))
        if point and point.startswith("fill."):
            # Where readers are.
            return self.dice.choice((0, 2))
        return self.dice.randrange(3)

    def provoke(self, index, point):
        """Does what brings a runtime to a point, if its usual work does not."""
        if point in NAME:
            self.names += 1
            for what in ("create", "remove"):
                words = [self.rank_program, what, f"name{self.names}", *(["2"] if what == "create" else [])]
                Teller(self.nodes[index], words).process.wait(PATIENCE)
        elif point in LOST:
            inner = self.runtimes[index].inner
            if inner:
                os.kill(inner, signal.SIGSTOP)
                time.sleep(LEASE_SECONDS + 2)
                os.kill(inner, signal.SIGCONT)
                # nsenter stopped with it.
                os.kill(self.runtimes[index].pid, signal.SIGCONT)
        elif point in NAMES | AGAIN:
            if self.etcd:
                self.end_etcd()
                self.etcd.start(is_empty=True)
            else:
                self.end_etcd()
        elif point in HOME:
            other = self.dice.choice([other for other in range(3) if other != index])
            self.end_runtime(other)
            self.history.append(f"kill runtime {other + 1}, for {point}")
            self.figures.note_kill("runtime")
            self.start_again(other)
        else:
            # Readers and ranks that come anew are heard of on all nodes.
            name = self.dice.choice(("reader0", "reader2", "writer0", "writer1"))
            self.end_rank(name)
            self.figures.note_kill("rank")
            self.start_rank(name)

    def await_death(self, index, provoke, seconds):
        """Whether a runtime that is to die at a point does so in time."""
        process = self.runtimes[index]
        if self.await_end(lambda: process.poll() is None, provoke, seconds):
            return False
        self.runtimes.pop(index)
        if process.returncode != -signal.SIGKILL:
            raise Wrong(f"the runtime of node {index + 1} ended with {process.returncode}: {self.state()}")
        return True

    @staticmethod
    def await_end(is_alive, provoke, seconds):
        """Whether something still lives after so long, although it is provoked now and then."""
        end = time.monotonic() + seconds
        due = time.monotonic() + 0.8
        while is_alive():
            if time.monotonic() > end:
                return True
            if time.monotonic() > due:
                provoke()
                due = time.monotonic() + 1.5
            time.sleep(0.005)
        return False

    def run(self, is_over):
        """Kills until there is enough, or it is over."""
        while not is_over() and (task := self.figures.next_task(self)):
            kind, point = task
            self.history.append(f"-- {kind} {point or 'at random'}")
            if kind == "rank":
                self.kill_rank(point)
            elif kind == "runtime":
                self.kill_runtime(point)
            else:
                self.kill_etcd()


def work(number, options, figures, is_over):
    """Kills in one group after the other: what was found wrong in one says nothing of the next."""
    life = 0
    while not is_over() and len(figures.failures) < options.failures:
        try:
            with Group(number + life * options.groups, options.seed, options.programs, figures, number % 2 == 0) as group:
                group.run(is_over)
            return
        except (Wrong, NodesError, OSError, subprocess.SubprocessError) as error:
            figures.failures.append(f"seed {options.seed}, group {number}.{life}: {type(error).__name__}: {error}")
            print(figures.failures[-1], flush=True)
        life += 1


def usual_seed():
    """The same in each run, unless STILLFRAME_TEST_SEED is another one, or `random`."""
    text = os.environ.get("STILLFRAME_TEST_SEED", "1")
    return random.SystemRandom().getrandbits(32) if text == "random" else int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=7, help="of each kind, at least (7)")
    parser.add_argument("--seconds", type=float, help="end after so long, whatever is still to be done")
    parser.add_argument("--groups", type=int, default=2, help="of three nodes, beside each other (2)")
    parser.add_argument("--seed", type=int, default=usual_seed(), help="for what is chosen by chance")
    parser.add_argument("--failures", type=int, default=5, help="end after so many (5)")
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--programs", type=Path, default=target / "debug", help="where still and nodes-rank are")
    options = parser.parse_args()
    options.programs = options.programs.resolve()
    figures = Figures(options.kills, RUNTIME_POINTS)
    try:
        with Nodes(1):
            pass
    except NodesError as error:
        print(f"skipped: {error}")
        return 0
    begin = time.monotonic()
    faulthandler.dump_traceback_later(4 * (options.seconds or max(120, options.kills * 20)) + 600, exit=True)
    is_over = lambda: options.seconds is not None and time.monotonic() - begin > options.seconds  # noqa: E731
    print(f"seed {options.seed}", flush=True)
    threads = [
        threading.Thread(target=work, args=(number, options, figures, is_over), daemon=True)
        for number in range(options.groups)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        threads[0].join(0.1)
        for thread in threads:
            thread.join(10 / len(threads))
        with figures.lock:
            killed = ", ".join(f"{figures.killed[kind]} {kind}" for kind in KINDS)
            print(f"{time.monotonic() - begin:4.0f} s: {killed}; {len(figures.failures)} failures", flush=True)
    print(figures.told())
    if options.seconds is None and figures.unreached():
        figures.failures.append(f"points that nothing came to: {', '.join(figures.unreached())}")
    for failure in figures.failures:
        print(failure)
    return 1 if figures.failures else 0


if __name__ == "__main__":
    sys.exit(main())
