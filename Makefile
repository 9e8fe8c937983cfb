# Stillframe: the commands a newcomer and a maintainer need. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON := target/venv/bin/python
# One command for all, and no choice of packages but the workspace's own: another is another choice of features, and builds
# everything again.
# Programs that are linked against the library look for it by its soname when they start.
# still-export is among them where its libraries are.
BUILD := cargo build --release $$(scripts/setup.sh export-features) && \
	ln -sf libstillframe.so $${CARGO_TARGET_DIR:-target}/release/libstillframe.so.0 && \
	ln -sf libstillframe_xpmem.so $${CARGO_TARGET_DIR:-target}/release/libstillframe-xpmem.so.0
# All of target/debug, with the named points at which tests kill: another choice of features is built anew.
FEATURES := --features stillframe/points,still/points,stillframe-node/points,stillframe-nodes-rank/points $$(scripts/setup.sh export-features)
# Tests that build libraries of ours to be preloaded or linked build them so.
TESTS := STILLFRAME_TEST_BUILD="$(FEATURES)" cargo test $(FEATURES)
# The MPI that scripts/mpi.sh found.
export PATH := $(CURDIR)/target/mpi/bin:$(PATH)
LOOM := RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom

.PHONY: fabric help build install uninstall install-test wheel demo demo-objects demo-nodes demo-enclave test check suites rust c header cxx fortran mpi nodes nodes-kills pairs tcasm xpmem memory slurm
.PHONY: crash machines simulators planted arenas miri sanitize checkpoint model python formats kernels readme quick rivals bench objects-bench abacus-bench drepl-bench etcd-bench link-bench nodes-bench pages-faults pages-bench roster-bench tcasm-bench analysis-bench checkpoint-bench first-write-bench enclave-bench languages soak clean

help: ## list these commands
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 14

build: ## build the library and the command line (target/release/still)
	scripts/setup.sh export
	$(BUILD)

install: build ## into PREFIX (/usr/local), below DESTDIR if that is set: docs/install.md
	scripts/install.sh

uninstall: ## out of PREFIX again
	scripts/install.sh uninstall

# One after the other: at once, maturin unpacks the sources, and builds all that they depend on there once more.
wheel: ## a wheel for Python 3.11 and later, and the same as sources, in target/dist
	scripts/setup.sh dist
	target/venv/bin/maturin sdist --out target/dist
	target/venv/bin/maturin build -q --release --out target/dist --interpreter $(PYTHON)

install-test: ## users' projects against an installed tree, the wheel and the Spack recipe: what docs/install.md says
	scripts/setup.sh test cxx fortran cmake pkg-config
	$(BUILD)
	$(MAKE) wheel
	$(PYTHON) -m pytest -q tests/install

demo: ## a real LAMMPS run, published every step, with two observers; pictures in demo-output/
	scripts/setup.sh demo
	target/lammps/bin/python examples/lammps/demo.py $(ARGS)

demo-objects: ## an object that 4 processes write, and 3 others read in other blocks; pictures in demo-output/
	scripts/setup.sh plots
	$(BUILD)
	$(PYTHON) examples/objects/demo.py --still target/release/still $(ARGS)

demo-nodes: ## a simulation over two nodes made of this machine, and an observer on a third; pictures in demo-output/
	scripts/setup.sh plots nodes
	$(BUILD)
	$(PYTHON) examples/nodes/demo.py --still $${CARGO_TARGET_DIR:-target}/release/still $(ARGS)

demo-enclave: ## a simulation in an emulated virtual machine, and an observer on its host; a picture in demo-output/
	scripts/setup.sh plots kernels
	$(BUILD)
	$(MAKE) -C examples/enclaves
	$(PYTHON) examples/enclaves/demo.py $(ARGS)

test: ## everything, as CI runs it
	scripts/test.sh

check: ## formatter, linter, and links in the documentation
	scripts/setup.sh export
	cargo fmt --all --check
	RUSTDOCFLAGS="-D warnings" cargo doc -q --no-deps --workspace --exclude stillframe-python
	features=$$(scripts/setup.sh export-features); \
	cargo clippy --workspace $${features:---exclude stillframe-export} --all-targets --all-features -- -D warnings
	$(LOOM) cargo clippy -p stillframe-protocol --all-targets -- -D warnings

suites: ## rust, c, tcasm, xpmem and memory at once, for which everything is built once
	scripts/setup.sh export c tcasm xpmem memory etcd fabric containers
	cargo test -p stillframe-header
	$(TESTS) --no-fail-fast

rust: ## unit, property, documentation and command-line tests
	scripts/setup.sh export etcd fabric containers
	cargo test --workspace --exclude stillframe-python --exclude stillframe-header --exclude stillframe-c \
		--exclude stillframe-tcasm --exclude stillframe-xpmem --exclude stillframe-memory $$(scripts/setup.sh export-features)

c: ## the C interface, from C programs; also under valgrind and the compiler's sanitizers
	scripts/setup.sh c
	cargo test -p stillframe-header
	cargo test -p stillframe-c

header: ## make bindings/c/include/stillframe.h anew from the sources
	STILLFRAME_WRITE_HEADER=1 cargo test -q -p stillframe-header the_committed_header

cxx: ## the C++ headers
	scripts/setup.sh cxx valgrind
	$(BUILD)
	bindings/cxx/tests/run.sh $${CARGO_TARGET_DIR:-target}/release

fortran: ## the Fortran module
	scripts/setup.sh test fortran valgrind
	$(BUILD)
	$(PYTHON) -m pytest -q bindings/fortran/tests

mpi: ## the heat equation over MPI, in all languages, with messages and as an object
	scripts/setup.sh test cxx fortran mpi
	$(BUILD)
	$(MAKE) -C examples/heat
	$(MAKE) -C examples/objects
	$(PYTHON) -m pytest -q tests/mpi
	scripts/setup.sh openmpi
	tests/mpi/openmpi.sh

# libfabric 1.17 may crash where both ends are one process, so these are not in `make test`: that has two processes.
fabric: ## versions over libfabric, also between two ends in one process
	scripts/setup.sh etcd fabric
	STILLFRAME_TEST_FABRIC=1 cargo test -p stillframe-fabric
	STILLFRAME_TEST_FABRIC=1 cargo test -p stillframe-node --test service libfabric

# In target/debug, as all that is built with named points.
nodes-kills: ## ranks, runtimes and etcd over nodes, killed at every named point and at random: ARGS="--kills 1000" takes 20 minutes to an hour
	scripts/setup.sh nodes
	cargo build $(FEATURES)
	python3 tests/nodes/kills.py $(ARGS)

nodes: ## objects over nodes made of this machine: killed, cut off, parted, with delay and loss
	scripts/setup.sh test nodes
	$(BUILD)
	$(PYTHON) -m pytest -q tests/nodes

slurm: ## the job scripts of docs/slurm.md, in a Slurm of one node that is started for them; needs root
	scripts/setup.sh python slurm
	$(BUILD)
	tests/slurm/run.sh

pairs: ## what each language publishes, each language reads
	scripts/setup.sh python cxx fortran
	$(BUILD)
	tests/pairs/build.sh
	PYTHON=$(PYTHON) tests/pairs/run.py --programs $${CARGO_TARGET_DIR:-target}/pairs
	PYTHON=$(PYTHON) tests/pairs/objects.py --programs $${CARGO_TARGET_DIR:-target}/pairs

tcasm: ## programs written for TCASM's interface, in C, in Fortran and under MPI
	scripts/setup.sh tcasm
	cargo test -p stillframe-tcasm

xpmem: ## programs written for XPMEM, XEMEM and XASM, in C; as root also those of other users
	scripts/setup.sh xpmem
	cargo test -p stillframe-xpmem

memory: ## programs whose memory lies in a pool of large pages; as root: ARGS="random" STILLFRAME_TEST_RUNS=1000 for hours of random calls
	scripts/setup.sh memory
	cargo test -p stillframe-memory $(ARGS)

crash: ## producers, observers and ranks killed at every named point
	scripts/setup.sh export
	$(TESTS) --test kill --test groups --test compact --test interrupted --test syncs
	$(TESTS) --lib arena
	$(MAKE) simulators

simulators: RUNS ?= 10000
simulators: ## producers, observers and stores that stop at any instant, for longer than in suites: RUNS=10000
	scripts/setup.sh export
	STILLFRAME_TEST_RUNS=$(RUNS) $(TESTS) --test simulator
	STILLFRAME_TEST_RUNS=$(RUNS)0 $(TESTS) --test simulator whatever_is_lost

miri: ## the crates without unsafe code in Miri, where the nightly toolchain has it (rustup component add miri --toolchain nightly)
	cargo +nightly miri test -p stillframe-protocol -p stillframe-segment --lib

sanitize: ## the crates with unsafe code, and the simulator, with the address sanitizer of the compiler
	scripts/setup.sh
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=target/sanitize cargo test --target $$(rustc -vV | sed -n 's/host: //p') \
		-p stillframe-kernel -p stillframe --features stillframe/points --lib --test simulator --test histories --test freed

arenas: ## the suites of regions and checkpoints once more, with all regions in arenas
	scripts/setup.sh export
	STILLFRAME_TEST_PLACE=arena $(TESTS) --test accepted --test aside --test company \
		--test edges --test freed --test compact --test global --test group_end --test groups --test histories --test kill \
		--test numbers --test own --test parts --test pinned --test recovery --test resize --test restart --test restore --test rules \
		--test staging --test stepping --test trackers --test waiting

checkpoint: ## still checkpoint as a whole, killed at every named point, and the store on disks that stop at any instant
	scripts/setup.sh export
	$(TESTS) --test checkpoint
	STILLFRAME_TEST_RUNS=100000 $(TESTS) --test simulator whatever_is_lost

model: ## the publish, lease and retire protocol under a model checker
	scripts/setup.sh
	$(LOOM) cargo test -p stillframe-protocol --release --test model --test enclaves

python: ## the Python package: its tests and its types
	scripts/setup.sh test
	$(PYTHON) -m pytest -q
	$(PYTHON) -m mypy

formats: ## checkpoints and exports, opened by zarr-python, xarray, h5py and netCDF4
	scripts/setup.sh export formats
	$(BUILD)
	$(PYTHON) -m pytest -q tests/formats

kernels: ## the suite of the trackers on another kernel, and large pages of several memory nodes, under emulation
	scripts/setup.sh kernels
	$(BUILD)
	tests/kernels/trackers.sh
	tests/kernels/pages.sh
	tests/kernels/dax.sh
	tests/kernels/snapshot.sh
	STILLFRAME_TEST_BUILD="$(FEATURES)" tests/kernels/enclave.sh

machines: ## versions between emulated machines and their host, ARGS="VERSIONS TIMES SECONDS"; a short form is in `kernels`
	scripts/setup.sh kernels
	$(BUILD)
	STILLFRAME_TEST_BUILD="$(FEATURES)" tests/kernels/enclave.sh $(ARGS)

readme: ## the commands and programs of the README and of the pages for beginners, run as printed
	scripts/setup.sh test cxx fortran export formats
	$(BUILD)
	PYTHON=$(PYTHON) tests/readme.py

quick: ## every benchmark and the demonstrations in their short form
	scripts/setup.sh demo plots fortran mpi
	$(BUILD)
	benches/languages/build.sh
	benches/checkpoint/build.sh
	benches/pages/build.sh
	tests/quick.sh

rivals: ## beside POSIX shared memory, Boost.Interprocess, iceoryx2 and ADIOS2
	scripts/setup.sh rivals
	CARGO_TARGET_DIR=target/rivals cargo run --release --manifest-path benches/rivals/Cargo.toml --features ours -- $(ARGS)

bench: ## all benchmarks at full size; takes about half an hour
	scripts/setup.sh
	cargo build --release -p still
	target/release/still bench all $(ARGS)

objects-bench: ## ghost cells from objects beside MPI messages
	scripts/setup.sh test mpi
	$(BUILD)
	$(PYTHON) benches/objects/run.py $(ARGS)

abacus-bench: ## what a time step per executable costs, with mapped files and here; needs 16 GiB of memory
	scripts/setup.sh plots
	cargo build --release -p abacus-bench
	target/release/abacus-bench --json $(ARGS) > target/abacus.jsonl
	$(PYTHON) benches/abacus/plot.py target/abacus.jsonl target/abacus.png

drepl-bench: ## moving data from one layout to another, beside hand-written loops, numpy and memcpy
	scripts/setup.sh plots
	cargo build --release -p drepl-bench
	target/release/drepl-bench --json $(ARGS) > target/drepl.jsonl
	$(PYTHON) benches/drepl/beside_numpy.py --json $(ARGS) >> target/drepl.jsonl
	$(PYTHON) benches/drepl/plot.py target/drepl.jsonl target/drepl.png
	target/release/drepl-planning --json $(filter --quick,$(ARGS)) > target/drepl-planning.jsonl

etcd-bench: ## creating objects in etcd beside plain puts
	scripts/setup.sh etcd
	cargo build --release -p etcd-bench
	target/release/etcd-bench $(ARGS)

link-bench: ## bulk between two threads over TCP, beside the same in C, and over libfabric
	scripts/setup.sh link fabric
	cargo build --release -p link-bench
	python3 benches/link/run.py $(ARGS)

roster-bench: ## the home of an object with up to 1000 nodes and 100 000 fragments, in one process; needs 2 GiB of memory
	cargo build --release -p roster-bench
	target/release/roster-bench --each 100 $(ARGS)
	target/release/roster-bench --fragments 100 --nodes 1000 $(ARGS)

nodes-bench: ## versions to another node made of this machine, beside the same bytes over TCP, MPI, ADIOS2 and plain etcd
	scripts/setup.sh link nodes etcd mpi sst
	$(BUILD)
	python3 benches/nodes/run.py $(ARGS)

pages-faults: ## what a first touch, its zeros, a miss and a merge cost, in pages of each kind, beside a kernel that is built; root for reserved pages
	scripts/setup.sh pages
	cargo build --release -p pages-bench
	benches/pages/faults.py $(ARGS)

pages-bench: ## whole programs in large pages of each kind, alone and beside a kernel that is built; root, 16 GiB of memory, half a day
	scripts/setup.sh pages pages-programs
	$(BUILD)
	benches/pages/build.sh
	$(PYTHON) benches/pages/run.py --json target/pages.jsonl --picture target/pages.png $(ARGS)

tcasm-bench: ## what the TCASM paper measured, on this machine
	scripts/setup.sh
	cargo build --release -p still -p stillframe-tcasm -p tcasm-bench
	target/release/tcasm-bench $(ARGS)

analysis-bench: ## Gray-Scott with its analysis beside it, against the same analysis compiled in
	scripts/setup.sh plots
	$(PYTHON) benches/analysis/run.py $(ARGS)

first-write-bench: ## the first write to a page after a publish, in cycles, with each tracker; a picture in target/first-write.png
	scripts/setup.sh plots
	$(BUILD)
	target/release/still bench first-write --json $(ARGS) > target/first-write.jsonl
	$(PYTHON) benches/first-write/plot.py target/first-write.jsonl target/first-write.png

enclave-bench: ## heat that publishes every step, with an observer in another container that makes spectra, and alone; two processors
	scripts/setup.sh python
	$(BUILD)
	$(PYTHON) benches/enclave/run.py $(ARGS)

checkpoint-bench: ## what checkpoints cost a running simulation, how fast they are written, and how much of them
	scripts/setup.sh plots mpi
	$(BUILD)
	benches/checkpoint/build.sh
	$(PYTHON) benches/checkpoint/run.py $(ARGS)

languages: ## the benchmarks publish and rate through C and Fortran, beside Rust
	scripts/setup.sh fortran
	$(BUILD)
	benches/languages/build.sh
	benches/languages/run.py $(ARGS)

planted: ## bugs planted into copies of the engine and of the store, which their simulators have to catch
	scripts/setup.sh
	tests/planted/run.py $(ARGS)

soak: ## each simulator for an hour; the crash, checkpoint and tracker tests at length
	scripts/setup.sh
	STILLFRAME_TEST_SECONDS=3600 CARGO_TARGET_DIR=target/points cargo test --release -p stillframe --features points --test simulator \
		-- --nocapture
	STILLFRAME_TEST_SECONDS=3600 CARGO_TARGET_DIR=target/points cargo test --release -p stillframe-checkpoint --features points \
		--test simulator -- --nocapture
	STILLFRAME_TEST_KILLS=1000 CARGO_TARGET_DIR=target/points cargo test --release -p stillframe --features points --test kill
	STILLFRAME_TEST_KILLS=1000 CARGO_TARGET_DIR=target/points cargo test --release -p still --features points --test checkpoint
	$(MAKE) nodes-kills ARGS="--kills 1000"
	STILLFRAME_TEST_VERSIONS=3000 cargo test --release -p stillframe --test trackers --test parts
	STILLFRAME_TEST_HISTORIES=10000 cargo test --release -p stillframe --test histories

clean: ## remove what was built
	rm -rf target demo-output
