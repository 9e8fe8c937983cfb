"""Objects that 16 processes on two nodes create, attach a fragment in and publish, beside plain puts of the same texts to etcd."""

import json
import os
import statistics
import time
from pathlib import Path

from nodes import Nodes
from turns import BUILT, REGIONS, Role, Runtimes, ratio, show

PROCESSES = 16
#: Each process's.
OBJECTS = 1000
#: Versions of each object, in each turn.
VERSIONS = 3
#: Within these most publishes are known.
QUIET_SECONDS = 1


#: What runs meanwhile, by the names of the commands.
COMMANDS = {"nodes-bench": "programs", "still-node": "runtimes", "etcd": "etcd"}


def processor_seconds():
    """What each kind of COMMANDS has had of the processors, of those that this program started."""
    processes = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            before, after = stat.read_text().rsplit(")", 1)
        except (FileNotFoundError, ProcessLookupError):
            continue
        words = after.split()
        # proc(5): the parent, and the times of the process itself in user and in system mode.
        processes[int(stat.parent.name)] = before.split("(", 1)[1], int(words[1]), int(words[11]) + int(words[12])
    seconds = dict.fromkeys(COMMANDS.values(), 0)
    for pid, (name, _, ticks) in processes.items():
        while pid in processes and pid != os.getpid():
            pid = processes[pid][1]
        if pid == os.getpid() and name in COMMANDS:
            seconds[COMMANDS[name]] += ticks / os.sysconf("SC_CLK_TCK")
    return seconds


class Spent:
    """The processor time that each step of a turn takes, in microseconds per object, by who takes it."""

    def __init__(self):
        self.of = {}

    def by(self, step, do):
        before = processor_seconds()
        result = do()
        after = processor_seconds()
        self.of[step] = {who: (after[who] - before[who]) * 1e6 / PROCESSES / OBJECTS for who in after}
        return result


class Crowd:
    """Processes that begin to do something at the same time."""

    def __init__(self, roles):
        self.roles = roles

    def do(self, lines):
        """What each says: times in nanoseconds, when it began and when it ended and others."""
        for role, line in zip(self.roles, lines):
            role.tell(line)
        return [[int(word) for word in role.listen().split()] for role in self.roles]

    def rate(self, line):
        """How many a second all of them do, from when the first begins until the last ends."""
        said = self.do([line] * PROCESSES)
        begin, end = min(times[0] for times in said), max(times[1] for times in said)
        return PROCESSES * OBJECTS * 1e9 / (end - begin)

    def end(self):
        for role in self.roles:
            role.process.stdin.close()
        for role in self.roles:
            role.process.wait(60)


def publish(crowd, version, spent):
    """Publishes a second that are known at the homes, publishes a second, and the milliseconds that each took to be known, sorted.

    A publish is known where its version is complete. That a version is complete is looked up on the node that does not
    write it: what the home decides comes there, if the home is not that node itself.
    """
    crowd.do([f"fill {version}"] * PROCESSES)

    def tell():
        times = crowd.do([f"publish {version}"] * PROCESSES)
        # Who looks does not take the processors from who is still to tell.
        time.sleep(QUIET_SECONDS)
        return times

    published = [times[2:] for times in spent.by("known", tell)]
    known = [times[2:] for times in crowd.do([f"known {version}"] * PROCESSES)]
    lags = [
        (there - here) / 1e6
        for process in range(PROCESSES)
        for here, there in zip(published[process], known[process ^ 1])
    ]
    begin = min(map(min, published))
    rate = lambda ends: PROCESSES * OBJECTS * 1e9 / (max(map(max, ends)) - begin)
    return rate(known), rate(published), sorted(lags)


def turn(number):
    """Rates of one turn, with runtimes and an etcd of its own."""
    own = BUILT / "nodes-bench"
    with Nodes(2, shm_bytes=8 << 30) as nodes, Runtimes(nodes, plain=False) as runtimes:
        endpoint = json.loads(runtimes.roles[0].said)["names"]
        on = lambda process: nodes[process % 2]
        numbers = range(PROCESSES)
        objects = Crowd([Role(on(process), own, "objects", REGIONS, process, OBJECTS) for process in numbers])
        puts = Crowd([Role(on(process), own, "put", endpoint, runtimes.certificate, process, OBJECTS) for process in numbers])
        rates, spent = {}, Spent()
        kinds = [("put", puts), ("create", objects)]
        for kind, crowd in kinds if number % 2 else reversed(kinds):
            rates[kind] = spent.by(kind, lambda: crowd.rate(kind))
        puts.end()
        rates["attach"] = spent.by("attach", lambda: objects.rate("attach"))
        # The one with the next number is on the other node.
        objects.do([f"watch {process ^ 1}" for process in numbers])
        publishes = [publish(objects, version, spent) for version in range(1, VERSIONS + 1)]
        rates["known"] = statistics.median(known for known, _, _ in publishes)
        rates["publish"] = statistics.median(published for _, published, _ in publishes)
        p99 = [lags[len(lags) * 99 // 100] for _, _, lags in publishes]
        objects.end()
    return rates, statistics.median(p99), spent.of


def names(arguments, report):
    print(f"\n{PROCESSES} processes on 2 nodes, {OBJECTS} objects each, {arguments.turns} turns\n")
    print("| | a second | of plain puts |")
    print("|---" * 3 + "|")
    turns = [turn(number) for number in range(1, arguments.turns + 1)]
    column = lambda kind: [rates[kind] for rates, _, _ in turns]
    ratios = ratio(column("create"), column("put"))
    rows = {"put": "plain puts", "create": "creates", "attach": "attaches", "known": "publishes known at the home"}
    for kind, text in rows.items():
        print(f"| {text} | {show(sorted(column(kind)), 0)} | {show(ratios) if kind == 'create' else ''} |", flush=True)
    lags = sorted(lag for _, lag, _ in turns)
    print(f"\na publish is known within {show(lags, 1)} ms in 99 of 100 cases; published are {show(sorted(column('publish')), 0)} a second")
    print("\nProcessor time of each, in microseconds, by who takes it:\n")
    print(f"| | {' | '.join(COMMANDS.values())} | all |\n{'|---' * (len(COMMANDS) + 2)}|")
    took = {kind: {who: statistics.median(spent[kind][who] for _, _, spent in turns) for who in COMMANDS.values()} for kind in rows}
    for kind, text in rows.items():
        print(f"| {text} | {' | '.join(f'{us:.0f}' for us in took[kind].values())} | {sum(took[kind].values()):.0f} |")
    report.append({"row": "names", "processor_us": took, "rates": {kind: sorted(column(kind)) for kind in rows}, "creates_of_puts": ratios, "lag_p99_ms": lags})
