#!/usr/bin/env python3
"""Makes 2 to 4 nodes of one machine, each with a network, memory, processes and a host name of its own.

    from nodes import Nodes

    with Nodes(3) as nodes:
        print(nodes[1].run(["hostname"]).stdout)         # node2
        server = nodes[0].popen(["nc", "-l", "7000"])
        nodes[0].cut()                                   # nothing reaches it, and nothing comes from it
        nodes[0].mend()
        nodes.partition({0, 1}, {2})                     # two networks; nodes.mend() makes one of them again
        nodes[1].netem(delay_ms=5, loss=0.01)            # for what it sends
        nodes[2].kill()                                  # the power fails
        nodes[2].boot()                                  # again, with empty memory

A node is a set of Linux namespaces: its `/dev/shm` and `/run` are empty, it has the address 10.77.0.1, 10.77.0.2 …, and
it sees neither the processes nor the network of the machine. All other files are the machine's. Links of the nodes end in
a switch, which is a namespace as well, so that nothing appears in the machine's own network. Root needs nothing else;
other users need a kernel that lets them make user namespaces, and are root in their nodes. When the program ends, however
it does, so do its nodes.

As a command it does the same: `nodes.py --help`.
"""

import functools
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

INSIDE = Path(__file__).resolve().parent / "nodes_inside.py"
NETWORK = "10.77.0"
COUNT_MAX = 250
#: Seconds within which a holder, or a command that sets something, is done.
SETTING_TIMEOUT = 30
#: Programs of the administrator, which users' PATH leaves out.
PATHS = os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"


class NodesError(Exception):
    """The machine does not let nodes be made, or a command of the system failed."""


def execute(words, text=None):
    """Runs a command of the system, and tells what it said if it fails."""
    try:
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            timeout=SETTING_TIMEOUT,
            env={**os.environ, "PATH": PATHS, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise NodesError(
            f"{error.filename} is missing: scripts/setup.sh nodes installs it (util-linux, iproute2)"
        ) from None
    if done.returncode != 0:
        raise NodesError(f"{' '.join(words)}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout


@functools.cache
def is_privileged():
    """Whether this process may make namespaces as it is. Otherwise it makes a user namespace for them."""
    try:
        return os.geteuid() == 0 and execute(["unshare", "--net", "--mount", "true"]) == ""
    except NodesError as error:
        if "is missing" in str(error):
            raise
        return False


def user_words():
    """What nsenter is told so that it joins the user namespace, if there is one."""
    return [] if is_privileged() else ["--user", "--preserve-credentials"]


def entering(holder):
    """How a command begins that is to run in a node whose process 1 has this number."""
    return ["nsenter", "--target", str(holder), *user_words(), "--net", "--mount", "--uts", "--ipc", "--pid"]


def child_of(process):
    """The number of a process's only child; None if it has none."""
    try:
        words = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return int(words[0]) if words else None


class Process(subprocess.Popen):
    """A process in a node. Its signals go to the program itself; `pid` is that of nsenter, which waits for it."""

    @property
    def inner(self):
        """The number of the program, as the machine counts; None if it has ended."""
        while True:
            child = child_of(self.pid)
            if child is not None or self.poll() is not None:
                return child
            time.sleep(0.001)

    def send_signal(self, sig):
        inner = self.inner
        if inner is not None:
            try:
                os.kill(inner, sig)
            except ProcessLookupError:
                pass
        if sig == signal.SIGKILL and self.poll() is None:
            # nsenter stops where its program was stopped, and would not notice that it has ended.
            os.kill(self.pid, signal.SIGCONT)


class Holder:
    """Namespaces, and the process that keeps them: process 1 in them."""

    def __init__(self, begin, kinds, name, *duty):
        maker = os.pidfd_open(os.getpid())
        inside = [sys.executable, "-I", "-S", str(INSIDE), "hold", str(maker), name, *duty]
        words = [*begin, "unshare", *kinds, "--pid", "--fork", "--kill-child", "--mount-proc", *inside]
        try:
            self._outer = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                pass_fds=[maker],
                start_new_session=True,
                env={**os.environ, "PATH": PATHS},
            )
        except FileNotFoundError as error:
            raise NodesError(f"{error.filename} is missing: scripts/setup.sh nodes installs it") from None
        finally:
            os.close(maker)
        readable, _, _ = select.select([self._outer.stdout], [], [], SETTING_TIMEOUT)
        if not readable or self._outer.stdout.readline() != "ready\n":
            self._outer.kill()
            said = self._outer.communicate()[1].strip()
            raise NodesError(f"{name} cannot be made: {said}\n{NEEDS}")
        self.pid = child_of(self._outer.pid)

    def end(self):
        """Ends all processes in the namespaces, and returns when they have."""
        try:
            os.kill(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._outer.wait()
        self._outer.stdout.close()
        self._outer.stderr.close()


NEEDS = (
    "It takes root, or a kernel that lets users make user namespaces (sysctl user.max_user_namespaces, "
    "kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); containers need --privileged."
)


class Node:
    """One of the nodes. It begins with `boot`, which Nodes calls."""

    def __init__(self, nodes, index, shm_bytes):
        self._nodes = nodes
        self.index = index
        self.number = index + 1
        self.name = f"node{self.number}"
        self.address = f"{NETWORK}.{self.number}"
        self._shm_bytes = shm_bytes
        self._holder = None
        self._relay = None
        #: Delay and jitter in milliseconds, and loss.
        self.link = (0.0, 0.0, 0.0)
        self.is_cut = False
        #: In which of the networks that `Nodes.partition` made.
        self.bridge = 0

    def __repr__(self):
        return f"<{self.name} {self.address} {'up' if self.is_up else 'down'}>"

    @property
    def is_up(self):
        return self._holder is not None

    @property
    def pid(self):
        """Process 1 of the node, as the machine counts."""
        if self._holder is None:
            raise NodesError(f"{self.name} is down: boot() starts it")
        return self._holder.pid

    def command(self, words, cwd=None):
        """The command that runs another one in the node, which ends with whoever runs it."""
        # A working directory is one of the machine until the node's files are looked at.
        where = os.fspath(cwd or os.getcwd())
        return [*entering(self.pid), "setpriv", "--pdeathsig", "KILL", "env", "-C", where, *map(os.fspath, words)]

    def environment(self, more=None):
        """Of the node's programs: this process's, and which node it is. Regions lie in the node's own memory."""
        own = {name: value for name, value in os.environ.items() if name != "STILLFRAME_DIR"}
        own |= {"PATH": PATHS, "NODE": str(self.number), "NODES": str(len(self._nodes)), "NODE_ADDRESS": self.address}
        return own | (more or {})

    def popen(self, words, env=None, cwd=None, **how):
        """Starts a program in the node: a subprocess.Popen. `env` is added to the environment."""
        return Process(self.command(words, cwd), env=self.environment(env), **how)

    def run(self, words, env=None, cwd=None, timeout=60, check=True, **how):
        """Runs a program in the node to its end: a subprocess.CompletedProcess, with its output as text."""
        how = {"capture_output": True, "text": True, "stdin": None if "input" in how else subprocess.DEVNULL} | how
        if how["stdin"] is None:
            del how["stdin"]
        command = self.command(words, cwd)
        try:
            return subprocess.run(command, env=self.environment(env), timeout=timeout, check=check, **how)
        except subprocess.CalledProcessError as error:
            error.add_note(error.stderr or "it said nothing")
            raise

    def cut(self):
        """Nothing that it sends arrives, and nothing reaches it. It is not told: its own end of the link stays up."""
        self.is_cut = True
        self._plug()

    def mend(self):
        """Ends what `cut` began."""
        self.is_cut = False
        self._plug()

    def netem(self, delay_ms=0.0, jitter_ms=0.0, loss=0.0):
        """From now on what it sends arrives so much later, or, with this probability for each frame, never.

        It is done by the kernel's netem where it has that; otherwise by a program between the link and the switch, which
        does the same at some 100 MB/s at most. `Nodes.means` says which.
        """
        if not (0 <= loss <= 1 and delay_ms >= 0 and jitter_ms >= 0):
            raise ValueError("loss is from 0 to 1, and delays are at least 0")
        self.link = (delay_ms, jitter_ms, loss)
        if self.is_up:
            self._shape()

    def kill(self):
        """The node dies, as if its power failed: nobody is told, and what was in its memory is gone."""
        if self._holder is None:
            return
        # Else the kernel would say goodbye on the connections of the processes that it ends.
        holder, self._holder = self._holder, None
        self._plug()
        self._end_relay()
        holder.end()

    def boot(self):
        """Starts it, with empty memory, and its address and link as they were."""
        if self._holder is not None:
            raise NodesError(f"{self.name} is up")
        switch = self._nodes._switch
        begin = [] if is_privileged() else ["nsenter", "--target", str(switch.pid), *user_words(), "--"]
        kinds = ["--net", "--mount", "--uts", "--ipc"]
        self._holder = Holder(begin, kinds, self.name, "memory", str(self._shm_bytes))
        port = f"port{self.number}"
        # That of a node that died is there until the kernel has buried its namespace.
        self._nodes._remove_link(port)
        # The same hardware address each time, for the others' tables.
        hardware = f"address 02:00:00:4d:00:{self.number:02x}"
        self._nodes._ip(
            f"link add {port} type veth peer name eth0 {hardware} netns {self.pid}",
            f"link set {port} addrgenmode none up",
        )
        self._ip(f"addr add {self.address}/24 dev eth0", "link set eth0 up")
        self._plug()
        if any(self.link):
            self._shape()

    def _ip(self, *lines):
        execute(["nsenter", "--target", str(self.pid), *user_words(), "--net", "ip", "-batch", "-"], "\n".join(lines))

    def _plug(self):
        """Puts the switch's end of the link where it belongs."""
        end = f"bus{self.number}" if self._relay else f"port{self.number}"
        is_apart = self.is_cut or not self.is_up
        self._nodes._ip(f"link set {end} {'nomaster' if is_apart else f'master bridge{self.bridge}'}")

    def _shape(self):
        delay_ms, jitter_ms, loss = self.link
        if self._nodes.means == "netem":
            tc = ["nsenter", "--target", str(self.pid), *user_words(), "--net", "tc", "qdisc"]
            if any(self.link):
                what = ["delay", f"{delay_ms}ms", f"{jitter_ms}ms", "loss", f"{loss * 100}%", "limit", "10000"]
                execute([*tc, "replace", "dev", "eth0", "root", "netem", *what])
            elif "netem" in execute([*tc, "show", "dev", "eth0"]):
                execute([*tc, "del", "dev", "eth0", "root"])
            return
        self._end_relay()
        if any(self.link):
            self._begin_relay()
        else:
            self._inside("whole", "eth0")
        self._plug()

    def _inside(self, *words):
        inside = [sys.executable, "-I", "-S", str(INSIDE), *words]
        execute(["nsenter", "--target", str(self.pid), *user_words(), "--net", *inside])

    def _begin_relay(self):
        port, slow, bus = f"port{self.number}", f"slow{self.number}", f"bus{self.number}"
        self._nodes._ip(
            f"link set {port} nomaster",
            f"link add {slow} type veth peer name {bus}",
            f"link set {slow} addrgenmode none up",
            f"link set {bus} addrgenmode none up",
        )
        inside = [sys.executable, "-I", "-S", str(INSIDE)]
        self._inside("segment", "eth0")
        switch = ["nsenter", "--target", str(self._nodes._switch.pid), *user_words(), "--net"]
        execute([*switch, *inside, "segment", bus])
        words = [*switch, "--pid", "setpriv", "--pdeathsig", "KILL", *inside, "relay", port, slow]
        self._relay = Process(
            [*words, *map(str, self.link)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": PATHS},
            start_new_session=True,
        )
        if self._relay.stdout.readline() != "ready\n":
            raise NodesError(f"the relay of {self.name} does not start")

    def _end_relay(self):
        if self._relay is None:
            return
        self._relay.kill()
        self._relay.wait()
        self._relay.stdout.close()
        self._relay = None
        self._nodes._remove_link(f"bus{self.number}")


class Nodes:
    """So many nodes, which begin and end with a `with` block.

    `delay_ms` and `loss` are those of each node's link (Node.netem); `shm_bytes` is the size of each node's `/dev/shm`, of
    which what is not used takes no memory.
    """

    def __init__(self, count, delay_ms=0.0, loss=0.0, shm_bytes=1 << 30):
        if not 1 <= count <= COUNT_MAX:
            raise ValueError(f"from 1 to {COUNT_MAX} nodes, not {count}")
        #: A folder for files that all nodes see and nobody else does. It goes with the nodes.
        self.folder = None
        self._switch = None
        self._bridges = 0
        self._nodes = [Node(self, index, shm_bytes) for index in range(count)]
        for node in self._nodes:
            node.netem(delay_ms, 0.0, loss)

    def __enter__(self):
        kinds = (
            ["--net", "--mount", "--uts"]
            if is_privileged()
            else ["--user", "--map-root-user", "--net", "--mount", "--uts"]
        )
        self.folder = Path(tempfile.mkdtemp(prefix="stillframe-nodes-"))
        try:
            self._switch = Holder([], kinds, "switch", "folder", str(self.folder))
            self._bridge_of(0)
            for node in self._nodes:
                node.boot()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def __getitem__(self, index):
        return self._nodes[index]

    def __len__(self):
        return len(self._nodes)

    @functools.cached_property
    def means(self):
        """What delays and loses frames: `netem` of the kernel, or a `relay`, which is a program."""
        probe = ["nsenter", "--target", str(self._switch.pid), *user_words(), "--net", "tc", "qdisc"]
        try:
            execute([*probe, "add", "dev", "lo", "root", "netem", "delay", "1ms"])
            execute([*probe, "del", "dev", "lo", "root"])
            return "netem"
        except NodesError:
            return "relay"

    def partition(self, *groups):
        """Only nodes of one group reach each other, `nodes.partition({0, 1}, {2})`. Nodes of no group are alone."""
        named = [index for group in groups for index in group]
        if len(named) != len(set(named)) or not set(named) <= set(range(len(self))):
            raise ValueError(f"each node, 0 to {len(self) - 1}, belongs to at most one group")
        rest = [{index} for index in range(len(self)) if index not in named]
        for number, group in enumerate([*groups, *rest]):
            self._bridge_of(number)
            for index in group:
                self[index].bridge = number
                self[index]._plug()

    def mend(self):
        """Ends `partition`, and every `cut`."""
        for node in self:
            node.bridge = 0
            node.is_cut = False
            node._plug()

    def _bridge_of(self, number):
        while self._bridges <= number:
            # Links are told where to go at once, and nothing of what one bridge carries is looked at by the other.
            self._ip(
                f"link add bridge{self._bridges} type bridge", f"link set bridge{self._bridges} addrgenmode none up"
            )
            self._bridges += 1

    def _ip(self, *lines):
        """Tells the switch what to do, for links that are there."""
        words = ["nsenter", "--target", str(self._switch.pid), *user_words(), "--net", "ip", "-batch", "-"]
        execute(words, "\n".join(lines))

    def _remove_link(self, name):
        try:
            self._ip(f"link del {name}")
        except NodesError as error:
            if not re.search("Cannot find device", str(error)):
                raise

    def _end(self):
        for node in self._nodes:
            relay, node._relay = node._relay, None
            if relay:
                relay.kill()
                relay.wait()
                relay.stdout.close()
            holder, node._holder = node._holder, None
            if holder:
                holder.end()
        switch, self._switch = self._switch, None
        if switch:
            switch.end()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    from nodes_command import main

    sys.exit(main())
