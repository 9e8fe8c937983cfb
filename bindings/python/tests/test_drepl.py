"""The layout language from Python: each kind of conversion beside numpy's own assignment, and what is refused."""

from __future__ import annotations

import array
import mmap
import pickle
import sys
import threading
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import stillframe as sf
from numpy.typing import NDArray
from conftest import Spawn
from stillframe import drepl

CELLS = """
const N = 24
type Cell struct { rho, e float64; flux [3]float32; id int32 }
var mesh [N,N]Cell
var line [N*N]float64
var grid [N,N,N]float32

view sim { var mesh = mesh }
view soa { var rho = mesh.rho; var e = mesh.e; var flux [k][i,j] = mesh[i,j].flux[k]; var id = mesh.id }
view coarse { var m [i,j]{rho; id} = mesh[i*4,j*4] }
view fortran columnmajor { var m [i,j] = mesh[j,i].rho }
view line { var line = line }
view reversed { var line [i] = line[N*N-1-i] }
view fourth { var line [i] = line[4*i] }
view spread { var line [4*i] = line[i] }
view grid { var grid = grid }
view turned { var grid [k,i,j] = grid[i,j,k] }
view big bigendian aligned { var m = mesh }
"""


@pytest.fixture
def cells() -> drepl.Schema:
    return drepl.parse(CELLS)


@pytest.fixture
def mesh(cells: drepl.Schema) -> NDArray[Any]:
    mesh = np.zeros((24, 24), cells["sim"].variables["mesh"].dtype)
    random = np.random.default_rng(1)
    mesh["rho"], mesh["e"] = random.random((2, 24, 24))
    mesh["flux"] = random.random((24, 24, 3))
    mesh["id"] = np.arange(576).reshape(24, 24)
    return mesh


@pytest.fixture
def line() -> NDArray[Any]:
    return np.random.default_rng(2).random(576)


@pytest.fixture
def grid() -> NDArray[Any]:
    return np.arange(24**3, dtype="f4").reshape(24, 24, 24)


# What is described


def test_a_schema_lists_what_the_text_declares(cells: drepl.Schema) -> None:
    assert cells.objects["mesh"] == drepl.Object("mesh", "[24,24]Cell", (24, 24))
    assert list(cells.views)[:3] == ["sim", "soa", "coarse"]
    assert cells["soa"] == cells.views["soa"].fragment
    assert "soa" in cells and "sao" not in cells
    assert not cells.views["soa"].readonly


def test_flags_unnamed_views_and_replicas_are_told() -> None:
    schema = drepl.parse("""
        var x [8]int16; var t float64
        view own default { var x = x }
        view edge readonly clipped { var g [i:4] = x[i+6] }
        { var alone = t }
        replica complete file "out.raw" { skip 10; view own }
    """)
    assert schema.views["own"].default and schema.views["edge"].readonly and schema.views["edge"].clipped
    assert [list(view.fragment.variables) for view in schema.unnamed] == [["alone"]]
    replica = schema.replicas["file"]
    assert (replica.file, replica.complete, replica.offsets) == ("out.raw", True, {"own": 10})
    assert {name: variable.offset for name, variable in replica.fragment.variables.items()} == {
        "own.x": 10,
        "rest.t": 26,
    }


def test_bindings_are_numbers_of_any_integer_type() -> None:
    schema = drepl.parse("var grid [length,8]float64", length=np.int32(64))
    ghost = schema.fragment("{ var g [x:1,y:8] = grid[x+xmin-1,y] }", xmin=16)
    assert ghost.variables["g"].shape == (1, 8)
    values = np.arange(512.0).reshape(64, 8)
    out = ghost.allocate()
    drepl.convert(schema.fragment("{ var grid = grid }"), values, ghost, out)
    assert (out["g"] == values[15:16]).all()


def test_a_file_may_include_others_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "mesh.drepl").write_text("var mesh [N]float32")
    (tmp_path / "views.drepl").write_text('dataset "mesh.drepl"\nview all { var m = mesh }')
    assert drepl.load(tmp_path / "views.drepl", N=5)["all"].size_bytes == 20
    with pytest.raises(drepl.DreplError, match="include none"):
        drepl.parse((tmp_path / "views.drepl").read_text(), N=5)


def test_primitives_have_the_dtypes_of_numpy() -> None:
    names = (
        "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 complex64 complex128".split()
    )
    declared = "; ".join(f"f{number} {name}" for number, name in enumerate(names))
    views = "view little littleendian { var x = x }; view big bigendian { var x = x }"
    schema = drepl.parse(f"var x struct {{ {declared}; s string5 }}; {views}")
    expected = np.dtype([(f"f{number}", name) for number, name in enumerate(names)] + [("s", "S5")])
    assert schema["little"].variables["x"].dtype == expected.newbyteorder("<")
    assert schema["big"].variables["x"].dtype == expected.newbyteorder(">")
    schema = drepl.parse("var x [2]bfloat16; view little littleendian { var x = x }; view big bigendian { var x = x }")
    assert schema["little"].variables["x"].dtype == "<u2" and schema["big"].variables["x"].dtype == ">u2"


def test_aligned_records_lie_as_numpy_aligns_them() -> None:
    schema = drepl.parse("""
        type Inner struct { a int8; b [3]int16 }
        var x [5]struct { a int8; b float64; c [2,2]Inner; d bool; e complex64; s string3 }
        view back_to_back { var x = x }
        view as_in_c aligned { var x = x }
    """)
    inner = [("a", "i1"), ("b", "i2", (3,))]
    for align in (False, True):
        record = [
            ("a", "i1"),
            ("b", "f8"),
            ("c", np.dtype(inner, align=align), (2, 2)),
            ("d", "?"),
            ("e", "c8"),
            ("s", "S3"),
        ]
        fragment = schema["as_in_c" if align else "back_to_back"]
        assert fragment.variables["x"].dtype == np.dtype(record, align=align)
        assert fragment.size_bytes == 5 * fragment.variables["x"].dtype.itemsize


def test_the_dtype_of_a_fragment_describes_the_whole_buffer(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    dtype = cells["soa"].dtype
    assert dtype.itemsize == cells["soa"].size_bytes
    whole = np.zeros((), dtype)
    drepl.convert(cells["sim"], mesh, cells["soa"], whole)
    assert (whole["rho"] == mesh["rho"]).all() and (whole["flux"] == np.moveaxis(mesh["flux"], 2, 0)).all()


def test_fields_are_arrays_of_numbers_across_records(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    fields = cells["sim"].fields(mesh)
    assert list(fields) == ["mesh.rho", "mesh.e", "mesh.flux", "mesh.id"]
    assert fields["mesh.flux"].shape == (24, 24, 3) and (fields["mesh.flux"] == mesh["flux"]).all()
    fields["mesh.id"][2, 3] = -1
    assert mesh["id"][2, 3] == -1


def test_arrays_of_columns_within_records_have_no_dtype_but_fields() -> None:
    schema = drepl.parse("var x [2]struct { m [3,4]int32 }\nview c columnmajor { var x = x }\nview r { var x = x }")
    with pytest.raises(drepl.DreplError, match=r"'x\.m' is a column-major array.*fields"):
        _ = schema["c"].variables["x"].dtype
    with pytest.raises(drepl.DreplError, match="column-major"):
        schema["c"].allocate()
    room = schema["c"].allocate(fields=True)
    drepl.convert(schema["r"], np.arange(24, dtype="i4"), schema["c"], room)
    assert (room["x.m"] == np.arange(24).reshape(2, 3, 4)).all()
    values = np.arange(24, dtype="i4")
    buffer = bytearray(96)
    drepl.convert(schema["r"], values, schema["c"], buffer)
    assert (schema["c"].fields(buffer)["x.m"] == values.reshape(2, 3, 4)).all()
    assert (np.frombuffer(buffer, "i4").reshape(2, 4, 3) == values.reshape(2, 3, 4).transpose(0, 2, 1)).all()


def test_arrays_of_readonly_buffers_are_readonly(cells: drepl.Schema) -> None:
    assert not cells["line"].arrays(bytes(576 * 8))["line"].flags.writeable
    assert cells["line"].arrays(bytearray(576 * 8))["line"].flags.writeable


# What is moved


def test_records_become_arrays_and_records_again(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    arrays = cells["soa"].allocate()
    drepl.convert(cells["sim"], mesh, cells["soa"], arrays)
    for name in ("rho", "e", "id"):
        assert (arrays[name] == mesh[name]).all()
    assert (arrays["flux"] == np.moveaxis(mesh["flux"], 2, 0)).all()
    back = np.zeros_like(mesh)
    drepl.convert(cells["soa"], arrays, cells["sim"], back)
    assert (back == mesh).all()


def test_every_fourth_cell_of_both_axes_and_two_fields(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    coarse = cells["coarse"].allocate()
    drepl.convert(cells["sim"], mesh, cells["coarse"], coarse)
    assert coarse["m"].shape == (6, 6) and coarse["m"].dtype.names == ("rho", "id")
    assert (coarse["m"]["rho"] == mesh["rho"][::4, ::4]).all() and (coarse["m"]["id"] == mesh["id"][::4, ::4]).all()


def test_transposes_of_two_and_three_axes(cells: drepl.Schema, mesh: NDArray[Any], grid: NDArray[Any]) -> None:
    turned = np.zeros((24, 24, 24), "f4")
    drepl.convert(cells["grid"], grid, cells["turned"], turned)
    assert (turned == grid.transpose(2, 0, 1)).all()
    columns = np.zeros((24, 24), order="F")
    drepl.convert(cells["sim"], mesh, cells["fortran"], columns)
    assert (columns == mesh["rho"].T).all()
    assert cells["fortran"].arrays(columns)["m"].flags.f_contiguous


def test_strides_reversal_and_holes(cells: drepl.Schema, line: NDArray[Any]) -> None:
    for view, expected in (("reversed", line[::-1]), ("fourth", line[::4])):
        out = cells[view].allocate()
        drepl.convert(cells["line"], line, cells[view], out)
        assert (out["line"] == expected).all()
    spread = np.full(cells["spread"].size_bytes // 8, -1.0)
    drepl.convert(cells["line"], line, cells["spread"], spread)
    assert (spread[::4] == line).all()
    holes = np.ones(len(spread), bool)
    holes[::4] = False
    assert (spread[holes] == -1).all()


def test_another_byte_order_with_padding_that_is_left_alone(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    dtype = cells["big"].variables["m"].dtype
    assert not dtype["rho"].isnative
    file = bytearray(b"\xab" * cells["big"].size_bytes)
    drepl.convert(cells["sim"], mesh, cells["big"], file)
    expected = bytearray(b"\xab" * len(file))
    np.ndarray((24, 24), dtype, expected)[...] = mesh
    assert file == expected


NUMBERS = [0.0, -0.0, 1.0, 1 / 3, -65504.0, 65519.99, 65520.0, 1e-8, 6.1e-5, 2.0**-149, 1e-310, 3.5e38, -1e300, np.inf, np.nan]


@pytest.mark.parametrize("order", ["littleendian", "bigendian"])
@pytest.mark.parametrize("new", ["float16", "float32", "float64"])
@pytest.mark.parametrize("old", ["float16", "float32", "float64"])
def test_numbers_of_another_type_are_those_that_numpy_makes(old: str, new: str, order: str) -> None:
    text = f"var v [n]{old}; view own {{ var v = v }} view other {order} {{ var v [i]{new} = v[n-1-i] }}"
    with np.errstate(over="ignore"):
        values = np.array(NUMBERS + list(np.random.default_rng(1).normal(size=1000)), "f8").astype(old)
        schema = drepl.parse(text, n=len(values))
        other = schema["other"].allocate()
        drepl.convert(schema["own"], values, schema["other"], other)
        assert other["v"].dtype == np.dtype(new).newbyteorder("<" if order == "littleendian" else ">")
        np.testing.assert_array_equal(other["v"], values[::-1].astype(new))
        back = schema["own"].allocate()
        drepl.convert(schema["other"], other, schema["own"], back)
        np.testing.assert_array_equal(back["v"], values.astype(new).astype(old))


def test_complex_numbers_and_fields_of_records_are_converted() -> None:
    schema = drepl.parse("""
        type Cell struct { z complex128; id int32; e float64 }
        type Short struct { e float32; id int32; z complex64 }
        var mesh [5,7]Cell
        view sim { var mesh = mesh }
        view short aligned { var mesh [i,j]Short = mesh[i,j] }
    """)
    rng = np.random.default_rng(2)
    mesh = schema["sim"].allocate()["mesh"]
    mesh["z"], mesh["id"], mesh["e"] = rng.normal(size=(5, 7)) + 1j * rng.normal(size=(5, 7)), 3, rng.normal(size=(5, 7))
    short = schema["short"].allocate()
    drepl.convert(schema["sim"], mesh, schema["short"], short)
    assert short["mesh"].dtype.names == ("e", "id", "z")
    for field, dtype in {"e": "f4", "id": "i4", "z": "c8"}.items():
        np.testing.assert_array_equal(short["mesh"][field], mesh[field].astype(dtype))
    with pytest.raises(drepl.DreplError, match="floating-point numbers are converted into others"):
        schema.fragment("{ var id [i,j]float64 = mesh[i,j].id }")


def test_the_halo_of_a_block_comes_from_its_neighbours() -> None:
    schema = drepl.parse("var grid [12,12]float64\nview all { var grid = grid }")
    grid = np.arange(144.0).reshape(12, 12)

    def block(x: int, y: int) -> drepl.Fragment:
        return schema.fragment("{ var b [i:4,j:4] = grid[i+x,j+y] }", x=x, y=y)

    corners = [(x, y) for x in (0, 4, 8) for y in (0, 4, 8)]
    blocks = [np.ascontiguousarray(grid[x : x + 4, y : y + 4]) for x, y in corners]
    sources = [drepl.Source(block(x, y)) for x, y in corners]
    halo = schema.fragment("view clipped { var b [i:6,j:6] = grid[i+x-1,j+y-1] }", x=8, y=4)
    out = np.full((6, 6), -1.0)
    plan = drepl.plan(halo, sources)
    plan.execute(blocks, out)
    assert not plan.missing
    assert (out[:5] == grid[7:12, 3:9]).all() and (out[5] == -1).all()
    assert {piece.source for piece in plan.pieces} == {3, 4, 5, 6, 7, 8}


def test_eight_blocks_become_six() -> None:
    schema = drepl.parse("var grid [12,8,4]complex64")
    values = np.random.default_rng(3).random((12, 8, 4, 2), "f4").view("c8")[..., 0]

    def split(counts: tuple[int, int, int]) -> list[tuple[drepl.Fragment, tuple[slice, ...]]]:
        extents = [extent // count for extent, count in zip(values.shape, counts, strict=True)]
        places = [tuple(place) for place in np.ndindex(*counts)]
        return [
            (
                schema.fragment(
                    "{ var b [i:a,j:b,k:c] = grid[i+x,j+y,k+z] }",
                    **dict(zip("abc", extents, strict=True)),
                    **{axis: at * extent for axis, at, extent in zip("xyz", place, extents, strict=True)},
                ),
                tuple(slice(at * extent, (at + 1) * extent) for at, extent in zip(place, extents, strict=True)),
            )
            for place in places
        ]

    before, after = split((2, 2, 2)), split((3, 2, 1))
    assert (len(before), len(after)) == (8, 6)
    blocks = [values[box].copy() for _, box in before]
    sources = [drepl.Source(fragment) for fragment, _ in before]
    index = drepl.Index(sources)
    for fragment, box in after:
        plan = drepl.plan(fragment, sources)
        assert index.plan(fragment) == plan
        out = fragment.allocate()
        plan.execute(blocks, out)
        assert not plan.missing and (out["b"] == values[box]).all()


def test_a_file_with_a_header_is_read_where_it_lies(tmp_path: Path) -> None:
    schema = drepl.parse("""
        var t float64; var p [3,5]float32
        view scalars bigendian { var t = t }
        view cells bigendian { var p = p }
        replica file "p.dat" { skip 16; view scalars; view cells }
        view memory { var p = p; var t = t }
    """)
    values = np.arange(15, dtype=">f4").reshape(3, 5)
    path = tmp_path / "p.dat"
    path.write_bytes(b"some header 0016" + np.array(2.5, ">f8").tobytes() + values.tobytes())
    memory = schema["memory"].allocate()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        drepl.convert(schema.replicas["file"].fragment, mapped, schema["memory"], memory)
        assert memory["t"] == 2.5 and (memory["p"] == values).all()
        memory["p"][1, 1] = -7
        drepl.convert(schema["memory"], memory, schema.replicas["file"].fragment, mapped)
    assert np.frombuffer(path.read_bytes(), ">f4", offset=24).reshape(3, 5)[1, 1] == -7
    assert path.read_bytes().startswith(b"some header 0016")


def test_buffers_are_of_many_kinds(cells: drepl.Schema, line: NDArray[Any]) -> None:
    raw = line.tobytes()
    sources: list[Any] = [
        raw,
        bytearray(raw),
        memoryview(line),
        array.array("d", line),
        line.reshape(24, 24),
        line[None],
    ]
    for source in sources:
        for out in (bytearray(len(raw)), memoryview(bytearray(len(raw))), array.array("d", line), np.zeros(576)):
            drepl.convert(cells["line"], source, cells["reversed"], out)
            assert bytes(out) == line[::-1].tobytes()
    part = np.zeros(1000)
    drepl.convert(cells["line"], line, cells["reversed"], part[100:676])
    assert (part[100:676] == line[::-1]).all() and not part[:100].any() and not part[676:].any()


def test_an_array_of_turned_axes_has_the_elements_that_numpy_sees(cells: drepl.Schema, grid: NDArray[Any]) -> None:
    out = np.zeros((24, 24, 24), "f4")
    drepl.convert(cells["grid"], grid.transpose(1, 2, 0), cells["grid"], out.transpose(2, 0, 1))
    assert (out.transpose(2, 0, 1) == grid.transpose(1, 2, 0)).all()
    # An array of another shape is the block of memory that it is.
    flat = np.zeros((24, 576), "f4")
    drepl.convert(cells["grid"], grid, cells["grid"], flat.T)
    assert (flat.reshape(24, 24, 24) == grid).all()


def any_part(random: np.random.Generator, room: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Elements of a large array, with its axes in any order and direction, and gaps."""
    order = random.permutation(len(shape))
    cut = tuple(slice(1, 1 + shape[axis] * step, step) for axis, step in zip(order, random.integers(1, 4, len(shape))))
    found = room[cut].transpose(np.argsort(order))
    turned: NDArray[Any] = found[tuple(slice(None, None, int(step)) for step in random.choice([1, -1], len(shape)))]
    return turned


@pytest.mark.parametrize("seed", range(20))
def test_arrays_of_any_strides_are_sources_and_destinations_as_in_numpy(seed: int) -> None:
    random = np.random.default_rng([4, seed])
    shape = tuple(int(extent) for extent in random.integers(2, 6, random.integers(1, 4)))
    letters = "ijk"[: len(shape)]
    schema = drepl.parse(f"var mesh [{','.join(map(str, shape))}]struct {{ rho float64; id int16 }}")
    whole = schema.fragment("view bigendian columnmajor { var m = mesh }")
    turned = schema.fragment(f"{{ var m [{','.join(reversed(letters))}] = mesh[{','.join(letters)}]{{id; rho}} }}")
    index = drepl.Index([drepl.Source(turned), drepl.Source(whole, version=1)])
    for convert in (
        lambda source, out: drepl.convert(whole, source, turned, out),
        lambda source, out: index.plan(turned).execute({1: source}, out),
        lambda source, out: index.plan(turned).execute([None, source], out),
    ):
        rooms = [np.zeros((20,) * len(shape), fragment.variables["m"].dtype) for fragment in (whole, turned)]
        for room in rooms:
            for name in ("rho", "id"):
                room[name] = random.integers(0, 1000, room.shape)
        source, out = any_part(random, rooms[0], shape), any_part(random, rooms[1], shape[::-1])
        expected = rooms[1].copy()
        place = np.ndarray(out.shape, out.dtype, expected, out.ctypes.data - rooms[1].ctypes.data, out.strides)
        for name in ("rho", "id"):
            place[name] = source[name].T
        convert(source, out)
        assert (rooms[1] == expected).all()


def test_an_array_of_another_dtype_is_no_variable(cells: drepl.Schema, line: NDArray[Any]) -> None:
    for other in (line.astype("f4"), line.astype(">f8"), line.astype("i8")):
        with pytest.raises(drepl.DreplError, match=r"source 0 is an array of .* and 'line' is of float64.*astype"):
            drepl.convert(cells["line"], other, cells["reversed"], np.zeros(576))
        with pytest.raises(drepl.DreplError, match="the destination is an array of"):
            drepl.convert(cells["line"], line, cells["reversed"], other)
    out = np.zeros(576)
    drepl.convert(cells["line"], line.view("u1"), cells["reversed"], out.view("u1"))
    assert (out == line[::-1]).all()


def test_snapshots_are_sources_and_region_variables_destinations() -> None:
    schema = drepl.parse("""
        var mesh [24,24]struct { rho float64; id int32 }
        view sim { var mesh = mesh }
        view rho { var rho = mesh.rho }
    """)
    sim, rho = schema["sim"], schema["rho"]
    with sf.create("melt", keep=2) as region:
        mesh = region.array("mesh", shape=(24, 24), dtype=sim.variables["mesh"].dtype)
        mesh["rho"] = np.random.default_rng(5).random((24, 24))
        out = region.array("rho", shape=(24, 24), dtype="f8")
        region.publish(1)
        with sf.open("melt") as observer:
            snapshot = observer.newest()
            drepl.convert(sim, snapshot["mesh"], rho, out)
            with pytest.raises(drepl.DreplError, match="the destination cannot be written"):
                drepl.convert(sim, mesh, rho, snapshot["rho"])
            region.publish(2)
            assert (observer.newest()["rho"] == mesh["rho"]).all() and not snapshot["rho"].any()


def test_any_number_of_threads_moves_the_same(cells: drepl.Schema) -> None:
    schema = drepl.parse("var x [700,900]float64\nview a { var x = x }\nview b { var x [j,i] = x[i,j] }")
    values = np.random.default_rng(4).random((700, 900))
    for threads in (1, 2, 3, None):
        out = schema["b"].allocate()
        drepl.convert(schema["a"], values, schema["b"], out, threads)
        assert (out["x"] == values.T).all()


def test_other_threads_of_python_run_while_bytes_move() -> None:
    schema = drepl.parse("var x [2000,2000]float64\nview a { var x = x }\nview b { var x [j,i] = x[i,j] }")
    values, out = np.ones((2000, 2000)), np.zeros((2000, 2000))
    plan = drepl.plan(schema["b"], [drepl.Source(schema["a"])])
    gate, ran = threading.Lock(), []
    thread = threading.Thread(target=lambda: gate.acquire() and ran.append(True))
    interval = sys.getswitchinterval()
    gate.acquire()
    thread.start()
    # Nobody takes the interpreter away from this thread: others run only while it gives it back by itself.
    sys.setswitchinterval(1000)
    try:
        gate.release()
        for _ in range(100):
            plan.execute([values], out, threads=1)
            if ran:
                break
        assert ran
    finally:
        sys.setswitchinterval(interval)
        thread.join()


# Plans


def test_newer_then_cheaper_then_earlier_sources_are_taken() -> None:
    schema = drepl.parse("var x [10]int32")

    def part(start: int, count: int) -> drepl.Fragment:
        return schema.fragment("{ var p [i:count] = x[i+start] }", start=start, count=count)

    sources = [
        drepl.Source(part(0, 10), version=1),
        drepl.Source(part(0, 6), version=2, cost=5),
        drepl.Source(part(4, 4), version=2, cost=1),
        drepl.Source(part(0, 10), version=3, readable=False),
        drepl.Source(part(0, 2), version=9),
    ]
    plan = drepl.plan(part(0, 10), sources, versions=(1, 5))
    found = {(piece.source, piece.version, piece.name): piece.slices for piece in plan.pieces if piece.source != 0}
    assert found == {(1, 2, "x"): (slice(0, 4, 1),), (2, 2, "x"): (slice(4, 8, 1),)}
    out = np.zeros(10, "i4")
    plan.execute({0: np.full(10, 1, "i4"), 1: np.full(6, 2, "i4"), 2: np.full(4, 3, "i4")}, out)
    assert out.tolist() == [2] * 4 + [3] * 4 + [1] * 2
    assert plan.moved_bytes == 40


def test_what_nobody_has_is_named_by_ranges() -> None:
    schema = drepl.parse("var x [10,8]struct { a, b int16 }\nview a { var x = x.a }")
    plan = drepl.plan(
        schema.fragment("{ var x = x }"), [drepl.Source(schema.fragment("{ var h [i:5,j:8] = x[2*i,j].a }"))]
    )
    mask = np.zeros((10, 8), bool)
    missing = {entry.name: entry for entry in plan.missing}
    assert list(missing) == ["x.a", "x.b"]
    for box in missing["x.a"].slices:
        mask[box] = True
    assert mask[1::2].all() and not mask[::2].any()
    assert str(missing["x.b"]) == "x.b[0..10, 0..8]"
    assert str(plan).endswith("40 of 160 elements from 1 source, 80 bytes in 1 move")
    assert "missing: x.b[0..10, 0..8]" in str(plan)


def test_a_plan_is_drawn_in_characters_and_as_svg() -> None:
    schema = drepl.parse("var x [16,16]float32")
    halves = [drepl.Source(schema.fragment("{ var h [i:8,j:8] = x[i+8*n,j] }", n=n)) for n in (0, 1)]
    plan = drepl.plan(schema.fragment("{ var x = x }"), halves)
    drawn = plan.explain(["upper", "lower"], title="all of x")
    assert "upper" in drawn and "lower" in drawn and "all of x" in drawn and "source 0" in plan.explain()
    rows = [line for line in drawn.splitlines() if "AAAA" in line or "BBBB" in line]
    assert rows and "AAAA" in rows[0] and "BBBB" in rows[-1]
    svg = plan.svg(["upper", "lower"])
    assert ElementTree.fromstring(svg).tag.endswith("svg") and "upper" in svg
    assert plan._repr_svg_() == plan.svg()


def test_convert_refuses_to_leave_elements_out_unless_told(cells: drepl.Schema, line: NDArray[Any]) -> None:
    half = cells.fragment("{ var h [i:288] = line[i] }")
    out = np.full(576, -1.0)
    with pytest.raises(drepl.DreplError, match=r"line\[288\.\.576\].*partial=True"):
        drepl.convert(half, line, cells["line"], out)
    assert (out == -1).all()
    drepl.convert(half, line, cells["line"], out, partial=True)
    assert (out[:288] == line[:288]).all() and (out[288:] == -1).all()


def test_plans_survive_being_sent(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    plan = drepl.plan(cells["soa"], [drepl.Source(cells["sim"])])
    sent = drepl.Plan.from_bytes(plan.to_bytes())
    assert sent == plan and sent.pieces == plan.pieces and str(sent) == str(plan)
    out = cells["soa"].allocate()
    sent.execute([mesh], out)
    assert (out["e"] == mesh["e"]).all()
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert pickle.loads(pickle.dumps(plan.split())) == plan.split()
    for damaged in (b"", b"\x00", plan.to_bytes()[:-3], plan.to_bytes() + b"x", b"\x11\xff\xff\xff"):
        with pytest.raises(drepl.DreplError):
            drepl.Plan.from_bytes(damaged)


def test_fragments_schemas_and_indices_survive_being_sent(cells: drepl.Schema, mesh: NDArray[Any]) -> None:
    sent = pickle.loads(pickle.dumps(cells))
    assert sent.views == cells.views and sent.objects == cells.objects and sent.replicas == cells.replicas
    assert sent.fragment("{ var l [i:N] = line[i] }") == cells.fragment("{ var l [i:N] = line[i] }")
    fragment = pickle.loads(pickle.dumps(cells["big"]))
    assert fragment == cells["big"] and fragment.dtype == cells["big"].dtype
    index = drepl.Index(drepl.Source(cells["sim"], version=version) for version in (1, 2, 3))
    index.remove(0)
    index.update(1, version=9, cost=4)
    again = pickle.loads(pickle.dumps(index))
    assert again.plan(cells["soa"]) == index.plan(cells["soa"]) and len(again) == 2
    assert again.plan(cells["soa"]).pieces[0].version == 9
    for damaged in (b"", cells.to_bytes()[:-3], cells["big"].to_bytes()):
        with pytest.raises(drepl.DreplError):
            drepl.Schema.from_bytes(damaged)


def test_a_write_to_one_view_refreshes_the_others() -> None:
    schema = drepl.parse("var line [8]int8; view all { var l = line }; view even readonly { var e [i] = line[2*i] }")
    updates = drepl.Updates(
        [drepl.Participant(schema["all"]), drepl.Participant(schema["even"], readonly=True)]
        + [drepl.Participant(schema["all"], materialised=False)]
    )
    line, even = np.arange(8, dtype="i1"), np.zeros(4, "i1")
    for update in updates.write(0, slice(4, 6)):
        assert update.destination == 1
        update.plan.execute({0: line}, even)
    assert even.tolist() == [0, 0, 4, 0]
    assert [update.destination for update in updates.write(2)] == [0, 1]
    with pytest.raises(drepl.DreplError, match="participant 1 is readonly"):
        updates.write(1)
    with pytest.raises(drepl.DreplError, match="there is no participant 7"):
        updates.write(7)
    with pytest.raises(drepl.DreplError, match="no range of bytes"):
        updates.write(0, slice(0, 8, 2))


def test_arrays_are_described_by_the_text_they_lie_as() -> None:
    record = np.dtype([("rho", ">f8"), ("flux", ">f4", (3,)), ("inner", [("flag", "?"), ("name", "S5")])])
    assert drepl.type_of(record) == "struct { rho float64; flux [3]float32; inner struct { flag bool; name string5 } }"
    inner = np.dtype({"names": ["id", "at"], "formats": ["i2", "f4"], "offsets": [1, 3], "itemsize": 8})
    padded = np.dtype({"names": ["cells", "e"], "formats": [(inner, (2, 2)), "f8"], "offsets": [0, 35], "itemsize": 43})
    given = {
        "mesh": np.zeros((3, 4), record),
        "time": np.float64(0.5),
        "cells": np.zeros(7, np.dtype([("id", "i2"), ("u", "c16")], align=True)),
        "turned": np.zeros((4, 5), "f2", order="F"),
        "alone": np.zeros(3, {"names": ["x"], "formats": ["f8"], "offsets": [5], "itemsize": 17}),
        "padded": np.zeros((2, 3), padded),
    }
    schema = drepl.parse(drepl.describe(given))
    for name, array in given.items():
        variable = schema[name].variables[name]
        assert (variable.dtype, variable.shape) == (array.dtype, array.shape), name
    assert "padded [,]{cells [,]{skip 1; id; at; skip 1}; skip 3; e}" in drepl.describe(given)
    given["turned"][...] = np.arange(20).reshape(4, 5)
    out = np.zeros((5, 4), "f2")
    drepl.convert(schema["turned"], given["turned"], schema.fragment("{ var t [j,i] = turned[i,j] }"), out)
    assert (out == given["turned"].T).all()
    for wrong, why in (
        ({"a b": np.zeros(3)}, "cannot be a name"),
        ({"view": np.zeros(3)}, "cannot be a name"),
        ({"a": np.zeros(3, "M8[s]")}, "has no type for"),
        ({"a": np.zeros((3, 0))}, "no elements"),
        ({"a": np.zeros(3, [("x", "<f8"), ("y", ">f8")])}, "both byte orders"),
        ({"a": np.zeros(3, {"names": ["x", "y"], "formats": ["f8", "f4"], "offsets": [0, 4]})}, "within the one before"),
        (np.zeros(3), "has no name"),
    ):
        with pytest.raises(drepl.DreplError, match=why):
            drepl.describe(wrong)


def test_fields_lie_where_they_do_whatever_the_order_of_their_names() -> None:
    dtype = np.dtype({"names": ["a", "b"], "formats": ["<f8", "<i4"], "offsets": [8, 0], "itemsize": 24})
    nested = np.dtype([("t", (("<f8", (2, 3)), (2, 1))), ("n", "<i4")])
    for array in (np.zeros(5, dtype), np.zeros((2, 2), nested)):
        first = array.dtype.names[0]
        array[first] = np.arange(array[first].size).reshape(array[first].shape)
        schema = drepl.parse(drepl.describe({"x": array}))
        into = schema.fragment(f"{{ var y = x.{first} }}")
        out = into.allocate()
        drepl.convert(schema["x"], array, into, out)
        assert (out["y"].ravel() == array[first].ravel()).all()
        drepl.convert(schema["x"], array[::-1], into, out)
        assert (out["y"].ravel() == array[::-1][first].ravel()).all()
    with pytest.raises(drepl.DreplError, match="convert it with astype"):
        drepl.convert(schema["x"], np.zeros((2, 2), [("t", "<f8", (2, 2, 1, 3)), ("n", "<i4")]), into, out)


def test_holes_have_what_the_text_says() -> None:
    schema = drepl.parse("var line [4]float64 view all { var l = line } view v clipped fill nan { var l [i:6] = line[i-1] }")
    made = schema["v"].allocate()
    begun = [np.nan, 0, 0, 0, 0, np.nan]
    assert np.array_equal(made["l"], begun, equal_nan=True)
    drepl.convert(schema["all"], np.arange(4.0), schema["v"], made)
    assert np.array_equal(made["l"], [np.nan, 0, 1, 2, 3, np.nan], equal_nan=True)
    buffer = np.ones(6)
    schema["v"].clear(buffer)
    assert np.array_equal(buffer, begun, equal_nan=True)
    # As it may lie where it is moved to.
    wide = np.ones((6, 2))
    schema["v"].clear(wide[::-1, 0])
    assert np.array_equal(wide[:, 0], begun, equal_nan=True) and (wide[:, 1] == 1).all()
    with pytest.raises(drepl.DreplError, match="convert it with astype"):
        schema["v"].clear(np.ones(6, "i8"))
    plain = bytearray(b"\1" * 48)
    schema["v"].clear(plain)
    assert np.array_equal(np.frombuffer(plain), begun, equal_nan=True)
    buffer[:] = 1
    schema["all"].clear(buffer.view("u1"))
    assert (buffer[:4] == 0).all() and (buffer[4:] == 1).all()
    with pytest.raises(drepl.DreplError, match="the buffer has 8 bytes, and the fragment 48"):
        schema["v"].clear(np.ones(1))


def test_xarrays_are_described_by_their_names() -> None:
    xarray = pytest.importorskip("xarray")
    field = xarray.DataArray(np.arange(6.0).reshape(2, 3), dims=("y", "x"), name="u")
    assert drepl.describe(field).startswith("var u [2,3]float64\n")
    both = drepl.parse(drepl.describe(xarray.Dataset({"u": field, "p": field.astype("f4")})))
    assert list(both.objects) == ["u", "p"]


def test_errors_name_nothing_of_another_language() -> None:
    with pytest.raises(drepl.DreplError) as refused:
        drepl.parse('dataset "mesh.drepl"')
    assert "parse_file" not in str(refused.value) and "file" in str(refused.value)


def test_a_plan_of_more_bytes_than_there_can_be_is_refused_and_not_counted_wrong() -> None:
    # Three sources, of each one run of 2^63 - 1 bytes.
    run = b"\x01\x00\x00" + b"\xff" * 8 + b"\x7f" + b"\x01\x00\x00"
    plan = drepl.Plan.from_bytes(b"\x12\x00\x00\x03" + b"".join(bytes([source]) + run for source in range(3)) + b"\x00")
    assert plan.moved_bytes == 2**64 - 1
    out = bytearray(8)
    with pytest.raises(drepl.DreplError, match="source 0 has 8 bytes"):
        plan.execute([bytes(8)] * 3, out)
    for share in plan.split():
        with pytest.raises(MemoryError):
            share.pack(bytes(8))
        with pytest.raises(drepl.DreplError, match=f"source {share.source} has 8 bytes"):
            share.unpack(bytes(8), out)
    assert out == bytes(8)


def test_shares_are_packed_at_the_source_and_unpacked_at_the_destination(
    cells: drepl.Schema, mesh: NDArray[Any]
) -> None:
    upper = cells.fragment("{ var m [i:12,j:N] = mesh[i,j] }")
    lower = cells.fragment("view bigendian { var m [i:12,j:N] = mesh[i+12,j] }")
    halves = [mesh[:12].copy(), np.zeros((12, 24), lower.variables["m"].dtype)]
    halves[1][...] = mesh[12:]
    shares = drepl.plan(cells["soa"], [drepl.Source(upper, 5), drepl.Source(lower, 5)]).split()
    assert [(share.source, share.version) for share in shares] == [(0, 5), (1, 5)]
    out = cells["soa"].allocate()
    for share in shares:
        remote = drepl.Share.from_bytes(share.to_bytes())
        assert remote == share
        compact = remote.pack(halves[share.source])
        assert len(compact) == share.moved_bytes
        share.unpack(compact, out)
    assert (out["rho"] == mesh["rho"]).all() and (out["flux"] == np.moveaxis(mesh["flux"], 2, 0)).all()


def test_sources_of_an_index_come_go_and_change(cells: drepl.Schema) -> None:
    fragment = cells["line"]
    index = drepl.Index([drepl.Source(fragment, version=1)])
    assert index.insert(drepl.Source(fragment, version=2)) == 1 and len(index) == 2
    assert index.plan(fragment).pieces[0].source == 1
    index.update(0, version=3)
    assert index.plan(fragment).pieces[0].source == 0
    assert index.plan(fragment, versions=(2, 2)).pieces[0].source == 1
    index.remove(0)
    assert index.plan(fragment).pieces[0].source == 1 and len(index) == 1
    for gone in (lambda: index.remove(0), lambda: index.update(7, version=1)):
        with pytest.raises(drepl.DreplError, match="there is no source"):
            gone()


# Without numpy


def test_bytes_are_moved_without_numpy(spawn: Spawn) -> None:
    child = spawn(
        """
        import array
        from stillframe import drepl
        schema = drepl.parse("var x [n]int32; view all { var x = x }; view odd { var x [i] = x[2*i+1] }", n=6)
        out = array.array("i", bytes(12))
        drepl.convert(schema["all"], memoryview(array.array("i", range(6))), schema["odd"], out)
        assert out.tolist() == [1, 3, 5] and schema["odd"].variables["x"].strides == (4,)
        for needs in (lambda: schema["odd"].dtype, schema["odd"].allocate, lambda: schema["odd"].arrays(out)):
            try:
                needs()
            except drepl.DreplError as error:
                assert "pip install numpy" in str(error)
            else:
                raise AssertionError
        print("good")
        """,
        prelude="import sys; sys.modules['numpy'] = None",
    )
    assert child.hear() == "good"
    child.end()


# What is refused


def test_all_mistakes_of_a_text_come_at_once_with_their_places() -> None:
    text = "var x [N]float65\n"
    with pytest.raises(drepl.DreplError) as caught:
        drepl.parse(text)
    found = caught.value.diagnostics
    assert [(each.code, each.line, each.column) for each in found] == [("unbound", 1, 8), ("unknown", 1, 10)]
    assert found[1].help == "did you mean `float64`?" and found[1].end == (1, 17)
    assert "^^^^^^^" in str(found[1]) and str(found[1]) in str(caught.value)
    assert isinstance(caught.value, sf.MisuseError) and isinstance(caught.value, ValueError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.diagnostics == found and str(again) == str(caught.value)


def test_mistakes_of_a_fragment_have_places_too(cells: drepl.Schema) -> None:
    with pytest.raises(drepl.DreplError, match="indices 500 to 599") as caught:
        cells.fragment("{ var b [i:100] = line[i+start] }", start=500)
    assert [each.code for each in caught.value.diagnostics] == ["range"]


def test_an_unknown_view_is_told_with_those_there_are(cells: drepl.Schema) -> None:
    with pytest.raises(drepl.DreplError, match="no view 'sao'; the views are: sim, soa, coarse") as caught:
        cells["sao"]
    assert caught.value.diagnostics == []


@pytest.mark.parametrize("value", [1.5, "7", None, 1 << 63, -(1 << 63) - 1])
def test_bindings_that_are_no_numbers_are_refused(value: Any) -> None:
    with pytest.raises(drepl.DreplError, match="binding N"):
        drepl.parse("var x [N]int8", N=value)


def test_arrays_with_gaps_are_refused(cells: drepl.Schema, line: NDArray[Any]) -> None:
    wide = np.zeros((576, 2))
    for gaps in (wide[:100, 0], np.broadcast_to(line[:1], 576), memoryview(wide)[::2]):
        with pytest.raises(drepl.DreplError, match=r"source 0 is no single block|overlap"):
            drepl.convert(cells["line"], gaps, cells["reversed"], np.zeros(576))
        with pytest.raises(drepl.DreplError, match=r"block|written|overlap"):
            drepl.convert(cells["line"], line.copy(), cells["reversed"], gaps)


def test_source_and_destination_that_share_memory_are_refused(cells: drepl.Schema) -> None:
    memory = np.arange(700.0)
    before = memory.copy()
    for start in (0, 1, 124):
        with pytest.raises(drepl.DreplError, match="source 0 and the destination share memory"):
            drepl.convert(cells["line"], memory[:576], cells["reversed"], memory[start : start + 576])
    assert (memory == before).all()
    both = np.arange(1152.0)
    drepl.convert(cells["line"], both[:576], cells["reversed"], both[576:])
    assert (both[576:] == both[:576][::-1]).all()


def test_buffers_that_are_too_short_are_refused_before_a_byte_moves(cells: drepl.Schema, line: NDArray[Any]) -> None:
    out = np.full(576, -1.0)
    with pytest.raises(drepl.DreplError, match="source 0 has 4600 bytes"):
        drepl.convert(cells["line"], line[:575], cells["reversed"], out)
    with pytest.raises(drepl.DreplError, match="the destination has 4600 bytes"):
        drepl.convert(cells["line"], line, cells["reversed"], out[:575])
    with pytest.raises(drepl.DreplError, match="the buffer has 4600 bytes, and the fragment 4608"):
        cells["line"].arrays(out[:575])
    assert (out == -1).all()


@pytest.mark.parametrize("buffer", [[1.0] * 576, 7, "text" * 1152, np.array([None] * 576), None])
def test_what_is_no_plain_memory_is_refused(cells: drepl.Schema, line: NDArray[Any], buffer: Any) -> None:
    with pytest.raises(drepl.DreplError, match="source 0"):
        drepl.convert(cells["line"], buffer, cells["reversed"], np.zeros(576))
    with pytest.raises(drepl.DreplError, match="the destination"):
        drepl.convert(cells["line"], line, cells["reversed"], buffer)


def test_memoryviews_of_python_objects_are_refused(cells: drepl.Schema, line: NDArray[Any]) -> None:
    record = np.zeros(576, [("O", "i4"), ("x", "O")])
    for held in (np.array([None] * 576), record):
        with pytest.raises(drepl.DreplError, match="Python objects"):
            drepl.convert(cells["line"], line, cells["reversed"], memoryview(held))


def test_readonly_destinations_are_refused(cells: drepl.Schema, line: NDArray[Any]) -> None:
    out = np.zeros(576)
    out.flags.writeable = False
    for readonly in (out, bytes(4608), memoryview(bytearray(4608)).toreadonly()):
        with pytest.raises(drepl.DreplError, match="the destination cannot be written"):
            drepl.convert(cells["line"], line, cells["reversed"], readonly)


def test_a_buffer_for_each_source_that_gives_something_is_needed(cells: drepl.Schema, line: NDArray[Any]) -> None:
    idle = drepl.Source(cells["grid"])
    plan = drepl.plan(cells["reversed"], [idle, idle, drepl.Source(cells["line"])])
    with pytest.raises(drepl.DreplError, match="elements from source 2, which has no buffer"):
        plan.execute([line, line], np.zeros(576))
    with pytest.raises(drepl.DreplError, match="source 2"):
        plan.execute({0: line}, np.zeros(576))
    out = np.zeros(576)
    plan.execute([None, None, line], out)
    assert (out == line[::-1]).all()


def test_numbers_that_make_no_sense_are_refused(cells: drepl.Schema, line: NDArray[Any]) -> None:
    fragment = cells["line"]
    for versions in ((3, 2), (-1, 2), (1,), 5, (0, 1 << 64)):
        with pytest.raises(drepl.DreplError, match="version"):
            drepl.plan(fragment, [], versions=versions)  # type: ignore[arg-type]
    for wrong in (drepl.Source(fragment, version=-1), drepl.Source(fragment, cost=1 << 64)):
        with pytest.raises(drepl.DreplError, match="is not between"):
            drepl.plan(fragment, [wrong])
    with pytest.raises(drepl.DreplError, match=r"source 0: .* give drepl.Source"):
        drepl.plan(fragment, [fragment])  # type: ignore[list-item]
    for threads in (0, -1, 1.5):
        with pytest.raises(drepl.DreplError, match="threads"):
            drepl.convert(fragment, line, fragment, np.zeros(576), threads)  # type: ignore[arg-type]


def test_fragments_of_other_objects_are_not_planned_with(cells: drepl.Schema) -> None:
    other = drepl.parse("var line [575]float64\nview line { var line = line }")
    with pytest.raises(drepl.DreplError, match="fragment 1 is of another dataset"):
        drepl.plan(cells["line"], [drepl.Source(cells["line"]), drepl.Source(other["line"])])
    again = drepl.parse(CELLS)
    assert again["line"] == cells["line"] and not drepl.plan(again["soa"], [drepl.Source(cells["sim"])]).missing


def test_a_buffer_cannot_change_its_size_while_it_is_used_and_can_afterwards(
    cells: drepl.Schema, line: NDArray[Any]
) -> None:
    source, out = bytearray(line.tobytes()), bytearray(4608)
    drepl.convert(cells["line"], source, cells["reversed"], out)
    with pytest.raises(drepl.DreplError):
        drepl.convert(cells["line"], source, cells["reversed"], b"")
    source.clear()
    out.extend(b"x")


def test_whoever_calls_a_class_is_told_what_makes_its_objects() -> None:
    for kind, what in [
        (drepl.Schema, r"drepl\.parse\(text\)"),
        (drepl.Fragment, r"schema\.fragment\(text\)"),
        (drepl.Plan, r"drepl\.plan\(fragment"),
        (drepl.Share, r"plan\.split\(\)"),
    ]:
        for given in [(), ("var x [4]float64",), (1, 2)]:
            with pytest.raises(sf.MisuseError, match=f"no {kind.__name__} is made.*{what}"):
                kind(*given)


def test_what_is_no_fragment_or_no_list_of_sources_is_named() -> None:
    schema = drepl.parse("var x [4]int64 view all { var x = x }")
    source = drepl.Source(schema["all"])
    for other in ("all", schema, schema.views["all"], None):
        with pytest.raises(drepl.DreplError, match=r"is no fragment: schema\['view'\]"):
            drepl.plan(other, [source])
        with pytest.raises(drepl.DreplError, match="is no fragment"):
            drepl.Index([drepl.Source(other)])
        with pytest.raises(drepl.DreplError, match="is no fragment"):
            drepl.Index([source]).plan(other)
        with pytest.raises(drepl.DreplError, match="is no fragment"):
            drepl.convert(other, bytes(32), schema["all"], bytearray(32))
    for alone in (source, schema["all"]):
        with pytest.raises(drepl.DreplError, match="no list of sources"):
            drepl.plan(schema["all"], alone)
