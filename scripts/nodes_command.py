"""The command nodes.py: nodes for one command, or nodes that stay until they are taken down."""

import argparse
import contextlib
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading

from nodes import Nodes, NodesError
from nodes_runtimes import Runtimes, find_still

GUIDE = """\
Makes nodes of one machine: each has a network, a /dev/shm, a /run, processes and a host name of its own; all other files are the
machine's. Links end in a switch that is theirs, so that nothing appears in the machine's network. Root needs nothing else; other
users need a kernel that lets them make user namespaces.

A command on each of 3 nodes, at the end of which they are gone:

  nodes.py run --nodes 3 -- sh -c 'echo $NODE of $NODES at $NODE_ADDRESS'
  nodes.py run --nodes 2 --delay 5ms --loss 1% --runtimes -- python my_ranks.py

Nodes that stay until they are taken down:

  nodes.py up 3 --runtimes     with a Stillframe runtime on each
  nodes.py enter 2             a shell on node 2
  nodes.py enter 2 still ls    a command there
  nodes.py cut 2               nothing reaches node 2;   nodes.py mend ends that
  nodes.py partition 1,2 3     node 3 is alone;          nodes.py mend ends that
  nodes.py link 1 --delay 20ms --loss 1%                 for what node 1 sends; without options as it was
  nodes.py kill 3              node 3 dies;              nodes.py boot 3 starts it with empty memory
  nodes.py status
  nodes.py down

In a node, NODE is its number, NODES how many there are, and NODE_ADDRESS its address; node K has 10.77.0.K.
"""


def duration_ms(text):
    found = re.fullmatch(r"([0-9.]+)(us|ms|s)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration such as 5ms, 200us or 1s")
    return float(found[1]) * {"us": 0.001, "ms": 1, "s": 1000}[found[2]]


def fraction(text):
    found = re.fullmatch(r"([0-9.]+)(%?)", text)
    value = float(found[1]) / (100 if found[2] else 1) if found else 2
    if value > 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 1% or 0.01")
    return value


def size_bytes(text):
    found = re.fullmatch(r"([0-9]+)([KMGT]?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 512M or 2G")
    return int(found[1]) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[found[2]]


def numbers(text):
    if not re.fullmatch(r"[0-9]+(,[0-9]+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of nodes such as 1,2")
    return [int(word) for word in text.split(",")]


def parse(words):
    parser = argparse.ArgumentParser(
        prog="nodes.py", description=GUIDE, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")

    link = argparse.ArgumentParser(add_help=False)
    link.add_argument(
        "--delay", type=duration_ms, default=0.0, metavar="5ms", help="how much later arrives what a node sends"
    )
    link.add_argument("--jitter", type=duration_ms, default=0.0, metavar="1ms", help="how much more or less than that")
    link.add_argument(
        "--loss", type=fraction, default=0.0, metavar="1%", help="how much of what a node sends never arrives"
    )
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--shm", type=size_bytes, default=1 << 30, metavar="1G", help="size of each /dev/shm")
    made.add_argument("--runtimes", action="store_true", help="a Stillframe runtime on each (still node run)")
    made.add_argument("--still", metavar="PATH", help="the command still; target/release/still, or the one in PATH")

    run = what.add_parser(
        "run", parents=[link, made], help="a command on each node, with the node's name before each line"
    )
    run.add_argument("--nodes", type=int, default=2, metavar="N", help="how many nodes (2)")
    run.add_argument("--on", type=numbers, metavar="1,2", help="on these nodes only")
    run.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="without one: a shell on the first of the nodes"
    )
    up = what.add_parser("up", parents=[link, made], help="nodes that stay")
    up.add_argument("nodes", type=int, nargs="?", default=2, metavar="N", help="how many (2)")
    enter = what.add_parser("enter", help="a shell or a command on a node")
    enter.add_argument("node", type=int)
    enter.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    for name, says in (
        ("cut", "nothing that a node sends arrives, and nothing reaches it"),
        ("kill", "a node dies, as if its power failed"),
        ("boot", "starts a node that died, with empty memory"),
    ):
        what.add_parser(name, help=says).add_argument("node", type=int)
    what.add_parser("mend", help="ends cuts and partitions")
    partition = what.add_parser("partition", help="only nodes of one group reach each other")
    partition.add_argument("groups", type=numbers, nargs="+", metavar="1,2")
    what.add_parser("link", parents=[link], help="delay and loss of a node's link").add_argument("node", type=int)
    what.add_parser("status", help="what there is")
    what.add_parser("down", help="ends nodes that stay")
    options = parser.parse_args(words)
    if getattr(options, "words", None) and options.words[0] == "--":
        del options.words[0]
    return options


class Set:
    """Nodes, and their runtimes if they have any."""

    def __init__(self, options):
        with contextlib.ExitStack() as stack:
            self.nodes = stack.enter_context(Nodes(options.nodes, shm_bytes=options.shm))
            for node in self.nodes:
                node.netem(options.delay, options.jitter, options.loss)
            self.runtimes = stack.enter_context(Runtimes(self.nodes, options.still)) if options.runtimes else None
            self._stack = stack.pop_all()
        self._path = os.environ.get("PATH", os.defpath)
        if self.runtimes:
            self._path = f"{self.runtimes.still.parent}:{self._path}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def node(self, number):
        if not 1 <= number <= len(self.nodes):
            raise NodesError(f"there are nodes 1 to {len(self.nodes)}, and no node {number}")
        return self.nodes[number - 1]

    def entering(self, number, words, cwd):
        """The command, and its environment, of a command in a node."""
        node = self.node(number)
        return node.command(words, cwd), node.environment({"PATH": self._path + ":/usr/sbin:/sbin"})

    def status(self):
        how = "" if not any(any(node.link) for node in self.nodes) else f"; delay and loss by {self.nodes.means}"
        lines = [f"{len(self.nodes)} nodes{how}"]
        for node in self.nodes:
            delay_ms, jitter_ms, loss = node.link
            words = [f"{node.name}  {node.address}", "up" if node.is_up else "dead"]
            words += ["cut"] if node.is_cut else []
            words += [f"network {node.bridge + 1}"] if any(other.bridge for other in self.nodes) else []
            words += [f"delay {delay_ms:g} ms ± {jitter_ms:g} ms, loss {loss:.2%}"] if any(node.link) else []
            if self.runtimes and node.index in self.runtimes.said:
                words.append(f"runtime: node {self.runtimes.said[node.index]['node']} of the job")
            lines.append("  ".join(words))
        if self.runtimes:
            lines.append(f"certificate of the job: {self.runtimes.certificate}")
        return "\n".join(lines)

    def do(self, what, request):
        """What a command asks of nodes that stay: what it prints."""
        if what == "cut":
            self.node(request["node"]).cut()
        elif what == "mend":
            self.nodes.mend()
        elif what == "partition":
            self.nodes.partition(*[{self.node(number).index for number in group} for group in request["groups"]])
        elif what == "link":
            self.node(request["node"]).netem(request["delay"], request["jitter"], request["loss"])
        elif what == "kill":
            node = self.node(request["node"])
            node.kill()
            if self.runtimes and node.index in self.runtimes.said:
                self.runtimes.stop(node.index)
        elif what == "boot":
            node = self.node(request["node"])
            if not node.is_up:
                node.boot()
            if self.runtimes and node.index not in self.runtimes.said:
                self.runtimes.start(node.index)
        return self.status()


def say_means(nodes):
    if any(any(node.link) for node in nodes) and nodes.means == "relay":
        print(
            "nodes.py: the kernel has no netem (CONFIG_NET_SCH_NETEM), so that a program delays and loses frames instead: "
            "as late and as many, but at some 100 MB/s at most",
            file=sys.stderr,
        )


def end_on_termination():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def run(options):
    end_on_termination()
    with Set(options) as made:
        say_means(made.nodes)
        on = options.on or range(1, options.nodes + 1)
        cwd = os.getcwd()
        if not options.words:
            words, environment = made.entering(on[0], [os.environ.get("SHELL", "/bin/sh")], cwd)
            return subprocess.run(words, env=environment).returncode
        processes = []
        for number in on:
            words, environment = made.entering(number, options.words, cwd)
            how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            processes.append((number, subprocess.Popen(words, env=environment, **how)))
        threads = [
            threading.Thread(target=pass_on, args=(f"node{number}: ", process.stdout)) for number, process in processes
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        statuses = {number: process.wait() for number, process in processes}
        for number, status in statuses.items():
            if status:
                print(f"nodes.py: status {status} on node{number}", file=sys.stderr)
        return max(status if status >= 0 else 128 - status for status in statuses.values())


printing = threading.Lock()


def pass_on(before, lines):
    for line in lines:
        with printing:
            sys.stdout.write(before + line.decode(errors="replace").rstrip("\n") + "\n")
            sys.stdout.flush()


def address():
    """Where the keeper of this user's nodes listens: a name that goes with it, and no file."""
    return f"\0stillframe-nodes-{os.geteuid()}"


def is_own(peer):
    """Whether the other side of a connection is this user's."""
    _, user, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user == os.geteuid()


def ask(request):
    """What the keeper of the nodes says to a request."""
    with socket.socket(socket.AF_UNIX) as keeper:
        try:
            keeper.connect(address())
        except ConnectionRefusedError:
            raise NodesError("there are no nodes: nodes.py up makes some") from None
        if not is_own(keeper):
            raise NodesError("another user answers for this one's nodes")
        keeper.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(keeper.makefile().readline() or '{"error": "the keeper of the nodes ended"}')
    if "error" in answer:
        raise NodesError(answer["error"])
    return answer


def up(options):
    try:
        ask({"what": "status"})
    except NodesError:
        pass
    else:
        raise NodesError("there are nodes already: nodes.py down ends them")
    if options.runtimes:
        find_still(options.still)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        # Nothing of the terminal stays with it.
        os.setsid()
        with open(writing, "w") as report:
            status = keep(options, report)
        os._exit(status)
    os.close(writing)
    with open(reading) as report:
        answer = json.loads(report.read() or '{"error": "the keeper of the nodes ended"}')
    if "error" in answer:
        raise NodesError(answer["error"])
    print(f"{answer['says']}\n\nnodes.py enter 1    a shell on node 1\nnodes.py down       ends them")
    return 0


def keep(options, report):
    """The process that has the nodes until it is told to end."""
    end_on_termination()
    try:
        with Set(options) as made, socket.socket(socket.AF_UNIX) as door:
            door.bind(address())
            door.listen()
            say_means(made.nodes)
            for number, name in enumerate(("stdin", "stdout", "stderr")):
                os.dup2(os.open(os.devnull, os.O_RDONLY if name == "stdin" else os.O_WRONLY), number)
            json.dump({"says": made.status()}, report)
            report.close()
            while serve(made, door):
                pass
    except NodesError as error:
        json.dump({"error": str(error)}, report)
        return 1
    except SystemExit:
        pass
    return 0


def serve(made, door):
    """Answers one request; whether there may be more."""
    asking, _ = door.accept()
    with asking:
        if not is_own(asking):
            return True
        try:
            request = json.loads(asking.makefile().readline())
            if request["what"] == "down":
                made.__exit__()
                answer = {"says": "the nodes are gone"}
            elif request["what"] == "enter":
                words, environment = made.entering(request["node"], request["words"], request["cwd"])
                own = {name: environment[name] for name in ("NODE", "NODES", "NODE_ADDRESS", "PATH")}
                answer = {"words": words, "environment": own}
            else:
                answer = {"says": made.do(request["what"], request)}
        except (NodesError, ValueError, KeyError, subprocess.SubprocessError) as error:
            request, answer = {"what": None}, {"error": str(error)}
        with contextlib.suppress(OSError):
            asking.sendall(json.dumps(answer).encode() + b"\n")
    return request["what"] != "down"


def enter(options):
    words = options.words or [os.environ.get("SHELL", "/bin/sh")]
    answer = ask({"what": "enter", "node": options.node, "words": words, "cwd": os.getcwd()})
    environment = {name: value for name, value in os.environ.items() if name != "STILLFRAME_DIR"}
    os.execvpe(answer["words"][0], answer["words"], environment | answer["environment"])


def main(words=None):
    options = parse(words)
    try:
        if options.what in ("run", "up", "enter"):
            return {"run": run, "up": up, "enter": enter}[options.what](options)
        print(ask(vars(options))["says"])
        return 0
    except NodesError as error:
        print(f"nodes.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
