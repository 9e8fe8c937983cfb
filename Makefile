# Stillframe: the commands a newcomer and a maintainer need. `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
PYTHON := target/venv/bin/python
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# What users get: in $(TARGET)/release. One command for all, and no choice of packages but the workspace's own: another is another
# choice of features, and builds everything again.
# Programs that are linked against the library look for it by its soname when they start.
# still-export is among them where its libraries are.
BUILD := cargo build --locked --release $$(scripts/setup.sh export-features) && ln -sf libstillframe.so $(TARGET)/release/libstillframe.so.0 && \
	ln -sf libstillframe_xpmem.so $(TARGET)/release/libstillframe-xpmem.so.0
# What is tested: in $(TARGET)/debug, with the named points at which tests kill. One command builds all of it, for every language, and
# whatever tests it takes it from there.
# Each build is of this kind: another would be another choice. What the compiler keeps for the next time takes it a fifth longer.
export CARGO_INCREMENTAL ?= 0
FEATURES := --features stillframe/points,still/points,stillframe-node/points,stillframe-nodes-rank/points $$(scripts/setup.sh export-features)
CHOICE := --locked --workspace $(FEATURES)
TEST_BUILD := cargo build --lib --bins --tests $(CHOICE) && ln -sf libstillframe.so $(TARGET)/debug/libstillframe.so.0 && scripts/link_package.py $(TARGET)/debug
# Installing LAMMPS is mostly waiting for a registry, so the build runs meanwhile.
SHORT_DEMO_BUILD = scripts/setup.sh export && { env --default-signal=INT,QUIT scripts/setup.sh demo-short & status=0; { $(TEST_BUILD); } || status=$$?; wait $$! && exit $$status; }
# Property tests play the same cases each time, unless PROPTEST_RNG_SEED says otherwise, and whatever failed before; so do ours, with
# STILLFRAME_TEST_SEED.
TESTED := PROPTEST_RNG_SEED=$${PROPTEST_RNG_SEED-1} PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 STILLFRAME_BUILT=$(TARGET)/debug PYTHONPATH=$(TARGET)/debug/python PYTHON=$(abspath $(PYTHON))
PYTEST := $(TESTED) $(PYTHON) -m pytest -q
# A process per test. Where there is no nextest, cargo runs them: what a profile leaves out, too.
NEXTEST := $(TESTED) scripts/nextest.sh --tests $(CHOICE)
# The MPI that scripts/mpi.sh found.
export PATH := $(CURDIR)/target/mpi/bin:$(PATH)
LOOM := RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=$(TARGET)/loom

.PHONY: $(shell sed -n 's/^\([a-z-]*\):.*\#\#.*/\1/p' Makefile)

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
	scripts/setup.sh test cxx fortran cmake pkg-config wheel
	$(BUILD)
	$(MAKE) wheel
	$(PYTHON) -m pytest -q tests/install

demo: ## a real LAMMPS run, published every step, with two observers; pictures in demo-output/; SHORT=1 for a small one with what tests build
	$(if $(SHORT),$(SHORT_DEMO_BUILD),scripts/setup.sh demo)
	$(if $(SHORT),$(TESTED)) target/lammps/bin/python examples/lammps/demo.py $(if $(SHORT),--cells 10 --steps 50 --repeats 2) $(ARGS)

demo-objects: ## an object that 4 processes write, and 3 others read in other blocks; pictures in demo-output/
	scripts/setup.sh plots wheel
	$(BUILD)
	$(PYTHON) examples/objects/demo.py --still target/release/still $(ARGS)

demo-nodes: ## a simulation over two nodes made of this machine, and an observer on a third; pictures in demo-output/
	scripts/setup.sh plots nodes wheel
	$(BUILD)
	$(PYTHON) examples/nodes/demo.py --still $${CARGO_TARGET_DIR:-target}/release/still $(ARGS)

demo-enclave: ## a simulation in an emulated virtual machine, and an observer on its host; a picture in demo-output/
	scripts/setup.sh plots wheel kernels
	$(BUILD)
	$(MAKE) -C examples/enclaves
	$(PYTHON) examples/enclaves/demo.py $(ARGS)

test: ## all tests in their short form, as CI runs them
	scripts/test.sh

test-long: ## all that `make test` leaves out, which takes hours: docs/testing.md
	scripts/test.sh --long

test-build: ## what `make test` builds: all that cargo tests, the libraries and commands for the other languages, the Python package
	scripts/setup.sh export
	$(TEST_BUILD)

check: ## formatter and linter
	scripts/setup.sh export
	cargo fmt --all --check
	features=$$(scripts/setup.sh export-features); \
	cargo clippy --locked --workspace $${features:---exclude stillframe-export} --all-targets --all-features -- -D warnings

check-long: ## links in the documentation of the code, and the linter where the model checker is
	RUSTDOCFLAGS="-D warnings" cargo doc --locked -q --no-deps --workspace --exclude stillframe-python
	$(LOOM) cargo clippy --locked -p stillframe-protocol --all-targets -- -D warnings

suites: ## all tests of cargo, in their short form: ARGS="-E 'package(still) & test(/^step::/)'" chooses
	scripts/setup.sh export c tcasm xpmem memory etcd fabric containers nextest
	$(TEST_BUILD)
	$(NEXTEST) --profile default $(ARGS)
	cargo test --doc $(CHOICE)

suites-long: ## all tests of cargo at length, with those that the short form leaves out
	scripts/setup.sh export c tcasm xpmem memory etcd fabric containers valgrind nextest
	$(TEST_BUILD)
	$(NEXTEST) --profile long $(ARGS)

c: ## the C interface, from C programs
	$(MAKE) suites ARGS="-E 'package(stillframe-c) | package(stillframe-header)'"

tcasm: ## programs written for TCASM's interface, in C, in Fortran and under MPI
	$(MAKE) suites ARGS="-E 'package(stillframe-tcasm)'"

xpmem: ## programs written for XPMEM, XEMEM and XASM, in C; as root also those of other users
	$(MAKE) suites ARGS="-E 'package(stillframe-xpmem)'"

memory: ## programs whose memory lies in a pool of large pages
	$(MAKE) suites ARGS="-E 'package(stillframe-memory)'"

header: ## make bindings/c/include/stillframe.h anew from the sources
	STILLFRAME_WRITE_HEADER=1 cargo test --locked -q -p stillframe-header the_committed_header

cxx: ## the C++ headers
	scripts/setup.sh cxx
	$(TEST_BUILD)
	$(TESTED) bindings/cxx/tests/run.sh

cxx-long: ## the same with every standard and compiler, under sanitizers and valgrind
	scripts/setup.sh cxx valgrind
	$(TEST_BUILD)
	$(TESTED) bindings/cxx/tests/run.sh --long

fortran: ## the Fortran module
	scripts/setup.sh fortran
	$(TEST_BUILD)
	$(PYTEST) bindings/fortran/tests

fortran-long: ## the same through the optimizer, and under valgrind
	scripts/setup.sh fortran valgrind
	$(TEST_BUILD)
	$(PYTEST) -m long bindings/fortran/tests

# The Fortran module takes the optimizer longer than all programs together, and has nothing to compute.
MPI_PROGRAMS = $(TEST_BUILD) && for example in heat objects; do \
	$(MAKE) -s -j$$(nproc) -C examples/$$example LIBRARY=$(TARGET)/debug OUT=$(TARGET)/debug/languages/$$example \
		MODULE=-O0 FLAGS='-O1 -Wall -Wextra -ffp-contract=off'; done

mpi: ## the heat equation over MPI, in all languages, with messages and as an object
	scripts/setup.sh cxx fortran mpi
	$(MPI_PROGRAMS)
	$(PYTEST) tests/mpi

mpi-long: ## the same in all divisions, and accidents
	scripts/setup.sh cxx fortran mpi
	$(MPI_PROGRAMS)
	$(PYTEST) -m long tests/mpi
	scripts/setup.sh openmpi
	$(TESTED) tests/mpi/openmpi.sh

# libfabric 1.17 may crash where both ends are one process, so these are not in `make test`: that has two processes.
fabric: ## versions over libfabric, also between two ends in one process
	scripts/setup.sh etcd fabric nextest
	STILLFRAME_TEST_FABRIC=1 $(NEXTEST) --profile long -E 'package(stillframe-fabric) | (package(stillframe-node) & test(/^service::.*libfabric/))'

nodes: ## objects over nodes made of this machine
	scripts/setup.sh nodes
	$(TEST_BUILD)
	$(PYTEST) tests/nodes

nodes-long: ## nodes that are killed, cut off, parted, with delay and loss
	scripts/setup.sh nodes
	$(TEST_BUILD)
	$(PYTEST) -m long tests/nodes

nodes-kills: ## ranks, runtimes and etcd over nodes, killed at every named point and at random: ARGS="--kills 1000" takes 20 minutes to an hour
	scripts/setup.sh nodes
	$(TEST_BUILD)
	$(TESTED) $(PYTHON) tests/nodes/kills.py $(ARGS)

slurm: ## the job scripts of docs/slurm.md, in a Slurm of one node that is started for them; needs root
	scripts/setup.sh numpy slurm
	$(TEST_BUILD)
	$(TESTED) tests/slurm/run.sh

pairs: ## what each language publishes, each language reads
	scripts/setup.sh cxx fortran numpy
	$(TEST_BUILD)
	$(TESTED) tests/pairs/build.sh
	$(TESTED) tests/pairs/run.py --programs $(TARGET)/debug/pairs
	$(TESTED) tests/pairs/objects.py --programs $(TARGET)/debug/pairs

crash: ## producers, observers and ranks killed at every named point
	$(MAKE) suites-long ARGS="-E 'test(/^(kill|groups|compact|interrupted|syncs)::/) | test(/^place::arena/)'"
	$(MAKE) simulators

simulators: RUNS ?= 10000
simulators: ## producers, observers and stores that stop at any instant, for longer than in suites: RUNS=10000
	scripts/setup.sh export nextest
	STILLFRAME_TEST_RUNS=$(RUNS) $(NEXTEST) --profile long --no-capture -E 'package(stillframe) & test(/^simulator::/)'
	STILLFRAME_TEST_RUNS=$(RUNS)0 $(NEXTEST) --profile long --no-capture -E 'package(stillframe-checkpoint) & test(/^simulator::/)'

miri: ## the crates without unsafe code in Miri, where the nightly toolchain has it (rustup component add miri --toolchain nightly)
	cargo +nightly miri test -p stillframe-protocol -p stillframe-segment --lib

sanitize: ## the crates with unsafe code, and the simulator, with the address sanitizer of the compiler
	scripts/setup.sh
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(TARGET)/sanitize cargo test --locked --target $$(rustc -vV | sed -n 's/host: //p') \
		-p stillframe-kernel -p stillframe --features stillframe/points --lib
	RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$(TARGET)/sanitize cargo test --locked --target $$(rustc -vV | sed -n 's/host: //p') \
		-p stillframe-kernel -p stillframe --features stillframe/points --test it -- simulator:: histories:: freed::

# Of the engine and of checkpoints, the modules that make regions where STILLFRAME_TEST_PLACE says.
ARENAS := (package(stillframe) & test(/^(accepted|aside|borrowed|company|edges|freed|compact|global|group_end|groups|histories|kill|numbers|own|parts|pinned|recovery|resize|restart|rules|staging|stepping|trackers|waiting)::/)) | (package(stillframe-checkpoint) & test(/^(recovery|restore)::/))
arenas: ## the suites of regions and checkpoints once more, with all regions in arenas
	scripts/setup.sh export nextest
	STILLFRAME_TEST_PLACE=arena $(NEXTEST) --profile long -E '$(ARENAS)'

checkpoint: ## still checkpoint as a whole, killed at every named point, and the store on disks that stop at any instant
	scripts/setup.sh export nextest
	$(NEXTEST) --profile long -E 'package(still) & test(/^checkpoint/)'
	STILLFRAME_TEST_RUNS=100000 $(NEXTEST) --profile long --no-capture -E 'package(stillframe-checkpoint) & test(/^simulator::/)'

model: ## the publish, lease and retire protocol under a model checker
	scripts/setup.sh
	$(LOOM) cargo test --locked -p stillframe-protocol --release --test it

python: ## the Python package: its tests and its types
	scripts/setup.sh test
	$(TEST_BUILD)
	$(PYTEST)
	$(PYTHON) -m mypy

formats: ## checkpoints and exports, opened by zarr-python, xarray, h5py and netCDF4
	scripts/setup.sh export formats
	$(TEST_BUILD)
	$(PYTEST) tests/formats

readers: ## checkpoints, opened by each reader of Zarr in the table of docs/formats.md
	scripts/setup.sh export formats readers
	$(TEST_BUILD)
	$(PYTEST) -m long tests/formats

newest: ## the Python package and its formats with the newest Python that is there and the newest versions of what they use
	export STILLFRAME_REQUIREMENTS=scripts/requirements-newest.txt STILLFRAME_VENV=$(TARGET)/newest; \
	PYTHON=$$(compgen -c python3. | grep -xE 'python3\.[0-9]+' | sort -uV | tail -n 1 || echo python3) scripts/setup.sh export test formats
	$(TEST_BUILD)
	$(MAKE) newest-tests PYTHON=$(TARGET)/newest/bin/python

newest-tests:
	$(PYTEST)
	$(PYTEST) tests/formats

kernels: ## the suite of the trackers on another kernel, and large pages of several memory nodes, under emulation
	scripts/setup.sh kernels
	$(BUILD)
	FEATURES="$(FEATURES)" tests/kernels/trackers.sh
	tests/kernels/pages.sh
	tests/kernels/dax.sh
	tests/kernels/snapshot.sh
	FEATURES="$(FEATURES)" tests/kernels/enclave.sh

machines: ## versions between emulated machines and their host, ARGS="VERSIONS TIMES SECONDS"; a short form is in `kernels`
	scripts/setup.sh kernels
	$(BUILD)
	FEATURES="$(FEATURES)" tests/kernels/enclave.sh $(ARGS)

readme: ## the README's commands and programs, run as printed, and all links
	scripts/setup.sh numpy
	$(TEST_BUILD)
	$(TESTED) tests/readme.py --only README.md
	tests/readme.py --links

readme-long: ## the commands and programs of the README and of the pages for beginners, run as printed
	scripts/setup.sh wheel test cxx fortran export formats plots
	$(BUILD)
	STILLFRAME_BUILT=$(TARGET)/release PYTHON=$(PYTHON) tests/readme.py

quick: ## every benchmark and the demonstrations in their short form
	scripts/setup.sh demo wheel plots fortran mpi rivals
	$(BUILD)
	benches/languages/build.sh
	benches/checkpoint/build.sh
	benches/pages/build.sh
	tests/quick.sh

rivals: ## beside POSIX shared memory, Boost.Interprocess, iceoryx2 and ADIOS2
	scripts/setup.sh rivals
	CARGO_TARGET_DIR=target/rivals cargo run --locked --release --manifest-path benches/rivals/Cargo.toml --features ours -- $(ARGS)

bench: ## all benchmarks at full size; takes about half an hour
	scripts/setup.sh
	cargo build --locked --release -p still
	target/release/still bench all $(ARGS)

objects-bench: ## ghost cells from objects beside MPI messages
	scripts/setup.sh test mpi wheel
	$(BUILD)
	$(PYTHON) benches/objects/run.py $(ARGS)

abacus-bench: ## what a time step per executable costs, with mapped files and here; needs 16 GiB of memory
	scripts/setup.sh plots wheel
	cargo build --locked --release -p abacus-bench
	target/release/abacus-bench --json $(ARGS) > target/abacus.jsonl
	$(PYTHON) benches/abacus/plot.py target/abacus.jsonl target/abacus.png

drepl-bench: ## moving data from one layout to another, beside hand-written loops, numpy and memcpy
	scripts/setup.sh plots wheel
	cargo build --locked --release -p drepl-bench
	target/release/drepl-bench --json $(ARGS) > target/drepl.jsonl
	$(PYTHON) benches/drepl/beside_numpy.py --json $(ARGS) >> target/drepl.jsonl
	$(PYTHON) benches/drepl/plot.py target/drepl.jsonl target/drepl.png
	target/release/drepl-planning --json $(filter --quick,$(ARGS)) > target/drepl-planning.jsonl

etcd-bench: ## creating objects in etcd beside plain puts
	scripts/setup.sh etcd
	cargo build --locked --release -p etcd-bench
	target/release/etcd-bench $(ARGS)

link-bench: ## bulk between two threads over TCP, beside the same in C, and over libfabric
	scripts/setup.sh link fabric
	cargo build --locked --release -p link-bench
	python3 benches/link/run.py $(ARGS)

roster-bench: ## the home of an object with up to 1000 nodes and 100 000 fragments, in one process; needs 2 GiB of memory
	cargo build --locked --release -p roster-bench
	target/release/roster-bench --each 100 $(ARGS)
	target/release/roster-bench --fragments 100 --nodes 1000 $(ARGS)

nodes-bench: ## versions to another node made of this machine, beside the same bytes over TCP, MPI, ADIOS2 and plain etcd
	scripts/setup.sh link nodes etcd mpi sst wheel
	$(BUILD)
	python3 benches/nodes/run.py $(ARGS)

pages-faults: ## what a first touch, its zeros, a miss and a merge cost, in pages of each kind, beside a kernel that is built; root for reserved pages
	scripts/setup.sh pages
	cargo build --locked --release -p pages-bench
	benches/pages/faults.py $(ARGS)

pages-bench: ## whole programs in large pages of each kind, alone and beside a kernel that is built; root, 16 GiB of memory, half a day
	scripts/setup.sh pages pages-programs wheel
	$(BUILD)
	benches/pages/build.sh
	$(PYTHON) benches/pages/run.py --json target/pages.jsonl --picture target/pages.png $(ARGS)

tcasm-bench: ## what the TCASM paper measured, on this machine
	scripts/setup.sh
	cargo build --locked --release -p still -p stillframe-tcasm -p tcasm-bench
	target/release/tcasm-bench $(ARGS)

analysis-bench: ## Gray-Scott with its analysis beside it, against the same analysis compiled in
	scripts/setup.sh plots wheel
	$(PYTHON) benches/analysis/run.py $(ARGS)

first-write-bench: ## the first write to a page after a publish, in cycles, with each tracker; a picture in target/first-write.png
	scripts/setup.sh plots wheel
	$(BUILD)
	target/release/still bench first-write --json $(ARGS) > target/first-write.jsonl
	$(PYTHON) benches/first-write/plot.py target/first-write.jsonl target/first-write.png

enclave-bench: ## heat that publishes every step, with an observer in another container that makes spectra, and alone; two processors
	scripts/setup.sh wheel
	$(BUILD)
	$(PYTHON) benches/enclave/run.py $(ARGS)

checkpoint-bench: ## what checkpoints cost a running simulation, how fast they are written, and how much of them
	scripts/setup.sh plots mpi wheel
	$(BUILD)
	benches/checkpoint/build.sh
	$(PYTHON) benches/checkpoint/run.py $(ARGS)

languages: ## the benchmarks publish and rate through C and Fortran, beside Rust
	scripts/setup.sh fortran wheel
	$(BUILD)
	benches/languages/build.sh
	benches/languages/run.py $(ARGS)

planted: ## bugs planted into copies of the engine and of the store, which their simulators have to catch
	scripts/setup.sh
	tests/planted/run.py $(ARGS)

soak: SECONDS ?= 3600
soak: ## each simulator for an hour, or SECONDS; the crash, checkpoint and tracker tests at length
	scripts/setup.sh export nodes nextest
	$(TEST_BUILD)
	STILLFRAME_TEST_SECONDS=$(SECONDS) $(NEXTEST) --profile soak --no-capture -E 'test(/^simulator::/)'
	STILLFRAME_TEST_KILLS=1000 $(NEXTEST) --profile soak -E '(package(stillframe) & test(/^kill::/)) | (package(still) & test(/^checkpoint::/))'
	STILLFRAME_TEST_VERSIONS=3000 STILLFRAME_TEST_HISTORIES=10000 $(NEXTEST) --profile soak \
		-E 'package(stillframe) & test(/^(trackers|parts|histories)::/)'
	$(MAKE) nodes-kills ARGS="--kills 1000"

clean: ## remove what was built
	rm -rf target demo-output
