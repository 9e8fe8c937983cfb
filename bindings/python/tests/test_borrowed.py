"""Memory that one region manages, or an object's fragment, and that another region of the same process publishes, too: in every way
that a program may do so, each version shows what was there."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stillframe as sf

# Large enough for windows that stay cold, of which the owner lays memory out anew.
ELEMENTS = 4 * 51200
STEPS = 120

Publish = Callable[[int], Any]
Lender = tuple[Any, Any, Publish]


def of_region(**options: Any) -> Lender:
    owner = sf.create("owner", **options)
    return owner, owner.array("m", ELEMENTS), owner.publish


def in_background() -> Lender:
    owner, array, _ = of_region()

    def publish(version: int) -> None:
        owner.publish_start(version)
        owner.publish_finish()

    return owner, array, publish


def in_arena() -> Lender:
    return of_region(arena=sf.Arena.create("arena", bytes=1 << 28))


def of_object() -> Lender:
    writer = sf.create_object("object", f"var m [{ELEMENTS}] float64").write("{ var m = m }")
    return writer, writer.arrays["m"], writer.publish


class Copy:
    """A region of another copy of the library, as a program has one that is linked against it."""

    def __init__(self, array: Any) -> None:
        self.library = ctypes.CDLL(str(Path(os.environ["STILLFRAME_BUILT"]) / "libstillframe.so"))
        self.library.stillframe_begin.restype = ctypes.c_void_p
        self.library.stillframe_error_text.restype = ctypes.c_char_p
        self.region = ctypes.c_void_p(self.library.stillframe_begin(b"borrower", 0, 0))
        assert self.region, self.library.stillframe_error_text()
        shape = (ctypes.c_size_t * 1)(len(array))
        address = ctypes.c_void_p(array.ctypes.data)
        self._check(self.library.stillframe_track(self.region, b"m", b"float64", ctypes.c_size_t(1), shape, address))

    def _check(self, code: int) -> None:
        assert code == 0, self.library.stillframe_error_text()

    def publish(self, version: int) -> None:
        self._check(self.library.stillframe_publish(self.region, ctypes.c_uint64(version), None))


def given_once(array: Any) -> tuple[Publish, Callable[[], Any]]:
    region = sf.create("borrower")
    region.track("m", dtype="f8")
    return lambda version: region.publish(version, {"m": array}), lambda: array


def followed(shown: Callable[[Any], Any] = lambda array: array, **options: Any) -> Callable[[Any], Any]:
    def begin(array: Any) -> tuple[Publish, Callable[[], Any]]:
        region = sf.create("borrower")
        region.track("m", shown(array), **options)
        dtype = options.get("dtype", "f8")
        return region.publish, lambda: shown(array).astype(dtype)

    return begin


def started(**options: Any) -> Callable[[Any], Any]:
    def begin(array: Any) -> tuple[Publish, Callable[[], Any]]:
        region = sf.create("borrower")
        region.track("m", array)

        def publish(version: int) -> None:
            region.publish_start(version, **options)
            region.publish_finish()

        return publish, lambda: array

    return begin


def by_another_copy(array: Any) -> tuple[Publish, Callable[[], Any]]:
    return Copy(array).publish, lambda: array


LENDERS: dict[str, Callable[[], Lender]] = {
    "region": of_region,
    "background": in_background,
    "arena": in_arena,
    "object": of_object,
}
BORROWERS: dict[str, Callable[[Any], Any]] = {
    "followed": followed(),
    "once": given_once,
    "section": followed(lambda array: array[::4]),
    "part": followed(lambda array: array[100:-100]),
    "rounded": followed(dtype="f4"),
    "background": started(),
    "guard": started(guard=True),
    "copy": by_another_copy,
}
# Each lender once, and each borrower once.
PAIRS = [(lender, "followed") for lender in LENDERS] + [("region", borrower) for borrower in BORROWERS if borrower != "followed"]


@pytest.mark.parametrize(("lender", "borrower"), PAIRS)
def test_each_version_shows_what_was_there(lender: str, borrower: str) -> None:
    owner, array, publish_own = LENDERS[lender]()
    publish, expected = BORROWERS[borrower](array)
    for version in range(1, STEPS):
        array[version * 7 % 100 * 512] = version
        if version % 2 == 0:
            publish_own(version)
        publish(version)
        with sf.open("borrower") as observer, observer.newest() as snapshot:
            assert np.array_equal(snapshot["m"], expected()), f"version {version}"
    del owner
