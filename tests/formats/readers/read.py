"""Reads checkpoints with one of the readers of Zarr: read.py READER read ROOT | lost PLACE | write PLACE. Prints JSON.

It runs in an environment that has the reader and nothing of Stillframe.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

READER, ACTION, WHERE = sys.argv[1:4]
warnings.simplefilter("ignore")


def with_zarr_python(place: Path, path: str, strict: bool = False) -> np.ndarray:
    import zarr

    with zarr.config.set({"array.read_missing_chunks": False} if strict else {}):
        return zarr.open_group(place, mode="r")[path][...]


def with_zarrs(place: Path, path: str, strict: bool = False) -> np.ndarray:
    import zarr
    import zarrs  # noqa: F401

    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
    return with_zarr_python(place, path, strict)


def in_tensorstore(place: Path, path: str, **options: object) -> object:
    import tensorstore

    return tensorstore.open({"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{place}/{path}/"}, **options}).result()


def with_tensorstore(place: Path, path: str, strict: bool = False) -> np.ndarray:
    return in_tensorstore(place, path, fill_missing_data_reads=not strict).read().result()


def with_zarrita(place: Path, path: str, strict: bool = False) -> np.ndarray:
    import zarrita

    array = zarrita.Array.open(zarrita.LocalStore(place) / path)
    return array[(slice(None),) * len(array.metadata.shape)]


def with_virtualizarr(place: Path, path: str, strict: bool = False) -> np.ndarray:
    import xarray
    from obspec_utils.registry import ObjectStoreRegistry
    from obstore.store import LocalStore
    from virtualizarr.parsers import ZarrParser

    folder = place / path.split("/")[0] if "/" in path else place
    store = ZarrParser()(url=f"file://{folder}", registry=ObjectStoreRegistry({"file://": LocalStore()}))
    return xarray.open_zarr(store, consolidated=False, zarr_format=3, mask_and_scale=False)[path.split("/")[-1]].values


def with_gdal(place: Path, path: str, strict: bool = False) -> np.ndarray:
    import rasterio

    with rasterio.open(f'ZARR:"{place}":/{path}') as raster:
        found = raster.read()
    # GDAL has a raster in bands, and booleans as bytes.
    while found.ndim > 1 and found.shape[0] == 1:
        found = found[0]
    return found


def with_netcdf(place: Path, path: str, strict: bool = False) -> np.ndarray:
    import netCDF4

    with netCDF4.Dataset(f"file://{place}#mode=zarr,file") as file:
        return file[path][...]


READ: dict[str, Callable[..., np.ndarray]] = {
    "zarr-python": with_zarr_python,
    "zarrs": with_zarrs,
    "tensorstore": with_tensorstore,
    "zarrita": with_zarrita,
    "VirtualiZarr": with_virtualizarr,
    "GDAL": with_gdal,
    "netCDF-C": with_netcdf,
}


def attempt(place: Path, path: str, strict: bool = False) -> dict[str, object]:
    try:
        found = np.asarray(READ[READER](place, path, strict))
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    return {"shape": list(found.shape), "bytes": found.tobytes().hex()}


def arrays(place: Path) -> list[str]:
    nodes = [meta for meta in sorted(place.rglob("zarr.json")) if json.loads(meta.read_text())["node_type"] == "array"]
    return [meta.parent.relative_to(place).as_posix() for meta in nodes]


def write(place: Path, path: str) -> None:
    """Puts 7 into the second chunk of an array of two rows."""
    if READER in ("zarr-python", "zarrs"):
        import zarr

        if READER == "zarrs":
            import zarrs  # noqa: F401

            zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
        zarr.open_group(place, mode="r+")[path][1, :] = 7
    elif READER == "tensorstore":
        in_tensorstore(place, path)[1, :].write(np.full(512, 7.0)).result()
    elif READER == "zarrita":
        import zarrita

        zarrita.Array.open(zarrita.LocalStore(place) / path)[1:2, 0:512] = np.full((1, 512), 7.0)
    elif READER == "GDAL":
        import rasterio
        from rasterio.windows import Window

        with rasterio.open(f'ZARR:"{place}":/{path}', "r+") as raster:
            raster.write(np.full((1, 512), 7.0), 1, window=Window(0, 1, 512, 1))


if ACTION == "read":
    found = {place.name: {path: attempt(place, path) for path in arrays(place)} for place in sorted(Path(WHERE).iterdir())}
    print(json.dumps(found))
elif ACTION == "lost":
    print(json.dumps([attempt(Path(WHERE), "u"), attempt(Path(WHERE), "u", strict=True)]))
else:
    write(Path(WHERE), "u")
