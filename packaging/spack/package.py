# For a package repository of your own: docs/install.md says how. It was run over a stand-in for Spack, not by Spack
# itself: tests/install/test_spack.py says what that shows.

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Stillframe(Package):
    """Look at a running simulation without stopping it: programs publish consistent versions of their arrays through
    shared memory, and others on the node read them. Libraries for C, C++, Fortran and Python, and the command still."""

    license("MIT OR Apache-2.0")

    # No archive to fetch: the sources are those of a checkout, by spack develop or dev-build.
    version("0.1.0")

    variant("python", default=False, description="Install the Python package")

    depends_on("c", type="build")
    depends_on("rust@1.89:", type="build")

    with when("+python"):
        extends("python@3.11:")
        depends_on("py-pip", type="build")
        depends_on("py-maturin@1.9:1", type="build")
        depends_on("py-numpy@1.23:", type=("build", "run"))

    requires("platform=linux", msg="Stillframe uses Linux's own calls")

    sanity_check_is_file = [
        "bin/still",
        "include/stillframe.h",
        "include/stillframe.hpp",
        "lib/libstillframe.so",
        "lib/libstillframe.a",
        "lib/libstillframe_tcasm.so",
        "lib/libstillframe_memory.so",
        "lib/libstillframe-xpmem.so",
        "lib/libstillframe-xpmem.a",
        "include/stillframe-xpmem/xpmem.h",
        "lib/cmake/stillframe/stillframe-config.cmake",
        "lib/pkgconfig/stillframe.pc",
        "lib/pkgconfig/stillframe-xpmem.pc",
        "share/stillframe/fortran/stillframe.f90",
    ]

    def install(self, spec, prefix):
        cargo = which("cargo", required=True)
        cargo("build", "--release", "--locked", f"-j{make_jobs}")
        Executable("scripts/install.sh")(extra_env={"PREFIX": str(prefix)})
        if spec.satisfies("+python"):
            pip = spec["python"].command
            pip.add_default_arg("-m", "pip")
            options = ("--no-deps", "--no-index", "--no-build-isolation", "--no-warn-script-location")
            # Without --ignore-installed pip removes a stillframe that the Python itself has.
            pip("install", "--ignore-installed", *options, f"--prefix={prefix}", ".")

    @property
    def libs(self):
        return find_libraries("libstillframe", root=self.prefix.lib, shared=True)

    def test_version(self):
        """the command says which version it is"""
        still = Executable(self.prefix.bin.still)
        out = still("--version", output=str.split, error=str.split)
        check_outputs([str(self.spec.version)], out)

    def test_demo(self):
        """a program publishes, and others read it and draw what they see"""
        still = Executable(self.prefix.bin.still)
        still("demo", "--quick", "--out", "pictures")
