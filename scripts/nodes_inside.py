"""What runs inside the namespaces of nodes.py: it keeps them, or stands between two links of them.

nodes_inside.py hold PIDFD HOSTNAME memory BYTES  keeps a node's namespaces until the process of PIDFD ends
nodes_inside.py hold PIDFD HOSTNAME folder PATH   keeps the switch's, and removes a folder if that process did not
nodes_inside.py relay DEVICE DEVICE DELAY_MS JITTER_MS LOSS
                                                  carries frames between two devices, and delays and loses those of the first
nodes_inside.py segment DEVICE                    has the kernel cut and sum up frames before they go into a device
nodes_inside.py whole DEVICE                      ends that
"""

import collections
import ctypes
import fcntl
import os
import random
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

#: Frames that a relay delays at once; what comes beyond is lost, as in a router.
QUEUE_FRAMES_MAX = 10_000
FRAME_BYTES_MAX = 1 << 17
SOCKET_BYTES = 16 << 20

# Of <linux/if_packet.h>, <linux/if_ether.h>, <linux/sockios.h>, <linux/ethtool.h> and <sys/socket.h>.
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
ETH_P_ALL = 3
SIOCETHTOOL = 0x8946
#: Transmit checksums, scatter and gather, segmentation by the device, segmentation late.
OFFLOADS = (0x17, 0x19, 0x1F, 0x24)
SO_RCVBUFFORCE = 33


def hold(maker, hostname, duty, what):
    """Process 1 of a node: when it ends all processes of the node do, and when the maker ends so does it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    socket.sethostname(hostname)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    if duty == "memory":
        for path, options in (("/dev/shm", f"mode=1777,size={int(what)}"), ("/run", "mode=755,size=16m")):
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "node", path], check=True)
    # The kernel buries orphans whose new parent ignores them.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    os.close(1)
    waiting = select.poll()
    waiting.register(maker, select.POLLIN)
    while not waiting.poll():
        pass
    if duty == "folder":
        # Whoever writes there ends at the same time, and what was open is not found while it is removed.
        for _ in range(20):
            shutil.rmtree(what, ignore_errors=True)
            time.sleep(0.05)


def set_offloads(device, is_on):
    """Without them frames that a program reads from a device are such as a wire would carry."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for offload in OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("=II", offload, is_on))
            request = struct.pack("16sP16x", device.encode(), ctypes.addressof(value))
            fcntl.ioctl(any_socket, SIOCETHTOOL, request)


def opened(device):
    """All frames that come out of a device, and a way into it."""
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    frames.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    try:
        frames.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
    except PermissionError:
        frames.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    frames.bind((device, ETH_P_ALL))
    frames.setblocking(False)
    return frames


def received(frames):
    """The frames that are there."""
    while True:
        try:
            yield frames.recv(FRAME_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            # The device is down: what it would have brought is lost.
            return


def send(frames, frame):
    try:
        frames.send(frame)
    except OSError:
        # Down, or its queue is full: the frame is lost, as on a wire.
        pass


def relay(first, second, delay_ms, jitter_ms, loss):
    """Frames of the first device come out of the second later or never; the other way they go at once."""
    near, far = opened(first), opened(second)
    waiting = select.poll()
    for frames in (near, far):
        waiting.register(frames, select.POLLIN)
    dice = random.Random(first)
    queue, newest = collections.deque(), 0.0
    print("ready", flush=True)
    while True:
        # Poll counts whole milliseconds, and rounds up.
        ahead = None if not queue else max(0.0, (queue[0][0] - time.monotonic()) * 1000)
        if ahead is None or ahead >= 1:
            waiting.poll(ahead if ahead is None else int(ahead))
        for frame in received(near):
            if dice.random() < loss or len(queue) >= QUEUE_FRAMES_MAX:
                continue
            due = time.monotonic() + max(0.0, delay_ms + dice.uniform(-jitter_ms, jitter_ms)) / 1000
            # What was sent first arrives first.
            newest = max(newest, due)
            queue.append((newest, frame))
        for frame in received(far):
            send(near, frame)
        while queue and queue[0][0] <= time.monotonic():
            send(far, queue.popleft()[1])


def main():
    what, *words = sys.argv[1:]
    if what == "hold":
        hold(int(words[0]), *words[1:])
    elif what in ("segment", "whole"):
        set_offloads(words[0], what == "whole")
    elif what == "relay":
        relay(*words[:2], *map(float, words[2:]))
    else:
        sys.exit(f"nodes_inside.py: what is {what!r}?")


if __name__ == "__main__":
    main()
