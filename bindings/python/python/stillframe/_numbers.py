"""Whole numbers that a program gives, checked before they reach the native module."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from ._errors import DreplError, MisuseError


#: The greatest number that versions are asked for by.
VERSION_MAX = (1 << 64) - 1


def whole(what: str, value: Any, least: int, most: int, error: type[MisuseError] = MisuseError) -> int:
    """An integer of that range, also one of numpy's."""
    try:
        number = operator.index(value)
    except TypeError:
        raise error(f"{what}: {value!r} is no integer") from None
    if not least <= number <= most:
        sign = ": it is negative" if least == 0 and number < 0 else ""
        raise error(f"{what}: {number} is not between {least} and {most}{sign}")
    return number


def numbers(bits: int = 64, **given: Any) -> dict[str, Any]:
    """Arguments that the native module takes as unsigned integers of so many bits; those that are None stay so."""
    most = (1 << bits) - 1
    return {name: None if value is None else whole(name, value, 0, most) for name, value in given.items()}


def version_of(value: Any) -> int:
    """The number of a version."""
    return whole("version", value, 0, VERSION_MAX)


def after_of(value: Any) -> int | None:
    """The version after which others are looked for, if it is one."""
    return None if value is None else whole("after", value, 0, VERSION_MAX)


def numbers_of(given: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, int]:
    """The numbers of names that a text leaves open."""
    both = (given or {}).keys() & more.keys()
    if both:
        raise MisuseError(f"{', '.join(sorted(both))}: given twice, as a keyword and in bindings")
    named = {**(given or {}), **more}
    least, most = -(1 << 63), (1 << 63) - 1
    return {name: whole(f"binding {name}", value, least, most, DreplError) for name, value in named.items()}
