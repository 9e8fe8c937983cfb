"""Names of variables and fields in series and reducers: any name that a region takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import stillframe as sf
from stillframe import analysis

NAMES = ["u", "größe", "ρ", "温度", "a.b", "a\\b", "it's", 'a"b', "😀"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("ending", ["csv", "npy"])
def test_a_series_takes_any_name_and_goes_on(name: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"series.{ending}"
    for version in (1, 2, 3):
        # Each is another run.
        with analysis.Series(path, analysis.Statistics(name)) as series:
            assert series.last == (version - 1 or None)
            assert series.add({name: np.arange(4.0) * version}, version=version, attrs={"time": 0.5})
            assert not series.add({name: np.zeros(4)}, version=version)
    if ending == "npy":
        found = np.load(path)
        assert found["version"].tolist() == [1, 2, 3] and found[f"{name}_max"].tolist() == [3, 6, 9]
        with analysis.Series(path, analysis.Statistics(name)) as series:
            series.rewind(2)
        assert np.load(path, mmap_mode="r")["version"].tolist() == [1]
    else:
        assert path.read_text(encoding="utf-8").count("\n") == 4


@pytest.mark.parametrize("name", ["u", "ρ"])
def test_a_series_that_is_damaged_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "series.npy"
    with analysis.Series(path, analysis.Statistics(name)) as series:
        series.add({name: np.arange(4.0)}, version=1)
    whole = path.read_bytes()
    for damaged in (whole[:9], whole[:40], whole[:-1], whole[:14] + b"}" + whole[15:], whole[:6] + b"\x02\x00" + whole[8:]):
        path.write_bytes(damaged)
        with pytest.raises(sf.CorruptError, match="series"):
            analysis.Series(path, analysis.Statistics(name))


def test_fields_with_dots_in_their_names_are_reached() -> None:
    inner = np.dtype([("c", "u1"), ("c.d", "u1")])
    cells = np.zeros(1, [("b.c", "u1"), ("a.b", inner), ("a", inner), ("a.c", "u1")])
    cells.view("u1")[...] = [1, 2, 3, 4, 5, 6]
    with sf.create("r") as region:
        region.track("cells.x", cells)
        region.publish(1)
        with sf.open("r").newest() as snapshot:
            for source in (snapshot, {"cells.x": cells}):
                for field, value in (("b.c", 1), ("a.b.c", 2), ("a.b.c.d", 3), ("a.c.d", 5), ("a.c", 6)):
                    name = f"cells.x.{field}"
                    assert analysis.Statistics(name)(source)[f"{name}_max"] == value, name
                for wrong in ("b", "a.b.d", "a.c.d.e"):
                    with pytest.raises(sf.MisuseError, match=f"no field '{wrong}'"):
                        analysis.Statistics(f"cells.x.{wrong}")(source)
