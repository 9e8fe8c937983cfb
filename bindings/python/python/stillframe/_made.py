"""Classes whose objects the package makes. Whoever calls one of them is told what to call."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, NoReturn, TypeVar

from ._errors import MisuseError

T = TypeVar("T")


class Made(ABCMeta):
    """The class of such classes; ``by`` says what makes their objects."""

    _by: str

    def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, by: str) -> Made:
        made = super().__new__(mcs, name, bases, namespace)
        made._by = by
        return made

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, by: str) -> None:
        super().__init__(name, bases, namespace)

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise MisuseError(f"no {cls.__name__} is made by calling its class: {cls._by}")

    def _of(cls: type[T], *args: Any) -> T:
        """What calling an ordinary class does."""
        made: T = type.__call__(cls, *args)
        return made
