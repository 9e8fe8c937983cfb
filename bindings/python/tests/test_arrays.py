"""What crosses: types, shapes, orders, and how long memory lives."""

from __future__ import annotations

import array
import gc
import itertools
import weakref
from typing import Any

import numpy as np
import pytest

import stillframe as sf
from stillframe import _types

PLAIN = "i1 i2 i4 i8 u1 u2 u4 u8 f4 f8 c8 c16 ? S17".split()
SHAPES: list[tuple[int, ...]] = [
    (),
    (0,),
    (7,),
    (3, 4),
    (0, 5),
    (2, 3, 4),
    (2, 1, 3, 2),
    (1, 2, 1, 2, 1, 2, 1, 2),
]
CELL = np.dtype([("rho", "f8"), ("id", "i4"), ("tag", "S3")])
ALIGNED = np.dtype([("flag", "?"), ("v", "c16"), ("n", "i2")], align=True)
NESTED = np.dtype([("cell", CELL), ("wet", "?")])


def filled(shape: tuple[int, ...], dtype: Any, order: str) -> np.ndarray[Any, Any]:
    """Content that differs from element to element."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape))
    flat = np.zeros(count, dtype)
    if dtype.names:
        for name in dtype.names:
            flat[name] = filled((count,), dtype[name], "C")
    elif dtype.kind == "S":
        flat[:] = [str(number).encode() for number in range(count)]
    else:
        flat[:] = np.arange(count) % 2 if dtype.kind == "b" else np.arange(count) % 100
    return np.asarray(flat.reshape(shape), order=order)  # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [*PLAIN, CELL, ALIGNED, NESTED], ids=str)
def test_every_type_in_every_shape_and_order_comes_back_as_it_was(dtype: Any) -> None:
    with sf.create("r") as region:
        expected = {}
        managed = {}
        for number, (shape, order) in enumerate(itertools.product(SHAPES, "CF")):
            content = filled(shape, dtype, order)
            name = f"v{number}"
            managed[name] = region.array(name, shape, dtype, order=order)
            managed[name][...] = content
            region.track(f"t{number}", content, order=order)
            expected[name] = expected[f"t{number}"] = content
        region.publish(1)
        with sf.open("r") as observer, observer.newest() as snapshot:
            assert set(snapshot) == set(expected)
            for name, content in expected.items():
                found = snapshot[name]
                assert found.shape == content.shape
                assert found.dtype == content.dtype, name
                assert np.array_equal(found, content), name
                assert found.flags.c_contiguous == content.flags.c_contiguous
                assert found.flags.f_contiguous == content.flags.f_contiguous
                assert snapshot.variables[name].dtype == content.dtype
                assert snapshot.variables[name].shape == content.shape
                flat = content.ravel(order="K")
                assert np.array_equal(snapshot.read(name), flat)
                assert sum(len(chunk.data) for chunk in snapshot.chunks(name)) == content.size
                del found


def test_the_buffer_protocol_tells_what_numpy_tells() -> None:
    with sf.create("r") as region:
        for number, (dtype, order) in enumerate(itertools.product([*PLAIN, CELL, ALIGNED, NESTED], "CF")):
            region.track(f"v{number}", filled((3, 4), dtype, order), order=order)
        region.publish(1)
        snapshot = sf.open("r").newest()
        for name in snapshot:
            known = snapshot[name]
            memory = snapshot._native.memory(name)
            # numpy's own reading of the view: its format, shape and strides.
            read = np.asarray(memoryview(memory))
            assert read.dtype == known.dtype
            assert read.strides == known.strides
            assert np.array_equal(read, known)
            assert memoryview(memory).readonly


def test_pythons_own_arrays_and_memoryviews_can_be_tracked() -> None:
    numbers = array.array("d", [1.0, 2.0, 3.0])
    with sf.create("r") as region:
        region.track("a", numbers)
        region.track("m", memoryview(bytearray(b"abcd")))
        region.publish(1)
        with sf.open("r").newest() as snapshot:
            assert snapshot["a"].tolist() == [1.0, 2.0, 3.0]
            assert snapshot["m"].tolist() == list(b"abcd")


def test_snapshots_are_read_only() -> None:
    with sf.create("r") as region:
        region.array("u", (8,))[:] = 1
        region.publish(1)
        snapshot = sf.open("r").newest()
        u = snapshot["u"]
        assert not u.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            u[0] = 2
        with pytest.raises(ValueError, match="WRITEABLE"):
            u.flags.writeable = True
        with pytest.raises(TypeError):
            memoryview(snapshot._native.memory("u"))[0] = 2.0
        assert not next(snapshot.chunks("u")).data.flags.writeable


def test_a_snapshot_does_not_change_while_the_producer_goes_on() -> None:
    with sf.create("r", keep=1) as region:
        u = region.array("u", (100_000,))
        u[:] = 1
        region.publish(1)
        first = sf.open("r").newest()["u"]
        for version in range(2, 12):
            u[:] = version
            region.publish(version)
            assert (first == 1).all()
        assert (sf.open("r").newest()["u"] == 11).all()


def test_an_array_outlives_its_snapshot_its_observer_and_its_producer() -> None:
    region = sf.create("r", keep=1)
    region.array("u", (100_000,))[:] = 1
    region.publish(1)
    observer = sf.open("r")
    snapshot = observer.newest()
    u = snapshot["u"]
    part = u[50_000:]
    chunk = next(snapshot.chunks("u")).data
    snapshot.close()
    observer.close()
    del u, snapshot, observer
    gc.collect()
    region.publish(2)
    region.publish(3)
    region.unlink()
    del region
    gc.collect()
    assert (part == 1).all()
    assert (chunk == 1).all()


def test_a_hold_ends_with_the_last_array() -> None:
    with sf.create("r", keep=1) as region:
        u = region.array("u", (10_000,))
        region.publish(1)
        observer = sf.open("r")
        first = observer.newest()["u"]
        view = first[::2]
        del first
        gc.collect()
        u[:] = 2
        region.publish(2)
        region.publish(3)
        assert 1 in [info.version for info in observer.versions()]
        del view
        gc.collect()
        u[:] = 3
        region.publish(4)
        region.publish(5)
        with pytest.raises(sf.VersionGone) as gone:
            observer.version(1)
        assert gone.value.version == 1
        assert gone.value.newest == 5


def test_nothing_is_left_of_forgotten_snapshots() -> None:
    with sf.create("r") as region:
        region.array("u", (10,))
        region.publish(1)
        snapshot = sf.open("r").newest()
        gone = weakref.ref(snapshot)
        del snapshot
        assert gone() is None


def test_managed_arrays_outlive_the_region_they_belong_to() -> None:
    region = sf.create("r")
    u = region.array("u", (100_000,))
    u[:] = 1
    region.publish(1)
    region.close()
    u += 1
    assert (u == 2).all()
    del region
    gc.collect()
    u += 1
    assert (u == 3).all()


def test_a_closed_region_makes_room_for_the_next_though_arrays_are_left() -> None:
    with sf.create("r") as region:
        u = region.array("u", (1000,))
        u[:] = 7
        region.publish(1)
    with sf.create("r") as region:
        assert region.recovered == 1
        again = region.array("u", (1000,))
        assert (again == 7).all()
        u[:] = 8
        assert (again == 7).all()
        region.publish(2)


def test_a_forgotten_region_is_closed_though_arrays_are_left() -> None:
    def produce() -> np.ndarray[Any, Any]:
        region = sf.create("r")
        u = region.array("u", (1000,))
        u[:] = 7
        region.publish(1)
        return u

    u = produce()
    assert not sf.open("r").alive
    with sf.create("r") as region:
        assert region.recovered == 1
    assert (u == 7).all()


def test_a_loan_that_is_open_when_the_region_ends_is_lost() -> None:
    region = sf.create("r")
    with pytest.raises(sf.MisuseError, match="over"), region.loan("w", (10_000,)) as w:
        w[...] = 1
        with pytest.raises(sf.MisuseError, match="refer to its memory"):
            region.remove("w")
        region.close()
        with sf.create("r") as other:
            with other.loan("w", (10_000,)) as v:
                v[...] = 2
            w[...] = 3
            other.publish(1)
            assert (sf.open("r").newest()["w"] == 2).all()
    assert (w == 3).all()


def test_what_arrays_refer_to_is_neither_resized_nor_removed() -> None:
    with sf.create("r") as region:
        u: Any = region.array("u", (10,))
        part: Any = u[2:]
        for attempt in (lambda: region.resize("u", (20,)), lambda: region.remove("u")):
            with pytest.raises(sf.MisuseError, match="refer to its memory"):
                attempt()
        del u
        with pytest.raises(sf.MisuseError, match="refer to its memory"):
            region.remove("u")
        del part
        grown = region.resize("u", (20,))
        assert grown is not None and grown.shape == (20,)
        grown[:] = 5
        region.publish(1)
        assert sf.open("r").newest()["u"].shape == (20,)
        del grown
        region.remove("u")
        region.array("w", (1,))
        region.publish(2)
        assert list(sf.open("r").newest()) == ["w"]


@pytest.mark.parametrize("tracker", ["private_cow", "full_copy", None])
def test_what_a_resized_array_gets_is_zero(tracker: str | None) -> None:
    with sf.create("r", tracker=tracker) as region:
        region.array("u", (100_000,), "u1")[:] = 7
        region.publish(1)
        for version, size in enumerate([100, 100_000, 3_000_000, 50, 60, 3_000_000], 2):
            u = region.resize("u", (size,))
            assert u is not None and (u[:50] == 7).all() and not u[100:].any()
            region.publish(version)
            assert (sf.open("r").newest()["u"] == u).all()
            del u


def test_the_same_declaration_gives_the_same_memory() -> None:
    with sf.create("r") as region:
        u = region.array("u", (4,), "i4")
        region.array("u", (4,), "i4")[:] = 3
        region.array("u")[0] = 4
        assert u.tolist() == [4, 3, 3, 3]
        with pytest.raises(sf.MisuseError, match="declared otherwise"):
            region.array("u", (5,), "i4")
        with pytest.raises(sf.MisuseError, match="order 'C', not 'F'; declare"):
            region.array("u", (4,), "i4", order="F")
        with pytest.raises(sf.MisuseError, match="units '', not 'K'"):
            region.array("u", (4,), "i4", units="K")


def test_variables_say_which_part_of_a_global_array_they_are() -> None:
    with sf.create("parts") as region:
        x = np.arange(12.0).reshape(3, 4)
        region.track("x", x, part=((3, 0), (6, 4)))
        region.array("u", (2, 2), part=((0, 2), np.array((2, 4))), attrs={"level": 1})
        with region.loan("w", 5, part=(10, 100)) as w:
            w[:] = 1
        with pytest.raises(sf.MisuseError, match="reaches beyond"):
            region.array("beyond", 3, part=(2, 4))
        with pytest.raises(sf.MisuseError, match="dimensions"):
            region.array("flat", 3, part=((0, 2), (2, 4)))
        with pytest.raises(sf.MisuseError, match="offset and global shape"):
            region.array("wrong", 3, part=2)  # type: ignore[arg-type]
        region.publish(1)
        with pytest.raises(sf.MisuseError, match="'x'"):
            region.publish(2, {"x": np.zeros((4, 4))})
        with sf.open("parts") as observer, observer.newest() as snapshot:
            parts = {name: variable.part for name, variable in snapshot.variables.items()}
            assert parts == {"x": ((3, 0), (6, 4)), "u": ((0, 2), (2, 4)), "w": ((10,), (100,))}
            assert parts["x"].global_shape == (6, 4)  # type: ignore[union-attr]
            assert snapshot.variables["u"].attrs["level"] == 1
    assert sf.Part.of({"offset": "1,2"}) is None and sf.Part.of({"offset": "a", "global_shape": "b"}) is None


def test_variables_become_other_parts() -> None:
    def shown() -> dict[str, tuple[tuple[int, ...], sf.Part | None]]:
        with sf.open("repart") as observer, observer.newest() as snapshot:
            return {name: (variable.shape, variable.part) for name, variable in snapshot.variables.items()}

    with sf.create("repart") as region:
        u: Any = region.array("u", (4, 6), part=((3, 0), (9, 6)), attrs={"level": 1})
        u[:] = 1
        region.track("x", np.zeros((4, 6)), part=((3, 0), (9, 6)))
        with region.loan("w", 5, part=(10, 100)) as w:
            w[:] = 1
        region.publish(1)
        before = {"u": ((4, 6), ((3, 0), (9, 6))), "x": ((4, 6), ((3, 0), (9, 6))), "w": ((5,), ((10,), (100,)))}
        assert shown() == before
        with pytest.raises(sf.MisuseError, match="refer to its memory"):
            region.repart("u", (1, 6), ((0, 0), (9, 6)))
        del u
        for name, shape, part, message in (
            ("u", (7, 6), ((3, 0), (9, 6)), "'u': its shape .* reaches beyond"),
            ("u", (1, 6), (0, 9), "'u': its shape .* dimensions"),
            ("x", (7, 6), ((3, 0), (9, 6)), "'x': its shape .* reaches beyond"),
            ("w", 5, (96, 100), "'w': its shape .* reaches beyond"),
            ("w", 5, 96, "offset and global shape"),
            ("w", 5, (-1, 100), "negative"),
        ):
            with pytest.raises(sf.MisuseError, match=message):
                region.repart(name, shape, part)  # type: ignore[arg-type]
        with pytest.raises(sf.UnknownVariable):
            region.repart("y", 5, (0, 5))
        region.publish(2)
        assert shown() == before and (region.array("u") == 1).all()

        u = region.repart("u", (7, 6), ((2, 0), (9, 6)))
        assert u.shape == (7, 6) and (u[:4] == 1).all() and (u[4:] == 0).all()
        u[6] = 2
        assert region.repart("w", 9, (11, 100)) is None
        with region.loan("w", 9, part=(11, 100)) as w:
            assert w.shape == (9,)
            w[:] = 2
        assert region.repart("x", (1, 6), ((8, 0), (9, 6))) is None
        with pytest.raises(sf.MisuseError, match="'x'"):
            region.publish(3)
        region.track("x", np.ones((1, 6)), part=((8, 0), (9, 6)))
        region.publish(3)
        assert shown() == {"u": ((7, 6), ((2, 0), (9, 6))), "x": ((1, 6), ((8, 0), (9, 6))), "w": ((9,), ((11,), (100,)))}
        with sf.open("repart") as observer, observer.newest() as snapshot:
            assert np.array_equal(snapshot["u"], u) and (snapshot["w"] == 2).all()
            assert snapshot.variables["u"].attrs["level"] == 1
        # The same declaration gives the same memory, and another one does not.
        assert np.array_equal(region.array("u", (7, 6), part=((2, 0), (9, 6)), attrs={"level": 1}), u)
        with pytest.raises(sf.MisuseError, match="declared otherwise"):
            region.array("u", (4, 6), part=((3, 0), (9, 6)), attrs={"level": 1})
        del u
        u = region.repart("u", (1, 6), ((8, 0), (9, 6)))
        region.publish(4)
        assert shown()["u"] == ((1, 6), ((8, 0), (9, 6)))
        del u


def test_loans_become_versions_and_are_dropped_by_exceptions() -> None:
    with sf.create("r") as region:
        for version in range(1, 6):
            with region.loan("w", (1000, 3), order="F") as w:
                assert w.flags.writeable and w.flags.f_contiguous
                w[...] = version
            assert not w.flags.writeable
            region.publish(version)
            assert (sf.open("r").newest()["w"] == version).all()
        with pytest.raises(RuntimeError), region.loan("w", (1000, 3), order="F") as w:
            w[...] = -1
            raise RuntimeError
        region.publish(6)
        assert (sf.open("r").newest()["w"] == 5).all()
        with region.loan("w", (10,), order="F") as w:
            w[...] = 7
        region.publish(7)
        assert sf.open("r").newest()["w"].tolist() == [7] * 10


def test_views_of_a_loan_that_is_over_touch_neither_the_version_nor_others_memory() -> None:
    with sf.create("r", keep=1) as region:
        with region.loan("w", (10_000,)) as w:
            w[...] = 1
            view = w[:]
        region.publish(1)
        snapshot = sf.open("r").newest()
        view[...] = 2
        assert (snapshot["w"] == 1).all()
        for version in range(2, 6):
            with region.loan("w", (10_000,)) as w:
                w[...] = version
            view[...] = -1
            region.publish(version)
            assert (sf.open("r").newest()["w"] == version).all()
    view[...] = 3


@pytest.mark.parametrize(
    ("dtype", "hint"),
    [
        ("U5", "bytes"),
        (">f8", "byte order"),
        ("longdouble", "not supported"),
        ("O", "objects"),
        ("M8[s]", "view"),
        ("nope", "nope"),
    ],
)
def test_types_that_cannot_be_are_refused_with_a_reason(dtype: str, hint: str) -> None:
    with sf.create("r") as region, pytest.raises(sf.MisuseError, match=hint):
        region.array("u", (3,), dtype)


def test_subarrays_in_records_are_refused() -> None:
    with (
        sf.create("r") as region,
        pytest.raises(sf.MisuseError, match="give each part a field"),
    ):
        region.array("u", (3,), [("x", "f8", (3,))])


def test_tracked_arrays_are_arrays_of_the_dtype() -> None:
    with sf.create("r") as region:
        region.track("x", dtype="f8")
        with pytest.raises(sf.MisuseError, match="float32"):
            region.publish(1, arrays={"x": np.zeros(4, "f4")})
        with pytest.raises(sf.MisuseError, match="no array"):
            region.publish(1, arrays={"x": [1.0, 2.0]})


def test_memory_that_moves_at_each_step_is_followed() -> None:
    with sf.create("r", keep=1) as region:
        region.track("x", dtype="f8")
        region.track("fixed", np.full(5000, 9.0))
        kept = []
        for version in range(1, 30):
            x = np.full(1000 + 997 * (version % 5), float(version))
            if version % 3:
                kept.append(x)
            region.publish(version, arrays={"x": x})
            snapshot = sf.open("r").newest()
            assert (snapshot["x"] == version).all() and snapshot["x"].shape == x.shape
            assert (snapshot["fixed"] == 9).all()
            del x, snapshot


def test_buffers_that_are_swapped_are_followed() -> None:
    with sf.create("r") as region:
        region.track("flux", dtype="f8", order="F")
        old, new = np.zeros((300, 50), order="F"), np.zeros((300, 50), order="F")
        for version in range(1, 12):
            new[version, :] = version
            old, new = new, old
            region.publish(version, arrays={"flux": old})
            assert np.array_equal(sf.open("r").newest()["flux"], old)


def test_names_of_types_need_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_types, "numpy", None)
    for name in ("f8", "<f8", "=f8", "float64", float):
        assert _types.native_dtype(name) == "float64"
    assert _types.native_dtype("S5") == "bytes5"
    assert _types.native_dtype("?") == "bool"
    assert _types.native_dtype("f2") == "float16" and _types.native_dtype("bfloat16") == "bfloat16"
    with pytest.raises(sf.MisuseError):
        _types.native_dtype("f1")
