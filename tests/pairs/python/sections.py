"""Sections of arrays, and numbers rounded to fewer bits. See ../run.py for which."""

import numpy as np

w = np.zeros((12, 9), order="F")
z = np.zeros(10, "c16")


def track(region):
    region.track("interior", w[1:11, ::2])
    region.track("backwards", w[11::-3, ::-1], order="F")
    region.track("single", w, dtype="float32")
    region.track("half", w[1:11, ::2], dtype="float16")
    region.track("brain", w, dtype="bfloat16")
    region.track("pairs", z[1::2], dtype="complex64", order="F")
    region.track("once", dtype="float64", order="F")


def fill(step):
    numbers = (37 * np.arange(w.size) % 1000 - 499.5) / 7 + step
    w[:] = numbers.reshape(w.shape, order="F")
    z.view("f8")[:] = numbers[: 2 * z.size]


def once():
    """What each version is given."""
    return {"once": w[2:10:2, :]}
