"""Fragments that were read of an object, kept for the next read of the same elements."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._native import ReadFragment

#: The process, and the text of the fragment.
Key = tuple[int, str]

#: Fragments that are kept, and bytes that they may have together. One whose elements come from other nodes takes memory of this
#: node's runtime, which all of its programs share.
_FRAGMENTS_MAX = 16
_FRAGMENT_BYTES_MAX = 16 << 20


class FragmentCache:
    """Fragments of one handle's object that nobody reads just now, and the reads of its threads.

    No thread waits for memory that is only kept here. A read for which the runtime has none empties the cache, and until it has what
    it needs nothing is kept: so what other threads let go of is given back. There is no lock. Who ends a read keeps the fragment
    first and then looks whether a read is short; who is short says so first and then empties the cache: one of them sees the other.
    """

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[ReadFragment, int]] = {}
        #: Another object each time that a fragment was given back.
        self.given = object()
        #: Those under way, in this process or in the one that forked it.
        self._reads: dict[Read, None] = {}
        #: The process of each thread that is giving fragments back.
        self._givers: dict[object, int] = {}

    def take(self, key: Key, nbytes: int) -> ReadFragment | None:
        """A kept fragment, for one read; if there is none, so many bytes are given back of others before one is attached."""
        # Taken out of the list, no other thread has to wait for it.
        fragment, _ = self._kept.pop(key, (None, 0))
        if fragment is None:
            # First, so that what is kept takes no room from what is read.
            self._trim(_FRAGMENTS_MAX - 1, _FRAGMENT_BYTES_MAX - nbytes)
        return fragment

    def keep(self, key: Key, fragment: ReadFragment, nbytes: int) -> None:
        """Keeps a fragment that was read, unless another thread has kept one of the same elements, or memory is short."""
        if self._kept.setdefault(key, (fragment, nbytes))[0] is not fragment:
            self.give_back(fragment)
        if any(read.is_short for read in self._reads_now()):
            self._trim(0, 0)
        else:
            self._trim(_FRAGMENTS_MAX, max(_FRAGMENT_BYTES_MAX, nbytes))

    def begin(self) -> Read:
        """A read of this thread, which ends with its block."""
        read = Read(self)
        self._reads[read] = None
        return read

    def end(self, read: Read) -> None:
        """A read is over."""
        self._reads.pop(read, None)

    def give_back(self, fragment: ReadFragment) -> None:
        """Detaches a fragment. Then the runtime has its memory back."""
        with self._giving():
            fragment.detach()

    def empty(self) -> None:
        """Gives back all that is kept."""
        self._trim(0, 0)

    def is_at_work(self) -> bool:
        """Whether memory is about to be given back: some read has what it needs, or some thread gives back what was kept."""
        here = os.getpid()
        return here in list(self._givers.values()) or any(not read.is_short for read in self._reads_now())

    @contextmanager
    def _giving(self) -> Iterator[None]:
        """Fragments are given back, from before they are taken out of what is kept: a read that finds nothing there waits for them."""
        giver = object()
        try:
            self._givers[giver] = os.getpid()
            yield
        finally:
            # In this order: a read that is refused looks at both in the other one.
            self.given = object()
            self._givers.pop(giver, None)

    def _reads_now(self) -> list[Read]:
        # Listed at once: other threads add and remove meanwhile. A fork has none of its parent's threads.
        return [read for read in list(self._reads) if read.process == os.getpid()]

    def _trim(self, count: int, nbytes: int) -> None:
        """Gives back kept fragments, those first that were read first, until there are at most so many with so many bytes."""
        kept = list(self._kept.items())
        while kept and (len(kept) > count or sum(size for _, (_, size) in kept) > nbytes):
            with self._giving():
                fragment, _ = self._kept.pop(kept.pop(0)[0], (None, 0))
                if fragment is not None:
                    fragment.detach()


class Read:
    """A read of one thread. Called with whether the runtime is short of memory for it, and whether it had some until then, as the
    native side does; it says whether asking again may help.

    A read is short from when it was refused until it asks again, so that whoever has memory of the runtime is never short: others
    may be refused because of a read before it knows that it has what it asked for.
    """

    def __init__(self, cache: FragmentCache) -> None:
        self._cache = cache
        self._given = cache.given
        self.process = os.getpid()
        self.is_short = False

    def __enter__(self) -> Read:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.end(self)

    def __call__(self, is_short: bool, had_memory: bool) -> bool:
        if had_memory:
            # Before it is short: others that were refused because of it see one of both.
            self._cache.given = object()
        self.is_short = is_short
        if not is_short:
            return False
        self._cache.empty()
        # In this order: who is at work gives back before it is done.
        is_at_work, before = self._cache.is_at_work(), self._given
        self._given = self._cache.given
        return is_at_work or self._given is not before
