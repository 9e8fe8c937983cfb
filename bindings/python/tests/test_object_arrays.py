"""Variables of objects as arrays that are read where they are indexed, beside numpy; and as xarray datasets."""

from __future__ import annotations

import os
import pickle
import random
import sys
import threading
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import stillframe as sf
import xarray as xr
from stillframe import _object_array
from stillframe._fragment_cache import FragmentCache

GIVEN = os.environ.get("STILLFRAME_TEST_SEED", "0")
# Said where a test fails.
SEED = random.SystemRandom().randrange(1 << 32) if GIVEN == "random" else int(GIVEN)
ROUNDS = 150

TEXT = """
const i0 = 3
type Cell struct { rho float64; flux [3,2]float32; id int16 }
var grid [9,7] float64
var deep [4][3,2] int32
var mesh [5,4]Cell
var line [i0] complex128
"""

#: Two writers that share no element, in other layouts than the object's.
WRITERS = [
    """view w columnmajor { var g [x:4,y:7] = grid[x,y]; var d = deep; var m [j:4,i:2] = mesh[i,j] }""",
    """view w bigendian { var g [x:5,y:7] = grid[8-x,6-y]; var m [i:3,j:4] = mesh[i+2,j]; var l = line }""",
]


@pytest.fixture
def model() -> Iterator[tuple[sf.Object, dict[str, np.ndarray]]]:
    obj = sf.create_object("all", TEXT)
    rng = np.random.default_rng(SEED)
    cell = np.dtype([("rho", "f8"), ("flux", "f4", (3, 2)), ("id", "i2")])
    mesh = np.zeros((5, 4), cell)
    mesh["rho"], mesh["flux"] = rng.random((5, 4)), rng.random((5, 4, 3, 2), np.float32)
    mesh["id"] = np.arange(20).reshape(5, 4)
    whole = {
        "grid": rng.random((9, 7)),
        "deep": rng.integers(0, 1 << 30, (4, 3, 2), np.int32),
        "mesh": mesh,
        "line": rng.random(3) + 1j * rng.random(3),
    }
    one, two = (obj.write(text) for text in WRITERS)
    one.fields["g"][...] = whole["grid"][:4]
    one.fields["d"][...] = whole["deep"]
    two.arrays["g"][...] = whole["grid"][8:3:-1, ::-1]
    two.arrays["l"][...] = whole["line"]
    for name in ("rho", "flux", "id"):
        # The first two axes are exchanged.
        one.fields[f"m.{name}"][...] = np.swapaxes(mesh[:2][name], 0, 1)
        two.arrays["m"][name] = mesh[2:][name]
    with pytest.raises(sf.DreplError, match="column-major"):
        one.arrays
    for writer in (one, two):
        writer.publish(5)
    yield obj, whole
    for writer in (one, two):
        writer.detach()


def some_index(rng: random.Random, extent: int) -> int | slice:
    if rng.random() < 0.3:
        return rng.randrange(-extent, extent)
    end = [None, *range(-extent - 2, extent + 3)]
    return slice(rng.choice(end), rng.choice(end), rng.choice([None, 1, 2, 3, -1, -2, -4, extent + 1]))


def some_key(rng: random.Random, shape: tuple[int, ...]) -> object:
    key: list[object] = [some_index(rng, extent) for extent in shape[: rng.randint(0, len(shape))]]
    if rng.random() < 0.3:
        dropped = rng.randint(0, len(key))
        behind = [some_index(rng, extent) for extent in shape[len(shape) - (len(key) - dropped) :]] if dropped < len(key) else []
        key = [*key[:dropped], ..., *behind]
    return key[0] if len(key) == 1 and rng.random() < 0.5 else tuple(key)


def test_slices_are_what_numpy_says(model: tuple[sf.Object, dict[str, np.ndarray]]) -> None:
    obj, whole = model
    rng = random.Random(SEED)
    arrays = [(obj[name], of) for name, of in whole.items()]
    arrays += [(obj["mesh"][field], whole["mesh"][field]) for field in ("rho", "flux", "id")]
    arrays += [(obj["grid", 5], whole["grid"]), (obj.at(5)["deep"], whole["deep"])]
    for _ in range(ROUNDS):
        array, of = rng.choice(arrays)
        key = some_key(rng, array.shape)
        found, wanted = array[key], of[key]
        note = f"seed {SEED}: {array.name}[{key}]"
        assert type(found) is type(wanted) or found.ndim == 0, note
        assert found.shape == wanted.shape and found.dtype == wanted.dtype, note
        assert (found == wanted).all(), note


def test_an_array_says_what_it_is(model: tuple[sf.Object, dict[str, np.ndarray]]) -> None:
    obj, whole = model
    for name, of in whole.items():
        array = obj[name]
        assert (array.shape, array.ndim, array.size, array.dtype) == (of.shape, of.ndim, of.size, of.dtype)
        assert array.nbytes == of.nbytes and len(array) == len(of) and array.version is None
        assert (np.asarray(array) == of).all() and all((a == b).all() for a, b in zip(array, of, strict=True))
    assert obj["mesh"].fields == ("rho", "flux", "id") and obj["grid"].fields == ()
    assert obj["mesh"]["flux"].shape == (5, 4, 3, 2) and obj["mesh"]["flux"].name == "mesh.flux"
    assert np.asarray(obj["grid"], dtype="f4").dtype == np.float32
    assert float(np.sum(obj["grid"])) == pytest.approx(whole["grid"].sum())
    with pytest.raises(ValueError, match="makes a copy"):
        np.asarray(obj["grid"], copy=False)


def test_what_cannot_be_read_is_refused(model: tuple[sf.Object, dict[str, np.ndarray]]) -> None:
    obj, _ = model
    grid = obj["grid"]
    for key in (9, -10, (0, 7), (0, 0, 0), (..., ...), np.int64(99)):
        with pytest.raises(IndexError):
            grid[key]
    for key in ([1, 2], np.ones((9, 7), bool), True, None, 1.5):
        with pytest.raises(sf.MisuseError):
            grid[key]  # type: ignore[index]
    with pytest.raises(sf.UnknownVariable, match="it has grid, deep, mesh, line"):
        obj["grit"]
    with pytest.raises(sf.UnknownVariable, match="its fields are: rho, flux, id"):
        obj["mesh"]["roh"]
    with pytest.raises(sf.UnknownVariable, match="none"):
        grid["rho"]
    with pytest.raises(sf.Timeout):
        obj["grid", 6][0]
    with pytest.raises(sf.Lost) as caught:
        obj.at(4)["grid"][0]
    assert caught.value.complete == 5


def test_before_anything_was_published_all_is_zero() -> None:
    obj = sf.create_object("zeros", TEXT, 3)
    assert not obj["grid"][...].any() and obj["mesh"][1, 2]["id"] == 0
    assert obj.at(3)["line"][1] == 0 and obj.to_xarray().attrs["version"] == 3


def test_a_read_takes_only_what_it_wants() -> None:
    obj = sf.create_object("half", "var u [8] float64")
    with obj.write("{ var u [x:4] = u[x] }") as writer:
        writer.arrays["u"][:] = 1
        writer.publish(1)
        assert obj.newest() == 0 and not obj["u"][...].any()
        # These elements of version 1 are there, others are not.
        assert (obj["u", 1][:4] == 1).all()
        with obj.at(1) as version, pytest.raises(sf.Timeout, match=r"u\[4\.\.8\]"):
            version["u"][3:]
        late = threading.Timer(0.2, lambda: obj.write("{ var u [x:4] = u[x+4] }").publish(1))
        late.start()
        assert obj.at(1, timeout=60)["u"][6] == 0
        late.join()


def test_the_newest_version_is_read_while_writers_go_on() -> None:
    obj = sf.create_object("busy", "var u [64,64] float64")
    over = threading.Event()

    def write() -> None:
        with obj.write("{ var u = u }") as writer:
            version = 0
            while not over.is_set():
                version += 1
                writer.arrays["u"][...] = version
                writer.publish(version)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        last = 0.0
        for _ in range(200):
            found = obj["u"][::3, ::-5]
            assert (found == found[0, 0]).all() and found[0, 0] >= last
            last = found[0, 0]
    finally:
        over.set()
        thread.join(60)


def test_threads_read_many_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    obj = sf.create_object("line", "var u [256] int32")
    with obj.write("{ var u = u }") as writer:
        writer.arrays["u"][:] = np.arange(256)
        writer.publish(1)
        reader = obj["u"]._reader
        failed = []

        def read(number: int) -> None:
            try:
                for place in range(10_000):
                    key = os.getpid(), f"{number}.{place % 40}"
                    reader._cache.keep(key, _Fragment(), 0)  # type: ignore[arg-type]
                    reader.read(key[1], np.empty(1))
            except RuntimeError as error:
                failed.append(error)

        # Fragments that cost nothing, so that threads come upon each other.
        monkeypatch.setattr(reader, "native", _Costless())
        threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        finally:
            sys.setswitchinterval(interval)
        assert not failed


class _Fragment:
    """A fragment that reads nothing, and counts what it is asked for."""

    def __init__(self, fill: Callable[[Callable[[bool, bool], bool]], None] = lambda relief: None) -> None:
        self._fill = fill
        self.timeouts: list[float | None] = []
        self.is_detached = False

    def fill(self, version: int, timeout: float | None, out: object, relief: Callable[[bool, bool], bool]) -> None:
        self.timeouts.append(timeout)
        self._fill(relief)

    def fill_newest(self, timeout: float | None, out: object, relief: Callable[[bool, bool], bool]) -> None:
        self.fill(0, timeout, out, relief)

    def detach(self) -> None:
        self.is_detached = True


class _Costless:
    """An object whose fragments are these, by their texts, or cost nothing."""

    def __init__(self, **fragments: _Fragment) -> None:
        self._fragments = fragments

    def read(self, text: str, *_: object) -> _Fragment:
        return self._fragments.get(text) or _Fragment()


def reader_of(version: int | None = None, timeout: float | None = 0.0, **fragments: _Fragment) -> _object_array.Reader:
    return _object_array.Reader(_Costless(**fragments), version, timeout)  # type: ignore[arg-type]


def test_a_read_has_the_time_that_it_was_given() -> None:
    first, second = _Fragment(), _Fragment()
    reader = reader_of(1, 5.0, first=first, second=second)
    for text in ("first", "second", "first"):
        reader.read(text, np.empty(1))
    assert (first.timeouts, second.timeouts) == ([5.0, 5.0], [5.0])
    for timeout in (0.0, None):
        third = _Fragment()
        other = reader_of(third=third).at(1, timeout)
        other.read("first", np.empty(1))
        other.read("third", np.empty(1))
        assert third.timeouts == [timeout]


def test_a_read_for_which_there_is_no_memory_gives_back_what_is_kept() -> None:
    kept, helped = [_Fragment(), _Fragment()], []

    def want(relief: Callable[[bool, bool], bool]) -> None:
        helped.extend([relief(True, False), relief(True, False), relief(False, False)])
        assert all(fragment.is_detached for fragment in kept)

    large = _Fragment(want)
    reader = reader_of(1, first=kept[0], second=kept[1], large=large)
    reader.read("first", np.empty(1))
    reader.at(2, 0.0).read("second", np.empty(1))
    assert not any(fragment.is_detached for fragment in kept)
    # The first time that is of help, then nothing is left.
    reader.read("large", np.empty(1))
    assert helped == [True, False, False] and large.timeouts == [0.0] and not large.is_detached


def test_what_a_thread_has_read_is_not_kept_while_another_one_lacks_memory() -> None:
    is_short, is_over = threading.Event(), threading.Event()
    helped = []

    def want(relief: Callable[[bool, bool], bool]) -> None:
        # What the other one has comes back when it is done.
        helped.append(relief(True, False))
        is_short.set()
        assert is_over.wait(60)
        helped.extend([relief(True, False), relief(True, False), relief(False, False)])

    short, other = _Fragment(want), _Fragment(lambda relief: None if is_short.wait(60) else pytest.fail("never short"))
    reader = reader_of(1, None, short=short, other=other)
    threads = [threading.Thread(target=reader.read, args=(text, np.empty(1))) for text in ("other", "short")]
    threads[0].start()
    # Before the other one is at work there would be nothing to wait for.
    while not other.timeouts:
        threads[0].join(0.001)
    threads[1].start()
    threads[0].join(60)
    assert other.is_detached and not is_over.is_set()
    is_over.set()
    threads[1].join(60)
    assert helped == [True, True, False, False] and not short.is_detached
    # There is memory again, so that this one is kept.
    last = _Fragment()
    reader.native = _Costless(last=last)  # type: ignore[assignment]
    reader.read("last", np.empty(1))
    assert not last.is_detached and not short.is_detached


def test_a_read_that_asks_again_or_has_just_given_back_is_waited_for() -> None:
    reads = FragmentCache()
    with reads.begin() as first, reads.begin() as second:
        # Others than this program have all of the memory.
        assert first(True, False) and not second(True, False) and not first(True, False)
        # The first one may have it before it knows.
        first(False, False)
        assert second(True, False)
        # It had some, and is refused more: what it had is there.
        first(True, True)
        assert second(True, False) and not second(True, False)


def test_a_read_waits_for_what_another_one_is_giving_back() -> None:
    is_giving, may_end = threading.Event(), threading.Event()

    class Slow(_Fragment):
        def detach(self) -> None:
            is_giving.set()
            assert may_end.wait(60)
            super().detach()

    reads, kept = FragmentCache(), Slow()
    reads.keep((os.getpid(), "kept"), kept, 1)  # type: ignore[arg-type]
    with reads.begin() as first, reads.begin() as second:
        thread = threading.Thread(target=first, args=(True, False))
        thread.start()
        assert is_giving.wait(60)
        # The cache is empty, and the runtime has the memory not yet.
        assert second(True, False) and second(True, False) and not kept.is_detached
        may_end.set()
        thread.join(60)
        assert kept.is_detached and second(True, False) and not second(True, False)


def test_a_read_that_failed_keeps_no_memory() -> None:
    def fail(relief: Callable[[bool, bool], bool]) -> None:
        raise sf.NodeOutOfMemory("none")

    failing = _Fragment(fail)
    with pytest.raises(sf.NodeOutOfMemory):
        reader_of(failing=failing).read("failing", np.empty(1))
    assert failing.is_detached
    assert issubclass(sf.NodeOutOfMemory, sf.OutOfMemory) and issubclass(sf.NodeOutOfMemory, sf.ResourceError)


def test_threads_read_the_same_elements() -> None:
    obj = sf.create_object("shared", "var u [64,64] float64")
    wrong: list[object] = []

    def read() -> None:
        for number in range(100):
            found = obj["u"][number % 20]
            if not (found == found[0]).all():
                wrong.append(found)

    with obj.write("{ var u = u }") as writer:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for version in range(1, 101):
            writer.arrays["u"][...] = version
            writer.publish(version)
        for thread in threads:
            thread.join(60)
        assert not wrong and (obj["u"][3] == 100).all()


def test_xarray_reads_lazily(model: tuple[sf.Object, dict[str, np.ndarray]]) -> None:
    obj, whole = model
    dataset = obj.to_xarray()
    assert list(dataset) == ["grid", "deep", "mesh.rho", "mesh.flux", "mesh.id", "line"]
    assert dataset.attrs == {"object": "all", "version": 5}
    assert dataset["mesh.flux"].dims == ("n5", "n4", "n3", "n2")
    assert (dataset["grid"][2:7:2, ::-1].values == whole["grid"][2:7:2, ::-1]).all()
    assert (dataset["grid"].isel(n9=[4, 1, 8], n7=[2, 0]).values == whole["grid"][[4, 1, 8]][:, [2, 0]]).all()
    assert (dataset["mesh.rho"].values == whole["mesh"]["rho"]).all()
    named = obj.to_xarray(5, dims={"grid": ("y", "x"), "mesh.rho": ("i", "j")})
    assert named["grid"].dims == ("y", "x") and named["mesh.rho"].dims == ("i", "j") and named["line"].dims == ("n3",)
    assert named.sel(x=3)["grid"].shape == (9,)
    assert obj.at(5)["grid"].shape == (9, 7) and obj.at(5).to_xarray().attrs["version"] == 5
    for wrong in ({"grid": ("x",)}, {"grid": ("x", "x")}, {"grid": "xy"}, {"grit": ("x", "y")}):
        with pytest.raises(sf.MisuseError, match="dims"):
            obj.to_xarray(dims=wrong)


def test_xarray_opens_objects_by_name(model: tuple[sf.Object, dict[str, np.ndarray]], regions: os.PathLike[str]) -> None:
    obj, whole = model
    with xr.open_dataset("all", engine="stillframe", drop_variables=["deep"], dir=regions) as dataset:
        assert "deep" not in dataset and (dataset["grid"].values == whole["grid"]).all()
    for what in (obj, obj.at(5)):
        dropped = ["mesh.rho", "mesh.id"]
        dataset = xr.open_dataset(what, engine="stillframe", dims=("y", "x"), drop_variables=dropped)
        assert dataset["grid"].dims == ("y", "x") and "mesh.id" not in dataset
    chunked = xr.open_dataset("all", engine="stillframe", version=5, chunks={"n9": 2})
    assert float(chunked["grid"].sum()) == pytest.approx(whole["grid"].sum())
    again = pickle.loads(pickle.dumps(xr.open_dataset("all", engine="stillframe")))
    assert (again["mesh.flux"].values == whole["mesh"]["flux"]).all()
    with pytest.raises(sf.NoRegion) as caught:
        xr.open_dataset("nothing", engine="stillframe", wait=0.1)
    assert "no object 'nothing'" in caught.value.__notes__[0]
    # Where there are both, the region is meant.
    with sf.create("all") as region:
        region.array("v", shape=3, dtype="i4")
        region.publish(1)
        assert list(xr.open_dataset("all", engine="stillframe")) == ["v"]
        assert xr.open_dataset("all", engine="stillframe", dims=("x",))["v"].dims == ("x",)
        region.unlink()


def test_what_is_pickled_is_never_taken_for_another_object_of_the_name() -> None:
    def create(value: int) -> sf.Object:
        obj = sf.create_object("again", "var u [8] int32")
        with obj.write("{ var u = u }") as writer:
            writer.arrays["u"][...] = value
            writer.publish(7)
        return obj

    former = create(1)
    pickled = [pickle.dumps(former), pickle.dumps(former.to_xarray(7))]
    obj, dataset = map(pickle.loads, pickled)
    assert (obj["u"][...] == 1).all() and (dataset["u"].values == 1).all()
    former.remove()
    create(2)
    for one in pickled:
        with pytest.raises(sf.NoObject, match="was removed"):
            pickle.loads(one)


def test_dask_reads_a_large_variable_by_slabs() -> None:
    obj = sf.create_object("large", "var u [3000,3000] float64")
    with obj.write("{ var u = u }") as writer:
        writer.arrays["u"][...] = np.arange(3000)[:, None]
        writer.publish(1)
        chunked = xr.open_dataset("large", engine="stillframe", chunks={})["u"]
        assert len(chunked.chunks[0]) == 3 and len(chunked.chunks[1]) == 1
        assert float(chunked.mean()) == 1499.5


def test_xarray_waits_for_an_object() -> None:
    timer = threading.Timer(0.2, lambda: sf.create_object("late", "var u [4] float64"))
    timer.start()
    assert xr.open_dataset("late", engine="stillframe", wait=60)["u"].shape == (4,)
    timer.join()
