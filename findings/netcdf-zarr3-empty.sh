#!/usr/bin/env bash
# netCDF-C 4.9.0 opens a Zarr v3 group as a data set without variables, and says nothing of it.
#
# Seen: netCDF4 1.6.2 from PyPI, whose wheel has netCDF-C 4.9.0 (the version of Debian 12, too), Python 3.11.
#
# Its NCZarr reads version 2 of Zarr's format. Given a directory of version 3, which has a zarr.json and no .zgroup, it opens the
# directory all the same: there are no variables and no attributes, and no error, so that who asks for a list of variables is told
# that there are none. `ncdump` of that version prints an empty data set and ends with 0. netCDF4 1.6.5 (4.9.3-development) and later
# refuse it: "NetCDF: Unknown file format".
#
# What it needs: Python 3.11 with venv, and a package index.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for version in 1.6.2 1.6.5; do
    python3.11 -m venv "$work/$version"
    "$work/$version/bin/pip" install -q --disable-pip-version-check --only-binary :all: "netCDF4==$version" "numpy==1.26.4"
done
cat >"$work/group.py" <<'END'
import json, pathlib, struct, sys
group = pathlib.Path(sys.argv[1])
(group / "u").mkdir(parents=True)
(group / "zarr.json").write_text(json.dumps({"zarr_format": 3, "node_type": "group", "attributes": {"title": "three numbers"}}))
(group / "u/zarr.json").write_text(json.dumps({
    "zarr_format": 3, "node_type": "array", "shape": [3], "data_type": "float64", "fill_value": 0.0, "dimension_names": ["x"],
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}], "attributes": {}}))
(group / "u/c").mkdir()
(group / "u/c/0").write_bytes(struct.pack("<3d", 1, 2, 3))
END
cat >"$work/look.py" <<'END'
import sys, netCDF4
try:
    with netCDF4.Dataset(f"file://{sys.argv[1]}#mode=zarr,file") as file:
        print(netCDF4.__netcdf4libversion__, "variables:", list(file.variables), "attributes:", file.ncattrs())
except OSError as error:
    print(netCDF4.__netcdf4libversion__, "refuses:", error.strerror)
END
python3.11 "$work/group.py" "$work/numbers.zarr"
"$work/1.6.2/bin/python" "$work/look.py" "$work/numbers.zarr" | tee "$work/first"
"$work/1.6.5/bin/python" "$work/look.py" "$work/numbers.zarr" | tee "$work/second"
grep -qxF '4.9.0 variables: [] attributes: []' "$work/first" || { echo "CHANGED: 1.6.2" >&2; exit 1; }
grep -q 'refuses: NetCDF: Unknown file format' "$work/second" || { echo "CHANGED: 1.6.5" >&2; exit 1; }
