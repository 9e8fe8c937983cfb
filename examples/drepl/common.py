"""What all examples do: run `still drepl`, and compare with what numpy makes of the same arrays.

Files lie in the directory that the first argument names, or in a new one.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

HERE = Path(__file__).resolve().parent
os.chdir(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="drepl-"))
print(f"in {os.getcwd()}")


def still(command, text, *arguments):
    """Runs `still drepl COMMAND`, and shows it."""
    print(shlex.join(["still", "drepl", command, text, *arguments]), flush=True)
    subprocess.run([os.environ.get("STILL", "still"), "drepl", command, HERE / text, *arguments], check=True)


def compare(what, found, expected):
    """Ends the example where two arrays are not equal."""
    if found.shape != expected.shape or not (found == expected).all():
        sys.exit(f"{what}: is not what numpy says")
    print(f"{what}: as numpy says")
