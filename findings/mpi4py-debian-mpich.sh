#!/usr/bin/env bash
# mpi4py's wheel does not find Debian's MPICH, which is installed where the linker looks for libraries.
#
# Seen: mpi4py 4.1.2 from PyPI with libmpich12 4.0.2-3+b1 of Debian 12 (amd64), Python 3.11.
#
# The wheel is for every MPI library of MPICH's kind, and opens it by the name that MPICH's common ABI gives it, libmpi.so.12. Debian's
# package has the library as libmpich.so.12 only, and its own tools link against that name. `import mpi4py` succeeds; `from mpi4py
# import MPI` ends with
#   ImportError: libmpi.so.12: cannot open shared object file: No such file or directory
# So `pip install mpi4py` on a Debian with MPICH installs a package that cannot be used, and people compile it from source instead.
#
# A library of the expected name that does nothing but need Debian's is enough: the second half shows it. What it needs: MPICH
# installed by apt-get install libmpich12 (no root if it is there), cc, Python 3.11 with venv, and a package index.
set -euo pipefail

case $(dpkg-query -W -f '${Version}' libmpich12 2>/dev/null) in
    4.0.2-3*) ;;
    *) echo "needs Debian 12's libmpich12 4.0.2-3" >&2; exit 77 ;;
esac
ldconfig=$(PATH=$PATH:/sbin ldconfig -p)
[[ $ldconfig != *libmpi.so.12* ]] || { echo "another MPI library has the name libmpi.so.12 here" >&2; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check --only-binary :all: mpi4py==4.1.2
cat >"$work/size.py" <<'END'
from mpi4py import MPI
print(MPI.COMM_WORLD.Get_size(), MPI.Get_library_version().split("\n")[0].split()[:2])
END

echo "as installed:"
! "$work/venv/bin/python" "$work/size.py" >"$work/first" 2>&1 || { echo "CHANGED: the wheel finds it" >&2; exit 1; }
tail -n 1 "$work/first"
grep -q '^ImportError: libmpi\.so\.12: cannot open shared object file' "$work/first" || { echo "CHANGED: another error" >&2; exit 1; }

echo "with a library of that name beside it:"
cc -x c /dev/null -shared -Wl,-soname,libmpi.so.12 -Wl,--no-as-needed -l:libmpich.so.12 -o "$work/venv/lib/libmpi.so.12"
"$work/venv/bin/python" "$work/size.py" | tee "$work/second"
grep -q "^1 \['MPICH" "$work/second" || { echo "CHANGED: the second way" >&2; exit 1; }
