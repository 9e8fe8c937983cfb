"""Whole numbers that a program gives, checked before they reach the native module."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ._errors import DreplError, MisuseError


def whole(what: str, value: Any, least: int, most: int, error: type[MisuseError] = MisuseError) -> int:
    """An integer of that range, also one of numpy's."""
    try:
        number = operator.index(value)
    except TypeError:
        raise error(f"{what}: {value!r} is no integer") from None
    if not least <= number <= most:
        raise error(f"{what}: {number} is not between {least} and {most}")
    return number


def version_of(value: Any) -> int:
    """The number of a version."""
    return whole("version", value, 0, (1 << 64) - 1)


def numbers_of(given: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of names that a text leaves open."""
    both = (given or {}).keys() & more.keys()
    if both:
        raise MisuseError(f"{', '.join(sorted(both))}: given twice, as a keyword and in bindings")
    named = {**(given or {}), **more}
    least, most = -(1 << 63), (1 << 63) - 1
    return {name: whole(f"binding {name}", value, least, most, DreplError) for name, value in named.items()}
