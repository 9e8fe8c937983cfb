#!/usr/bin/env python3
"""Runs what README.md, docs/start.md and others tell their readers to run. What docs/install.md shows, tests/install runs, and what
docs/slurm.md shows, tests/slurm.

Fenced blocks say what they are behind their language:

    ```sh run               run, in one shell for the whole document, in order
    ```sh run background    started and left running; the next block waits for a region to appear
    ```sh run may-fail      whatever its status is
    ```sh run interrupt     before it, what runs in the background gets what Ctrl-C sends
    ```sh run python        only where the Python package can be imported
    ```rust file=PATH       written to PATH, for later blocks to build
    ```LANGUAGE file=PATH   the same for other languages, and for what patches such a file
    ```python file=PATH     the same; those of README.md, which nothing runs, are run beside each other
    ```rust                 compiled and run as a program of its own

`sh` blocks without `run` are not run. Lines `make TARGET`, wherever they are, are held against the Makefile.

Regions lie in a directory of the check's own, in /dev/shm; everything it starts ends with it. The Python parts need
`PYTHON`, an interpreter that can import stillframe. What cargo built is taken from the folder `STILLFRAME_BUILT`
(target/release); nothing is downloaded unless `CARGO_NET_OFFLINE=false`.

    PYTHON=.venv/bin/python tests/readme.py [--only README.md] [--verbose]
    tests/readme.py --links
"""

import argparse
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [
    "README.md",
    "docs/start.md",
    "docs/analysis.md",
    "docs/checkpoint.md",
    "docs/cxx.md",
    "docs/drepl.md",
    "docs/formats.md",
    "docs/fortran.md",
    "docs/step.md",
    "docs/install.md",
    "docs/objects.md",
    "docs/objects-python.md",
    "docs/restart.md",
    "docs/slurm.md",
    "docs/testing.md",
    "CONTRIBUTING.md",
]
#: Seconds; the first build of everything is among the blocks.
BLOCK_TIMEOUT = 600
REGION_TIMEOUT = 300


class Broken(Exception):
    """A document tells its reader something that does not work."""


class Block(NamedTuple):
    """A fenced block."""

    document: str
    line: int
    language: str
    words: list
    text: str

    @property
    def file(self):
        return next((word[5:] for word in self.words if word.startswith("file=")), None)

    def fail(self, why):
        raise Broken(f"{self.document}:{self.line}: {why}")


def blocks_of(document):
    found, opened = [], None
    for number, line in enumerate((ROOT / document).read_text().splitlines(), 1):
        fence = re.fullmatch(r"```(.*)", line)
        if not fence:
            if opened:
                opened[1].append(line)
        elif opened is None:
            opened = ((number, fence[1].split()), [])
        else:
            (start, words), lines = opened
            language = words[0] if words else ""
            found.append(Block(document, start, language, words[1:], "\n".join(lines) + "\n"))
            opened = None
    if opened:
        raise Broken(f"{document}:{opened[0][0]}: the block is not closed")
    return found


def check_make(block):
    makefile = ROOT / "Makefile"
    for target in re.findall(r"^make +([\w-]+)", block.text, re.MULTILINE):
        text = makefile.read_text() if makefile.exists() else ""
        if not re.search(rf"^{re.escape(target)}\s*:(?!=)", text, re.MULTILINE):
            block.fail(f"the Makefile has no target '{target}'")


def check_links(document):
    """Links to files and headings of this repository."""
    here = ROOT / document
    text = re.sub(r"```.*?```", "", here.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (here.parent / path).resolve() if path else here
        if not file.exists():
            raise Broken(f"{document}: the link to {target} leads nowhere")
        if anchor and anchor not in anchors(file):
            raise Broken(f"{document}: {path or document} has no heading for #{anchor}")


def anchors(file):
    text = re.sub(r"```.*?```", "", file.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Shell:
    """One bash in which the blocks of a document run."""

    def __init__(self, cwd, env, verbose):
        self.verbose = verbose
        self.regions = Path(env["STILLFRAME_DIR"])
        self.background = []
        self.cwd, self.env = cwd, env
        self.process = self.start(["bash", "--noprofile", "--norc"], stdin=subprocess.PIPE)
        self.lines = queue.Queue()
        threading.Thread(target=self.read, daemon=True).start()

    def start(self, command, cwd=None, **options):
        return subprocess.Popen(
            command,
            cwd=cwd or self.cwd,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
            **options,
        )

    def read(self):
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def run(self, text):
        """Runs a text; returns its status and what it printed. The status of a pipe-less sequence is its first failure."""
        script = Path(self.env["READMECHECK"]) / "block.sh"
        script.write_text("set -e\n" + text)
        mark = f"--- end of block {time.monotonic_ns()} ---"
        # An error ends the shell, which is what `set -e` is for; the mark then never comes.
        self.process.stdin.write(f". {script}\nset +e; echo '{mark}'\n")
        self.process.stdin.flush()
        printed, deadline = [], time.monotonic() + BLOCK_TIMEOUT
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return f"no end after {BLOCK_TIMEOUT} s", "".join(printed)
            if line is None:
                return "it failed", "".join(printed)
            if line.rstrip("\n") == mark:
                return None, "".join(printed)
            printed.append(line)
            if self.verbose:
                print("   ", line, end="")

    def run_background(self, text):
        """Starts a text beside the others, where the shell is now, and waits until a region has a head."""
        status, where = self.run("pwd\n")
        if status:
            return status, where
        log = Path(self.env["READMECHECK"]) / f"background-{len(self.background)}.log"
        before = self.publishes()
        with log.open("w") as out:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-ec", text],
                cwd=where.strip(),
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.background.append(process)
        deadline = time.monotonic() + REGION_TIMEOUT
        while self.publishes() <= before:
            if process.poll() is not None and process.returncode != 0:
                return f"it ended with {process.returncode}", log.read_text()
            if time.monotonic() > deadline:
                return f"no region was published after {REGION_TIMEOUT} s", log.read_text()
            time.sleep(0.05)
        return None, log.read_text()

    def publishes(self):
        """How often anything was published, as the heads of the regions count it (docs/format.md)."""
        count = 0
        for head in self.regions.glob("**/head"):
            count += int.from_bytes(head.read_bytes()[192:200], "little")
        return count

    def interrupt(self):
        for process in self.background:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
        for process in self.background:
            process.wait(timeout=60)
        self.background = []

    def end(self):
        for process in [*self.background, self.process]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


class Check:
    """Everything that is checked of one document."""

    def __init__(self, document, work, env, verbose):
        self.document, self.work, self.env = document, work, env
        self.shell = Shell(work, env, verbose)
        self.has_python = "PYTHON" in env
        self.skipped = 0

    def run(self):
        check_links(self.document)
        lone = []
        for block in blocks_of(self.document):
            if block.language in ("sh", "console"):
                self.commands(block)
            elif block.file:
                path = self.work / block.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(block.text)
                lone += [block] if block.language == "python" else []
            elif block.language not in ("rust", "python"):
                continue
            elif block.language == "rust":
                self.rust(block)
            elif self.has_python:
                self.report(block, *self.shell.run(f"python - <<'BLOCK'\n{block.text}BLOCK\n"))
        named = (ROOT / self.document).read_text()
        lone = [block for block in lone if f"python {block.file}" not in named]
        if lone and self.has_python:
            self.together(lone)

    def commands(self, block):
        check_make(block)
        if "run" not in block.words:
            return
        if "python" in block.words and not self.has_python:
            self.skipped += 1
            return
        if "interrupt" in block.words:
            self.shell.interrupt()
        run = self.shell.run_background if "background" in block.words else self.shell.run
        text = f"(\n{block.text}) || true\n" if "may-fail" in block.words else block.text
        self.report(block, *run(text))

    def rust(self, block):
        """Compiles a block as cargo would, with what `make build` built."""
        source = self.work / f"block-{block.line}.rs"
        text = block.text
        if "fn main" not in text:
            text = f"fn main() -> Result<(), Box<dyn std::error::Error>> {{\n{text}Ok(())\n}}\n"
        source.write_text(text)
        built = self.shell.env["STILLFRAME_BUILT"]
        names = ("stillframe", "stillframe_checkpoint", "drepl")
        crates = " ".join(f"--extern {name}={built}/lib{name}.rlib" for name in names)
        compiled = source.with_suffix("")
        self.report(
            block, *self.shell.run(f"rustc --edition 2024 {crates} -L {built}/deps {source} -o {compiled}\n{compiled}\n")
        )

    def together(self, blocks):
        """Runs files that belong together beside each other, in their order."""
        processes = [self.shell.start(["python", block.file], cwd=self.work) for block in blocks]
        deadline = time.monotonic() + 120
        try:
            for block, process in zip(blocks, processes):
                printed, _ = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
                self.report(block, f"it ended with {process.returncode}" if process.returncode else None, printed)
                if block is blocks[-1] and not printed:
                    block.fail("the observer saw nothing")
        except subprocess.TimeoutExpired:
            block.fail("it does not end")
        finally:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()

    def report(self, block, status, printed):
        if status:
            print("".join(f"    {line}\n" for line in printed.splitlines()[-30:]), end="")
            block.fail(status)
        print(f"  ok  {block.document}:{block.line}")


def environment(work):
    """What the blocks see: the directory for their regions, and this repository's programs."""
    env = dict(os.environ)
    tools = work / "tools"
    tools.mkdir()
    env["READMECHECK"] = str(tools)
    env["STILLFRAME_DIR"] = str(work / "regions")
    env.setdefault("CARGO_NET_OFFLINE", "true")
    env.setdefault("CARGO_TARGET_DIR", str(ROOT / "target"))
    env["GIT_CEILING_DIRECTORIES"] = str(work)
    env.setdefault("STILLFRAME_BUILT", str(Path(env["CARGO_TARGET_DIR"]) / "release"))
    path = [str(tools), env["STILLFRAME_BUILT"], env["PATH"]]
    env["PATH"] = os.pathsep.join(path)
    python = env.pop("PYTHON", None)
    if python:
        python = os.path.abspath(shutil.which(python) or python)
        probe = subprocess.run([python, "-c", "import stillframe, numpy"], capture_output=True, text=True, timeout=60)
        if probe.returncode == 0:
            (tools / "python").write_text(f'#!/bin/sh\nexec "{python}" -u "$@"\n')
            (tools / "python").chmod(0o755)
            env["PYTHON"] = python
        else:
            print(f"  --  {python} cannot import stillframe and numpy: the Python blocks are left out")
    return env


def follow_all(documents):
    """Checks links and make targets of documents; the status of the command."""
    broken = 0
    for document in documents:
        try:
            check_links(document)
            for block in blocks_of(document):
                check_make(block)
        except Broken as why:
            print(f"  !!  {why}")
            broken += 1
    print(f"{len(documents) - broken} passed, {broken} failed")
    return 1 if broken else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", metavar="DOCUMENT", help="check this document only")
    parser.add_argument("--verbose", action="store_true", help="show what the blocks print")
    parser.add_argument("--links", action="store_true", help="run nothing: follow the links, and look for the make targets")
    args = parser.parse_args()
    if args.links:
        return follow_all(args.only or DOCUMENTS)
    shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    failures = 0
    for document in args.only or DOCUMENTS:
        print(document)
        with tempfile.TemporaryDirectory(prefix="stillframe-readme-", dir=shm) as directory:
            work = Path(directory)
            (work / "stillframe").symlink_to(ROOT)
            check = Check(document, work, environment(work), args.verbose)
            try:
                check.run()
                if check.skipped:
                    print(f"  --  {check.skipped} Python blocks left out")
            except Broken as broken:
                print(f"  !!  {broken}")
                failures += 1
            finally:
                check.shell.end()
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
