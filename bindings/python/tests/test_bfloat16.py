"""Numbers of ``bfloat16``, which numpy does not have, and other types that only ml_dtypes has."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import stillframe as sf
from stillframe import _types, analysis

#: The upper halves of the float32 numbers 1, 2, 3 and 4.
BITS = np.array([0x3F80, 0x4000, 0x4040, 0x4080], "u2")


@pytest.fixture(params=["without ml_dtypes", "with ml_dtypes"])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """numpy shows ``bfloat16`` as bits, or as what ml_dtypes has."""
    if request.param == "without ml_dtypes":
        monkeypatch.setattr(_types, "bfloat16", None)
    elif find_spec("ml_dtypes") is None:
        pytest.skip("there is no ml_dtypes")


def publish(rank: int | None = None) -> sf.Region:
    """A region with the numbers 1 to 4 as a variable, and as two fields of records."""
    region = sf.create("r") if rank is None else sf.create("r", rank=rank, ranks=2)
    part = {} if rank is None else {"part": ((2 * rank,), (4,))}
    mine = BITS if rank is None else BITS[2 * rank : 2 * rank + 2]
    region.array("w", mine.shape, "bfloat16", **part).view("u2")[...] = mine
    record = ([("id", "int32", 0), ("w", "bfloat16", 4), ("at", ([("w", "bfloat16", 0)], 2), 6)], 8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stillframe._region.native_dtype", lambda dtype: record)
        cells = region.array("cells", mine.shape, "cells", **part)
    cells["w"].view("u2")[...] = mine
    cells["at"]["w"].view("u2")[...] = mine
    cells["id"] = range(len(mine))
    region.publish(1)
    return region


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", ["w", "cells.w", "cells.at.w"])
def test_analysis_takes_the_numbers(name: str, ranks: int) -> None:
    regions = [publish()] if ranks == 1 else [publish(rank) for rank in range(ranks)]
    with (sf.open("r") if ranks == 1 else sf.open_group("r")) as source, source.newest() as snapshot:
        row = analysis.Statistics(name)(snapshot)
        assert (row[f"{name}_mean"], row[f"{name}_min"], row[f"{name}_max"]) == (2.5, 1.0, 4.0)
        found = analysis.Histogram(name, bins=4, range=(1, 5))(snapshot)
        assert found[f"{name}_count"].tolist() == [1, 1, 1, 1]  # type: ignore[union-attr]
        assert analysis.Spectrum(name)(snapshot)[f"{name}_power"][0] == 2.5**2
        assert np.concatenate(list(analysis.blocks(snapshot, name))).tolist() == [1, 2, 3, 4]
    for region in regions:
        region.close()


@pytest.mark.usefixtures("shown")
def test_bits_are_published_as_numbers() -> None:
    with sf.create("r") as region:
        region.track("w", BITS, dtype="bfloat16")
        region.publish(1)
        region.publish(2, {"w": BITS[::-2]})
        with sf.open("r").newest() as snapshot:
            assert list(analysis.blocks(snapshot, "w"))[0].tolist() == [4, 2]


@pytest.mark.usefixtures("shown")
def test_a_run_takes_the_numbers_of_small_versions(tmp_path: Any) -> None:
    with publish():
        analysis.run("r", {tmp_path / "w.csv": analysis.Statistics("w")}, timeout=0, polite=False)
    heading, row = (tmp_path / "w.csv").read_text().splitlines()
    assert dict(zip(heading.split(","), row.split(","), strict=True))["w_mean"] == "2.5"


@pytest.mark.usefixtures("shown")
@pytest.mark.parametrize("ranks", [1, 2])
def test_datasets_have_the_numbers(ranks: int) -> None:
    xr = pytest.importorskip("xarray")
    regions = [publish()] if ranks == 1 else [publish(rank) for rank in range(ranks)]
    with xr.open_dataset("r", engine="stillframe") as ds:
        assert ds["w"].dtype == np.float32 and float(ds["w"].mean()) == 2.5
        assert ds["w"][1:3].values.tolist() == [2, 3] and float(ds["w"][3]) == 4
        cells = ds["cells"].values
        assert cells.dtype == ds["cells"].dtype and cells["id"].tolist() == [0, 1, 2, 3][: 4 // ranks] * ranks
        assert cells["w"].tolist() == cells["at"]["w"].tolist() == [1, 2, 3, 4]
    for region in regions:
        region.close()


def test_datasets_of_objects_have_the_numbers() -> None:
    xr = pytest.importorskip("xarray")
    text = "type Inner struct { a int8; w [2]bfloat16 } type Cell struct { id int32; at Inner; w bfloat16 }"
    obj = sf.create_object("o", f"{text} var cells [4]Cell var v [4]bfloat16 var n bfloat16 var bits [4]uint16")
    with obj.write("{ var cells = cells; var v = v; var n = n; var bits = bits }") as writer:
        arrays = writer.arrays
        arrays["v"][...] = arrays["bits"][...] = arrays["cells"]["w"][...] = BITS
        arrays["cells"]["at"]["w"][...] = BITS[:, None]
        arrays["n"][...] = BITS[2]
        writer.publish(1)
        with xr.open_dataset("o", engine="stillframe") as ds:
            assert ds["v"].dtype == ds["cells.w"].dtype == np.float32 and ds["bits"].dtype == np.uint16
            assert ds["v"].values.tolist() == ds["cells.w"].values.tolist() == [1, 2, 3, 4]
            assert ds["v"][1:3].values.tolist() == [2, 3] and float(ds["n"]) == 3
            assert ds["cells.at.w"].values.tolist() == [[n, n] for n in (1, 2, 3, 4)]
            assert ds["bits"].values.tolist() == BITS.tolist()
            assert np.asarray(pickle.loads(pickle.dumps(ds["v"].variable._data))).tolist() == [1, 2, 3, 4]


def test_a_programs_own_arrays_are_taken_as_numbers() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    cells = np.zeros(4, [("id", "i4"), ("w", bfloat16)])
    cells["w"] = [1, 2, 3, 4]
    assert analysis.Statistics("w")({"w": cells["w"]})["w_mean"] == 2.5
    assert analysis.Statistics("cells.w")({"cells": cells})["cells.w_mean"] == 2.5


def like(name: str, itemsize: int) -> Any:
    """What numpy says of a type that another package brings."""
    about = {"kind": "V", "subdtype": None, "fields": None, "isnative": True, "isbuiltin": 2}
    return SimpleNamespace(name=name, itemsize=itemsize, **about)


def test_types_of_other_packages_are_refused() -> None:
    for name, itemsize in (("float8_e4m3fn", 1), ("int4", 1), ("quaternion", 32)):
        with pytest.raises(sf.MisuseError, match=f"dtype {name} .*view"):
            _types._from_numpy(like(name, itemsize))
    assert _types._from_numpy(like("bfloat16", 2)) == "bfloat16"
    assert _types._from_numpy(np.dtype("V3")) == "bytes3"


def test_every_type_of_ml_dtypes_is_known_or_refused() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = [kind for kind in vars(ml_dtypes).values() if isinstance(kind, type) and issubclass(kind, np.generic)]
    assert ml_dtypes.float8_e4m3fn in kinds and ml_dtypes.int4 in kinds
    with sf.create("r") as region:
        for number, kind in enumerate(kinds):
            values = np.zeros(3, kind)
            if kind is ml_dtypes.bfloat16:
                region.track(f"v{number}", values)
                continue
            with pytest.raises(sf.MisuseError, match=r"view\('u"):
                region.track(f"v{number}", values)
            region.track(f"bits{number}", values.view(f"u{values.itemsize}"))
        region.publish(1)
