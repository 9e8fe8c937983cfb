"""Objects: creating them, and fragments to write and to read."""

from __future__ import annotations

import gc
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
import stillframe as sf
from stillframe import drepl

TEXT = "var u [8,6] float64"


def grid() -> sf.Object:
    return sf.create_object("grid", TEXT)


def rows(obj: sf.Object, first: int, count: int, **options: int) -> sf.WriteFragment:
    return obj.write("{ var u [x:count,y:6] = u[x+first,y] }", first=first, count=count, **options)


def values(version: int) -> np.ndarray:
    return version * 1000 + np.arange(48.0).reshape(8, 6)


def publish(fragment: sf.WriteFragment, first: int, version: int) -> None:
    array = fragment.arrays["u"]
    array[...] = values(version)[first : first + len(array)]
    assert fragment.publish(version).version == version


def test_an_object_is_created_once_and_the_same_again_is_the_same(regions: Path) -> None:
    first = sf.create_object("run/u", "var u [n,3] float32", initial=5, n=4)
    second = sf.create_object("run/u", "var u [n,3] float32", 5, None, bindings={"n": np.int32(4)})
    found = sf.object("run/u", dir=regions)
    for obj in (first, second, found, pickle.loads(pickle.dumps(first))):
        assert (obj.name, obj.text, obj.bindings, obj.initial) == ("run/u", "var u [n,3] float32", {"n": 4}, 5)
        assert obj.newest() == 5 and obj.versions() == []
        assert list(obj) == ["u"] and len(obj) == 1 and "u" in obj and "v" not in obj
        assert obj.variables["u"].shape == (4, 3) and obj.variables["u"].dtype == np.float32
    with pytest.raises(sf.MisuseError, match="another text"):
        sf.create_object("run/u", "var u [n,3] float32", n=5)
    with pytest.raises(sf.DreplError, match="mistakes"):
        sf.create_object("other", "var u [n] float23")
    with pytest.raises(sf.DreplError, match="no integer"):
        sf.create_object("other", "var u [n] float64", n=1.5)  # type: ignore[arg-type]
    with pytest.raises(sf.MisuseError, match="given twice"):
        sf.create_object("other", "var u [n] float64", bindings={"n": 1}, n=1)


def test_who_finds_no_object_is_told(regions: Path) -> None:
    for _ in range(2):
        with pytest.raises(sf.NoObject, match="no object 'grid'"):
            sf.object("grid")
        with pytest.raises(LookupError, match="after"):
            sf.object("grid", wait=0.15)
        sf.create_object("another", TEXT)
    timer = threading.Timer(0.2, grid)
    timer.start()
    assert sf.object("grid", wait=60).name == "grid"
    timer.join()


def test_writers_publish_and_readers_get_any_part() -> None:
    obj = grid()
    with rows(obj, 0, 3) as upper, rows(obj, 3, 5, rank=7) as lower:
        assert (upper.number, lower.number, upper.version) == (0, 1, 0)
        assert upper.arrays["u"].shape == (3, 6) and not upper.arrays["u"].any()
        reader = obj.read("view m columnmajor { var m [x:2,y:6] = u[x+2,y] }")
        shown = reader.arrays["m"]
        assert reader.version == 0 and not shown.any() and not shown.flags.writeable
        assert shown.flags.f_contiguous and not shown.flags.c_contiguous
        with pytest.raises(ValueError):
            shown.flags.writeable = True
        for version in (1, 2, 9):
            publish(upper, 0, version)
            publish(lower, 3, version)
            reader.reattach(version)
            assert reader.version == version == upper.version == obj.newest() and not reader.shown
            # The array that was taken before shows the new version, at the same address.
            assert (shown == values(version)[2:4]).all() and reader.arrays["m"] is shown
        assert obj.versions() == [9]
        assert [(w.rank, w.alive, w.first, w.left, w.newest) for w in obj.writers()] == [
            (None, True, 1, None, 9),
            (7, True, 1, None, 9),
        ]
        assert obj.writers()[1].bindings == {"first": 3, "count": 5} and obj.writers()[1].versions == [9]
        assert obj.writers()[0].region == "objects/grid/0"
        assert (sf.open("objects/grid/0").newest()["u"] == values(9)[:3]).all()
        with pytest.raises(sf.MisuseError, match="does not follow 9"):
            lower.publish(9)
    assert [w.alive for w in obj.writers()] == [False, False] and upper.detached


def test_order_f_and_several_variables() -> None:
    obj = sf.create_object("two", "var a [4,6] float64 var b [3] int32")
    with obj.write("view w columnmajor { var f = a; var b = b }") as writer:
        f, b = writer.arrays["f"], writer.arrays["b"]
        assert f.flags.f_contiguous and f.shape == (4, 6) and b.dtype == np.int32
        f[...] = np.arange(24).reshape(4, 6)
        b[:] = [1, 2, 3]
        writer.publish(1)
        with obj.read("{ var t [j,i] = a[i,j]; var b [i] = b[2-i] }") as reader:
            reader.reattach(1)
            assert (reader.arrays["t"] == f.T).all() and (reader.arrays["b"] == [3, 2, 1]).all()
            assert drepl.plan(reader.fragment, [drepl.Source(writer.fragment)]).missing == []


def test_records_become_arrays_and_arrays_records() -> None:
    obj = sf.create_object("m", "type Cell struct { rho, e float64; id int32 } var mesh [3,4]Cell")
    with obj.write("view w aligned { var mesh = mesh }") as writer:
        mesh = writer.arrays["mesh"]
        assert mesh.dtype.names == ("rho", "e", "id") and mesh.dtype.itemsize == 24
        mesh["rho"] = np.arange(12).reshape(3, 4)
        mesh["id"] = -mesh["rho"]
        writer.publish(1)
        with obj.read("{ var r [,] = mesh[,].rho; var c [i,j]{id; e} = mesh[i,j] }") as reader:
            reader.reattach(1)
            assert (reader.arrays["r"] == mesh["rho"]).all()
            assert reader.arrays["c"].dtype.names == ("id", "e") and (reader.arrays["c"]["id"] == mesh["id"]).all()


def test_ghosts_beyond_the_rim_are_zero() -> None:
    obj = grid()
    with rows(obj, 0, 8) as writer:
        publish(writer, 0, 1)
        with obj.read("view g clipped { var g [x:10,y:8] = u[x-1,y-1] }") as reader:
            reader.reattach_newer()
            assert (reader.arrays["g"] == np.pad(values(1), 1)).all()
            reader.reattach(0)
            assert reader.version == 0 and not reader.arrays["g"].any()
        with pytest.raises(sf.DreplError, match="clipped"):
            obj.read("{ var g [x:10,y:6] = u[x-1,y] }")


def test_large_parts_of_one_writer_are_shown_where_they_are() -> None:
    obj = sf.create_object("large", "var u [512,512] float64")
    with obj.write("{ var u = u }") as writer, obj.read("{ var u [x:256,y:512] = u[x+128,y] }") as reader:
        shown = reader.arrays["u"]
        for version in (1, 2, 3):
            writer.arrays["u"][...] = version
            writer.publish(version)
            reader.reattach(version)
            assert reader.shown and (shown == version).all()
        address = shown.__array_interface__["data"][0]
        assert reader.arrays["u"].__array_interface__["data"][0] == address
    # A place within a page is no hindrance, as long as nobody has asked for the address.
    odd = sf.create_object("odd", "var u [700,333] float64")
    with odd.write("{ var u = u }") as writer:
        writer.arrays["u"][...] = np.arange(333)
        writer.publish(1)
        with odd.read("{ var u [x:500,y:333] = u[x+8,y] }") as reader:
            reader.reattach(1)
            assert reader.shown and (reader.arrays["u"] == np.arange(333)).all()
        with odd.read("{ var u [x:500,y:333] = u[x+8,y] }") as reader:
            shown = reader.arrays["u"]
            reader.reattach(1)
            assert not reader.shown and (shown == np.arange(333)).all()


def test_a_writer_begins_with_the_content_of_the_newest_version() -> None:
    obj = grid()
    for number, cut in enumerate((2, 5, 7), 1):
        upper, lower = rows(obj, 0, cut), rows(obj, cut, 8 - cut)
        if number > 1:
            assert upper.version == number - 1 and (upper.arrays["u"] == values(number - 1)[:cut]).all()
        publish(upper, 0, number)
        publish(lower, cut, number)
        upper.detach()
        lower.detach()
        lower.detach()
    with pytest.raises(sf.MisuseError, match="too late"):
        rows(obj, 0, 4, version=1)
    for wrong in ({"rank": -1}, {"writers": 0}, {"keep": -1}, {"version": -1}, {"version": 1.5}, {"wait": -1}):
        with pytest.raises(sf.MisuseError):
            rows(obj, 0, 4, **wrong)  # type: ignore[arg-type]


def test_loaned_fragments_copy_nothing_and_show_the_version_before() -> None:
    obj = sf.create_object("line", "var u [4096] float64")
    with obj.write("{ var u = u }", loaned=True, keep=2) as writer:
        assert writer.previous is None
        old = writer.arrays["u"]
        assert not old.any()
        old[:] = 1.0
        for version in range(1, 6):
            published = writer.publish(version)
            assert published.copied_pages == 0
            before = writer.previous
            assert before is not None and (before["u"] == version).all() and not before["u"].flags.writeable
            assert (obj["u"][:] == version).all()
            writer.arrays["u"][:] = before["u"] + 1
        # What was lent for an earlier publish can still be read and written, and reaches nobody.
        old[:] = 77.0
        assert (obj["u"][:] == 5).all()
        lent = writer.arrays["u"]
        with pytest.raises(sf.MisuseError, match="does not follow"):
            writer.publish(5)
        assert writer.arrays["u"] is lent
    lent[:] = 3.0
    assert (before["u"] == 5).all() and (lent == 3).all()
    with pytest.raises(sf.MisuseError, match="detached"):
        writer.previous


def test_a_loaned_fragment_begins_with_the_content_it_is_attached_at() -> None:
    obj = grid()
    with rows(obj, 0, 8) as writer:
        publish(writer, 0, 1)
    with obj.write("{ var u = u }", loaned=True) as writer:
        assert (writer.arrays["u"] == values(1)).all()


@pytest.mark.parametrize("loaned", [False, True])
def test_a_fragment_begins_with_zeros_if_it_is_told_to(loaned: bool) -> None:
    obj = grid()
    with rows(obj, 0, 8) as writer:
        publish(writer, 0, 1)
    with obj.write("{ var u = u }", loaned=loaned, zeros=True) as writer, obj.read("{ var u = u }", prefetch=True) as reader:
        assert writer.version == 1 and not writer.arrays["u"].any()
        writer.publish(2)
        reader.reattach(2)
        assert not reader.arrays["u"].any()


def test_arrays_outlive_their_fragments() -> None:
    obj = sf.create_object("large", "var u [512,512] float64")
    writer = obj.write("{ var u = u }")
    mine, slice_of_mine = writer.arrays["u"], writer.arrays["u"][3:5]
    mine[...] = 1.0
    writer.publish(1)
    shown, copied = obj.read("{ var u = u }"), obj.read("{ var u [i] = u[i,3] }")
    arrays = []
    for reader in (shown, copied):
        reader.reattach(1)
        arrays.append(reader.arrays["u"])
        reader.detach()
        assert reader.detached
        with pytest.raises(sf.MisuseError, match="detached"):
            reader.arrays
        with pytest.raises(sf.MisuseError, match="detached"):
            reader.reattach(1)
    writer.detach()
    with pytest.raises(sf.MisuseError, match="detached"):
        writer.publish(2)
    with pytest.raises(sf.MisuseError, match="detached"):
        writer.arrays
    mine += 1.0
    del writer, shown, copied, reader
    gc.collect()
    obj.remove()
    assert (mine == 2).all() and (slice_of_mine == 2).all()
    assert all((array == 1).all() for array in arrays)
    del mine, arrays
    gc.collect()
    assert (slice_of_mine == 2).all()


def test_a_fragment_that_is_forgotten_is_detached() -> None:
    obj = grid()
    array = rows(obj, 0, 8).arrays["u"]
    gc.collect()
    array[...] = 5
    assert [w.alive for w in obj.writers()] in ([], [False])
    rows(obj, 0, 8, wait=0).detach()
    assert (array == 5).all()


def test_who_overlaps_is_told_with_whom() -> None:
    obj = grid()
    with rows(obj, 0, 5, rank=3) as first:
        for wait in (0.0, 0.1):
            with pytest.raises(sf.Overlap, match=r"u\[4, 0\.\.6\].*rank 3"):
                rows(obj, 4, 4, wait=wait)
        with pytest.raises(sf.InUse):
            obj.remove()
        with pytest.raises(sf.MisuseError, match="readonly"):
            obj.write("view readonly { var u = u }")
        first.publish(1)
    obj.remove()
    with pytest.raises(sf.NoObject):
        sf.object("grid")


@pytest.mark.parametrize("anew", [False, True])
def test_a_handle_of_an_object_that_was_removed_says_so_and_does_nothing_to_the_next_one(anew: bool) -> None:
    obj = grid()
    with rows(obj, 0, 8) as writer:
        publish(writer, 0, 42)
    stale = sf.object("grid")
    assert stale.newest() == 42
    assert (stale["u"][...] == values(42)).all()
    obj.remove()
    if anew:
        with rows(grid(), 0, 8) as writer:
            publish(writer, 0, 41)
    for ask in (
        stale.newest,
        stale.versions,
        stale.writers,
        lambda: stale["u"][...],
        lambda: stale["u", 42][...],
        lambda: stale.wait_newer(42, timeout=60),
        stale.remove,
        lambda: stale.remove(force=True),
    ):
        with pytest.raises(sf.NoObject, match="was removed"):
            ask()
    if anew:
        there = sf.object("grid")
        assert there.newest() == 41
        assert (there["u"][...] == values(41)).all()


def test_who_waits_in_vain_is_told_for_whom() -> None:
    obj = grid()
    reader = obj.read("{ var u = u }")
    with pytest.raises(sf.Timeout, match="nobody writes it"):
        obj.wait_newer(0, timeout=0.05)
    with rows(obj, 0, 3, rank=4) as upper:
        upper.publish(1)
        with pytest.raises(sf.Timeout, match=r"u\[3\.\.8, 0\.\.6\], which nobody has attached") as caught:
            reader.reattach(1, timeout=0.25)
        assert caught.value.version == 1
        assert caught.value.waiting == [sf.ObjectPart("u[3..8, 0..6]", None, None, None)]
        with rows(obj, 3, 5, rank=5) as lower:
            with pytest.raises(TimeoutError, match="of rank 5") as caught:
                reader.reattach(1, timeout=0.0)
            (part,) = caught.value.waiting
            assert part.rank == 5 and part.process and part.cause is None and reader.version == 0
            with pytest.raises(sf.Timeout, match="above 0: .* of rank 5"):
                reader.reattach_newer(timeout=0.05)
            lower.publish(1)
            assert obj.wait_newer(0) == 1 == reader.reattach_newer(0)
    with pytest.raises(sf.Ended) as ended:
        obj.wait_newer(1, timeout=None)
    assert ended.value.complete == 1
    with pytest.raises(sf.ProducerGone):
        reader.reattach_newer(timeout=60)


def test_a_version_that_went_is_lost() -> None:
    obj = grid()
    with rows(obj, 0, 8) as writer, obj.read("{ var u = u }") as reader:
        for version in (1, 2, 3):
            publish(writer, 0, version)
        with pytest.raises(sf.Lost, match="newest complete version instead, 3") as caught:
            reader.reattach(1, timeout=60)
        assert (caught.value.version, caught.value.complete) == (1, 3) and caught.value.losses[0].cause == "gone"


def test_the_number_of_writers_may_be_said_instead() -> None:
    obj = grid()
    with rows(obj, 0, 2, writers=2) as one, rows(obj, 4, 2, writers=2) as two:
        one.publish(1)
        assert obj.newest() == 0
        two.publish(1)
        assert obj.newest() == 1
        with pytest.raises(sf.Lost) as caught:
            obj["u"][3]
        assert caught.value.losses[0].cause == "unwritten"


def test_nobody_makes_fragments_by_calling_classes() -> None:
    for kind in (sf.Object, sf.ObjectVersion, sf.ObjectArray, sf.WriteFragment, sf.ReadFragment):
        with pytest.raises(sf.MisuseError, match="is made by calling its class"):
            kind()
