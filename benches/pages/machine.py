"""What of the machine the figures depend on."""

import os
import platform
from pathlib import Path

from modes import THP

BALLOONS = Path("/sys/bus/virtio/drivers/virtio_balloon")
#: The feature of a virtio balloon by which free memory is reported to the host, which takes it back.
REPORTING = 5


def reports_free_memory():
    """Whether this is a virtual machine whose host takes free memory back: then each first touch may cost a fault there, too."""
    for features in BALLOONS.glob("virtio*/features"):
        # A character for each feature, the first one first.
        if features.read_text()[REPORTING : REPORTING + 1] == "1":
            return True
    return False


def memory_mib():
    words = Path("/proc/meminfo").read_text().split()
    return int(words[words.index("MemTotal:") + 1]) // 1024


def describe():
    """A line of JSON."""
    return {
        "bench": "pages-machine",
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "processors": os.cpu_count(),
        "memory_mib": memory_mib(),
        "defrag": THP.with_name("defrag").read_text().split("[")[1].split("]")[0],
        "reports_free_memory": reports_free_memory(),
    }
