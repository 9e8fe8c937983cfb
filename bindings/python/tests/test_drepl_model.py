"""Random objects, views and sources, against numpy's assignment of the same slices."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from stillframe import drepl

NUMBERS = [f"{sign}{bits}" for sign in ("int", "uint") for bits in (8, 16, 32, 64)]
NUMBERS += ["float16", "float32", "float64", "complex64", "complex128", "bool", "string5"]
Random = np.random.Generator
#: Cases in each test: tests are few because each is set up and torn down.
CASES = 15


class Index(NamedTuple):
    """`start + step * x` for x below `count`, as both languages write it."""

    start: int
    step: int
    count: int

    def text(self, name: str) -> str:
        return f"{self.step}*{name}+{self.start}"

    @property
    def slice(self) -> slice:
        stop = self.start + self.step * self.count
        return slice(self.start, None if stop < 0 else stop, self.step)


def an_index(random: Random, extent: int) -> Index:
    step = int(random.choice([1, 1, 1, 2, 3, -1, -2]))
    if step < 0:
        start = int(random.integers(0, extent))
        most = start // -step + 1
    else:
        start = int(random.integers(0, extent))
        most = (extent - 1 - start) // step + 1
    return Index(start, step, int(random.integers(1, most + 1)))


def attributes(random: Random) -> str:
    pairs = (("rowmajor", "columnmajor"), ("packed", "aligned"), ("littleendian", "bigendian"))
    return " ".join(str(random.choice(pair)) for pair in pairs)


def content(random: Random, kind: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values that survive being assigned: no payloads of numbers that are none."""
    if kind == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if kind == "string5":
        return random.integers(97, 123, (*shape, 5), "u1").view("S5").reshape(shape)
    if kind.startswith("complex"):
        return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(kind)
    if kind.startswith("float"):
        return random.standard_normal(shape).astype(kind)
    limits = np.iinfo(kind)
    return random.integers(limits.min, limits.max, shape, kind, endpoint=True)


class Object:
    """An object of random extents, with random fields of which some are arrays, and its elements."""

    def __init__(self, random: Random) -> None:
        self.shape = tuple(int(extent) for extent in random.integers(1, 9, random.integers(1, 4)))
        self.fields: dict[str, tuple[str, tuple[int, ...]]] = {}
        for number in range(random.integers(1, 6)):
            inner = tuple(int(extent) for extent in random.integers(1, 4, random.choice([0, 0, 1, 2])))
            self.fields[f"f{number}"] = (str(random.choice(NUMBERS)), inner)
        declared = "; ".join(f"{name} {self.brackets(inner)}{kind}" for name, (kind, inner) in self.fields.items())
        self.text = f"var mesh {self.brackets(self.shape)}struct {{ {declared} }}\n"
        self.values = {name: content(random, kind, self.shape + inner) for name, (kind, inner) in self.fields.items()}

    @staticmethod
    def brackets(extents: tuple[int, ...]) -> str:
        return f"[{','.join(map(str, extents))}]" if extents else ""


def filled(fragment: drepl.Fragment, arrays: dict[str, NDArray[Any]]) -> bytearray:
    """A buffer of the fragment with these fields, as numpy assigns them; every other byte is 0xAB."""
    buffer = bytearray(b"\xab" * fragment.size_bytes)
    fields = fragment.fields(buffer)
    assert sorted(fields) == sorted(arrays)
    for name, values in arrays.items():
        assert fields[name].shape == values.shape
        fields[name][...] = values
    return buffer


@pytest.mark.parametrize("seed", range(4))
def test_any_slice_in_any_layout_is_what_numpy_assigns(seed: int) -> None:
    for case in range(CASES):
        check_slices(np.random.default_rng([1, seed, case]))


def check_slices(random: Random) -> None:
    mesh = Object(random)
    schema = drepl.parse(mesh.text)
    whole = schema.fragment(f"view {attributes(random)} {{ var m = mesh }}")
    source = filled(whole, {f"m.{name}": values for name, values in mesh.values.items()})
    names = "ijk"[: len(mesh.shape)]
    for _ in range(4):
        indices = [an_index(random, extent) for extent in mesh.shape]
        turned = [int(axis) for axis in random.permutation(len(names))]
        left = ",".join(f"{names[axis]}:{indices[axis].count}" for axis in turned)
        right = ",".join(index.text(name) for index, name in zip(indices, names, strict=True))
        taken = list(random.permutation(list(mesh.fields))[: random.integers(1, len(mesh.fields) + 1)])
        text = f"view {attributes(random)} {{ var v [{left}]{{ {'; '.join(taken)} }} = mesh[{right}] }}"
        wanted = schema.fragment(text)
        slices = tuple(index.slice for index in indices)

        def view(name: str, slices: tuple[slice, ...] = slices, turned: list[int] = turned) -> NDArray[Any]:
            cut = mesh.values[name][slices]
            return cut.transpose(*turned, *range(len(turned), cut.ndim))

        expected = filled(wanted, {f"v.{name}": view(name) for name in taken})
        got = bytearray(b"\xab" * wanted.size_bytes)
        drepl.convert(whole, source, wanted, got, threads=int(random.integers(1, 3)))
        assert got == expected, text


@pytest.mark.parametrize("seed", range(2))
def test_components_of_vectors_become_axes_as_in_numpy(seed: int) -> None:
    for case in range(CASES):
        check_components(np.random.default_rng([2, seed, case]))


def check_components(random: Random) -> None:
    mesh = Object(random)
    schema = drepl.parse(mesh.text)
    whole = schema.fragment(f"view {attributes(random)} {{ var m = mesh }}")
    source = filled(whole, {f"m.{name}": values for name, values in mesh.values.items()})
    for name, (_, inner) in mesh.fields.items():
        extents = mesh.shape + inner
        letters = "abcdefg"[: len(extents)]
        turned = [int(axis) for axis in random.permutation(len(extents))]
        cut = int(random.integers(0, len(turned) + 1))
        groups = [[letters[axis] for axis in group] for group in (turned[:cut], turned[cut:]) if group]
        left = "".join(f"[{','.join(group)}]" for group in groups)
        outer, nested = letters[: len(mesh.shape)], letters[len(mesh.shape) :]
        right = f"mesh[{','.join(outer)}].{name}" + (f"[{','.join(nested)}]" if nested else "")
        wanted = schema.fragment(f"view {attributes(random)} {{ var v {left} = {right} }}")
        expected = filled(wanted, {"v": mesh.values[name].transpose(turned)})
        got = bytearray(b"\xab" * wanted.size_bytes)
        drepl.convert(whole, source, wanted, got)
        assert got == expected
        # The field goes back into records whose other fields stay as they are.
        back = bytearray(b"\xab" * whole.size_bytes)
        drepl.convert(wanted, got, whole, back, partial=True)
        rest = bytearray(b"\xab" * whole.size_bytes)
        whole.fields(rest)[f"m.{name}"][...] = mesh.values[name]
        assert back == rest


@pytest.mark.parametrize("seed", range(2))
def test_each_element_comes_from_the_newest_of_many_sources(seed: int) -> None:
    for case in range(CASES):
        check_sources(np.random.default_rng([3, seed, case]))


def check_sources(random: Random) -> None:
    shape = tuple(int(extent) for extent in random.integers(4, 13, random.integers(1, 4)))
    names = "ijk"[: len(shape)]
    schema = drepl.parse(f"var grid {Object.brackets(shape)}int32")
    newest = np.full(shape, -1)
    value = np.full(shape, -1, "i4")
    given = np.full(shape, -1)
    sources, buffers = [], []
    for number, version in enumerate(random.permutation(int(random.integers(1, 12)))):
        indices = [an_index(random, extent) for extent in shape]
        left = ",".join(f"{name}:{index.count}" for name, index in zip(names, indices, strict=True))
        right = ",".join(index.text(name) for name, index in zip(names, indices, strict=True))
        fragment = schema.fragment(f"view {attributes(random)} {{ var b [{left}] = grid[{right}] }}")
        own = random.integers(0, 1 << 30, [index.count for index in indices], "i4")
        slices = tuple(index.slice for index in indices)
        newer = newest[slices] < version
        for array, values in ((newest, version), (value, own), (given, number)):
            array[slices] = np.where(newer, values, array[slices])
        sources.append(drepl.Source(fragment, version=int(version)))
        buffers.append(filled(fragment, {"b": own}))
    wanted = schema.fragment("{ var grid = grid }")
    plan = drepl.plan(wanted, sources)
    assert drepl.Index(sources).plan(wanted) == plan
    got = np.full(shape, -1, "i4")
    plan.execute(buffers, got)
    assert (got == value).all()
    seen = np.full(shape, -2)
    for piece in plan.pieces:
        assert (seen[piece.slices] == -2).all() and piece.name == "grid"
        seen[piece.slices] = piece.source
    for box in itertools.chain.from_iterable(missing.slices for missing in plan.missing):
        assert (seen[box] == -2).all()
        seen[box] = -1
    assert (seen == given).all()
    sent = np.full(shape, -1, "i4")
    for share in plan.split():
        share.unpack(share.pack(buffers[share.source]), sent)
    assert (sent == value).all()
