#!/usr/bin/env bash
# zarr-python with the codec pipeline of zarrs writes into a chunk's file, where without it the file is replaced: hard links change too.
#
# Seen: zarr 3.1.6 and zarrs 0.2.3 from PyPI, Python 3.11.
#
# zarr-python's LocalStore writes a chunk aside and renames it. A copy of a store that was made of hard links (cp -al) keeps its old
# chunk. With codec_pipeline.path set to zarrs.ZarrsCodecPipeline, the same assignment to the same array opens the file that is there and
# overwrites it, so that the copy has the new numbers without a word. The setting is meant to change how fast chunks are coded.
#
# What it needs: Python 3.11 with venv, and a package index.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: zarr==3.1.6 zarrs==0.2.3 numpy==2.4.6 numcodecs==0.16.6
cat >"$work/write.py" <<'END'
import os, shutil, sys
import zarr
store, copy = sys.argv[1:3]
zarr.create_array(store, shape=3, chunks=3, dtype="f8", compressors=None)[:] = 1
shutil.copytree(store, copy, copy_function=os.link)
if len(sys.argv) > 3:
    zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
zarr.open_array(store, mode="r+")[:] = 7
print(zarr.open_array(store, mode="r")[:], zarr.open_array(copy, mode="r")[:])
END
echo "the store, and its copy of hard links:"
"$work/venv/bin/python" "$work/write.py" "$work/a.zarr" "$work/a-copy.zarr" | tee "$work/first"
"$work/venv/bin/python" "$work/write.py" "$work/b.zarr" "$work/b-copy.zarr" zarrs | tee "$work/second"
grep -qxF '[7. 7. 7.] [1. 1. 1.]' "$work/first" || { echo "CHANGED: without zarrs" >&2; exit 1; }
grep -qxF '[7. 7. 7.] [7. 7. 7.]' "$work/second" || { echo "CHANGED: with zarrs" >&2; exit 1; }
