#!/usr/bin/env bash
# Runs every benchmark and the demonstrations in their short form and checks what they print and leave.
# Nothing here judges a speed: that is what the full benchmarks are for.
set -euo pipefail
cd "$(dirname "$0")/.."
python=target/venv/bin/python
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

timeout 600 target/release/still bench all --quick --json > "$out/bench.jsonl"
"$python" - "$out/bench.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio"} <= row.keys(), row
    # With nothing dirty there may be nothing to measure; a negative time is a mistake all the same.
    assert row["value"] >= 0, row
names = {row["bench"] for row in rows}
expected = {"publish", "rate", "attach", "advance", "notify", "memory", "memory-units", "restart", "regions", "compose"}
expected |= {"solver", "background", "sections", "variables", "objects", "enclave", "first-write"}
assert names == expected, names
print(f"{len(rows)} rows of {len(names)} benchmarks")
PY
"$python" benches/first-write/plot.py "$out/bench.jsonl" "$out/first-write.png"
"$python" - "$out/bench.jsonl" "$out/first-write.png" <<'PY'
import json, pathlib, sys
rows = [row for row in map(json.loads, open(sys.argv[1])) if row["bench"] == "first-write"]
kinds = {(row["case"]["memory"], row["case"].get("tracker")): row for row in rows if row["case"]["measures"] == "p50 / paper"}
assert {("untracked", None), ("forked", None), ("tracked", "full_copy"), ("managed", "private_cow")} <= kinds.keys(), kinds
faults = {kind: row["detail"]["faults_per_write"] for kind, row in kinds.items()}
# Each of these writes is the first one after a fork, or after the page was armed.
assert all(faults[kind] > 0.9 for kind in (("forked", None), ("managed", "private_cow"))), faults
assert faults.get(("tracked", "wp_async"), 1) > 0.9 and faults["untracked", None] < 0.1, faults
assert pathlib.Path(sys.argv[2]).read_bytes()[:4] == b"\x89PNG"
print(f"{len(rows)} rows of first writes to {len(kinds)} kinds of memory")
PY

timeout 300 target/release/tcasm-bench --quick --json > "$out/tcasm.jsonl"
"$python" - "$out/tcasm.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "paper", "paper_ratio"} <= row.keys(), row
    assert row["value"] >= 0 and row["baseline"] > 0, row
names = {row["bench"] for row in rows}
assert names == {"table3", "figure7a", "figure7b", "figure8"}, names
ways = {word for row in rows for word in row["case"]["what"].replace(",", " ").replace(":", " ").split()}
assert {"msync", "native", "mmap", "func", "file"} <= ways, ways
print(f"{len(rows)} rows of the TCASM paper's benchmarks")
PY

timeout 300 target/release/abacus-bench --quick --json > "$out/abacus.jsonl"
"$python" benches/abacus/plot.py "$out/abacus.jsonl" "$out/abacus.png"
"$python" - "$out/abacus.jsonl" "$out/abacus.png" <<'PY'
import json, pathlib, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "detail"} <= row.keys(), row
means = {row["case"]["means"] for row in rows}
assert means == {"linked", "unlinked", "turns", "stillframe", "stillframe-one-thread", "stillframe-large"}, means
assert pathlib.Path(sys.argv[2]).read_bytes()[:4] == b"\x89PNG"
print(f"{len(rows)} rows of a time step per executable")
PY

timeout 300 target/release/drepl-bench --quick --json > "$out/drepl.jsonl"
timeout 300 "$python" benches/drepl/beside_numpy.py --quick --json >> "$out/drepl.jsonl"
"$python" benches/drepl/plot.py "$out/drepl.jsonl" "$out/drepl.png"
"$python" - "$out/drepl.jsonl" "$out/drepl.png" <<'PY'
import json, pathlib, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "detail"} <= row.keys(), row
    assert row["value"] > 0 and row["baseline"] > 0, row
kinds = {bench: {row["case"]["kind"] for row in rows if row["bench"] == bench} for bench in ("executor", "numpy")}
assert kinds["executor"] == kinds["numpy"] and len(kinds["numpy"]) == 14, kinds
assert pathlib.Path(sys.argv[2]).read_bytes()[:4] == b"\x89PNG"
print(f"{len(rows)} rows of layouts, which all hold what the loops make")
PY

timeout 300 target/release/drepl-planning --quick --json > "$out/drepl-planning.jsonl"
"$python" - "$out/drepl-planning.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
plans = {row["case"]["plan"] for row in rows if row["bench"] == "planning" and row["value"] > 0}
assert {"ghost by scan", "ghost parsed, by scan", "ghost by index", "make an index"} <= plans, plans
print(f"{len(rows)} rows of planning")
PY

timeout 300 benches/languages/run.py --quick --json > "$out/languages.jsonl"
"$python" - "$out/languages.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "detail"} <= row.keys(), row
languages = {row["case"]["language"] for row in rows}
assert languages == {"rust", "rust again", "c", "fortran"}, languages
print(f"{len(rows)} rows of {len(languages) - 1} languages")
PY

timeout 300 "$python" benches/analysis/run.py --quick --json --picture "$out/analysis.png" > "$out/analysis.jsonl"
"$python" - "$out/analysis.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "detail"} <= row.keys(), row
cases = {(row["case"]["processors"], row["case"]["measures"]) for row in rows}
assert len(cases) == 6 and {name for name, _ in cases} == {"free", "one"}, cases
print(f"{len(rows)} rows of analysis beside and compiled in, which found the same")
PY

timeout 300 "$python" benches/enclave/run.py --quick --json > "$out/enclave.jsonl"
"$python" - "$out/enclave.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "detail"} <= row.keys(), row
    assert row["value"] > 0 and row["baseline"] > 0, row
measures = [row["case"]["measures"] for row in rows]
kinds = ["container / alone", "blind / alone", "container / blind", "container / beside", "alone / plain", "container / plain"]
assert measures == kinds, measures
assert rows[0]["detail"]["versions"] >= 1, rows[0]
print(f"{len(rows)} rows of a spectrum in another container")
PY

timeout 300 "$python" benches/checkpoint/run.py --quick --json --pictures "$out/checkpoint" > "$out/checkpoint.jsonl"
"$python" - "$out/checkpoint.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
for row in rows:
    assert {"bench", "case", "value", "unit", "baseline", "ratio", "detail"} <= row.keys(), row
    assert row["value"] > 0 and row["baseline"] > 0, row
measures = [row["case"]["measures"] for row in rows]
assert measures == ["run time, observer", "run time, inline", "bytes per second", "bytes written"], measures
print(f"{len(rows)} rows of checkpoints")
PY

# Those modes that need neither root nor a package of their own; with root there are more.
timeout 300 "$python" benches/pages/run.py --size small --turns 1 --loads none --pin free --programs cg,fem,heat,start \
    --json "$out/pages.jsonl" --picture "$out/pages.png" > /dev/null
"$python" - "$out/pages.jsonl" <<'PY'
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1])]
runs = [line for line in lines if line["bench"] == "pages-run"]
rows = [line for line in lines if line["bench"] == "pages" and "program" in line["case"]]
assert {run["program"] for run in runs} == {"cg", "fem", "heat", "start"}, runs
assert len(rows) == len(runs) and all(row["value"] > 0 and row["detail"]["faults"] > 0 for row in rows), rows
print(f"{len(rows)} rows of programs in large pages")
PY

# The rivals that need nothing but crates; the others need packages of their own (make rivals).
CARGO_TARGET_DIR=target/rivals cargo build --locked -q --release --manifest-path benches/rivals/Cargo.toml --features ours
timeout 300 target/rivals/release/rivals --size 16 --steps 4 --rounds 1 --json \
    --only stillframe-tracked,stillframe-managed,stillframe-loaned,shm-memcpy,iceoryx2-loan,iceoryx2-copy > "$out/rivals.jsonl"
"$python" - "$out/rivals.jsonl" <<'PY'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
contenders = {row["case"]["contender"] for row in rows}
assert len(contenders) == 6, contenders
print(f"{len(contenders)} contenders passed the check of their sums")
PY

timeout 300 target/release/still demo --quick --out "$out/gray-scott" --json > "$out/demo.json"
timeout 300 target/lammps/bin/python examples/lammps/demo.py --steps 10 --repeats 2 --out "$out/melt" --json > "$out/melt.json"
timeout 300 "$python" examples/gray-scott/demo.py --cells 64 --steps 400 --every 10 --out "$out/spots"
timeout 300 "$python" examples/objects/demo.py --steps 40 --still target/release/still --out "$out/objects"
timeout 300 "$python" benches/objects/run.py --quick --json > "$out/objects.jsonl"
"$python" - "$out" <<'PY'
import json, pathlib, sys
out = pathlib.Path(sys.argv[1])
rows = [json.loads(line) for line in (out / "objects.jsonl").read_text().splitlines()]
assert {row["bench"] for row in rows} == {"ghosts", "heat"} and all(row["ratio"] > 0 for row in rows), rows
assert {path.suffix for path in (out / "objects").iterdir()} == {".png", ".svg"}
for name, folder in (("demo.json", "gray-scott"), ("melt.json", "melt")):
    summary = json.loads((out / name).read_text())
    pictures = list((out / folder).glob("**/*.png"))
    assert pictures and all(p.read_bytes()[:4] == b"\x89PNG" for p in pictures), folder
    print(f"{folder}: {len(pictures)} pictures, {len(summary)} facts")
melt = json.loads((out / "melt.json").read_text())
assert melt["thermo_identical"] and melt["state_identical"] and melt["published"] == melt["steps"] + 1, melt
PY
