"""A region with an array of every dtype, order and kind of shape, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

CELL = np.dtype(
    {
        "names": ["rho", "id", "tag", "z", "at", "half"],
        "formats": ["f8", "i4", "S4", "c8", np.dtype([("x", "f4"), ("y", "f4")]), "f2"],
        # The gap of 6 bytes at the end is padding, as compilers make it.
        "offsets": [0, 8, 12, 16, 24, 32],
        "itemsize": 40,
    }
)


@dataclass
class Exhibit:
    """A variable. `dtype` is that which Stillframe has and numpy has not; values are then its bits."""

    values: np.ndarray
    order: str = "C"
    units: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)
    dtype: str | None = None


def exhibits() -> dict[str, Exhibit]:
    random = np.random.default_rng(7)

    def noise(dtype: str, *shape: int) -> np.ndarray:
        bytes_needed = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(random.bytes(bytes_needed), dtype).reshape(shape).copy()

    found = {f"{kind}{bits}": Exhibit(noise(f"{kind}{bits}", 5, 7)) for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    found["float32"] = Exhibit(random.normal(size=(3, 4, 5)).astype("f4"), units="m s-1")
    found["float64"] = Exhibit(
        random.normal(size=(1100, 600)), units="K", attrs={"dims": "y x", "long_name": "temperature", "level": 3, "mask": True, "scale": 0.5}
    )
    found["y"] = Exhibit(np.linspace(0, 1, 1100), attrs={"dims": "y"})
    found["x"] = Exhibit(np.linspace(0, 2, 600), attrs={"dims": "x"}, units="m")
    found["float16"] = Exhibit(random.normal(size=(40, 30)).astype("f2"), order="F", units="K")
    # Of float32 the upper half.
    found["bfloat16"] = Exhibit((random.normal(size=(8, 9)).astype("f4").view("u4") >> 16).astype("u2"), units="K", dtype="bfloat16")
    found["complex64"] = Exhibit((random.normal(size=9) + 1j * random.normal(size=9)).astype("c8"))
    found["complex128"] = Exhibit(random.normal(size=(2, 3)) + 1j * random.normal(size=(2, 3)))
    found["bool"] = Exhibit(random.integers(0, 2, (4, 4)).astype(bool))
    found["bytes"] = Exhibit(np.array([b"H", b"He", b"Li", b"uuo-long"], "S8"))
    cells = np.zeros(6, CELL)
    cells["rho"], cells["id"], cells["tag"] = random.normal(size=6), range(6), [b"a", b"bc", b"def", b"ghij", b"", b"k"]
    cells["z"], cells["at"]["x"], cells["at"]["y"] = 1 - 2j, range(6), -1.5
    cells["half"] = np.arange(6) / 3
    found["cells"] = Exhibit(cells)
    found["number"] = Exhibit(np.array(2.5), units="s")
    found["empty"] = Exhibit(np.zeros((0, 5), "i4"))
    found["fortran"] = Exhibit(random.normal(size=(6, 4, 5)), order="F", attrs={"dims": "a,b,c"})
    found["fortran_large"] = Exhibit(random.normal(size=(700, 900)), order="F")
    return found


#: What the version of the museum says of itself.
ATTRS = {"time": 3.5, "step": 12, "title": "Grüße", "restart": False}


def publish(directory: Path, name: str = "museum", version: int = 12) -> dict[str, Exhibit]:
    import stillframe as sf

    shown = exhibits()
    region = sf.create(name, dir=directory, keep=2)
    for variable, exhibit in shown.items():
        values = exhibit.values
        array = region.array(
            variable, values.shape, exhibit.dtype or values.dtype, order=exhibit.order, units=exhibit.units, attrs=exhibit.attrs
        )
        # numpy has no bfloat16, unless another package brings one.
        (array.view(values.dtype) if exhibit.dtype else array)[...] = values
    region.publish(version, attrs=ATTRS)
    region.close()
    return shown
