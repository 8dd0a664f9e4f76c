# SPDX-License-Identifier: BSD-3-Clause
# docs/packages.md says how a site uses it. What is installed is up to CMake's install().

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Amalgam(CMakePackage):
    """RPC and bulk data over transport plugins, with the API of Mercury 2.4."""

    license("BSD-3-Clause")

    # There is no address to load it from: an archive of the tree in a mirror or in the current
    # folder, or `spack dev-build` in the tree itself.
    manual_download = True
    url = f"file://{os.getcwd()}/amalgam-1.1.0.tar.gz"  # Spack puts in the version that it wants

    version("1.1.0")

    # Transports. Those through shared memory and of faults need nothing, and are always built.
    variant("ofi", default=True, description="Transport over libfabric")
    variant("ucx", default=False, description="Transport over UCX")
    variant("mpi", default=False, description="Transport over Open MPI or MPICH")
    variant("bmi", default=False, description="Transport over BMI's TCP method")

    variant("tools", default=True, description="hg_info, hg_perf, hg_cp and na_conformance")
    variant("static", default=False, description="Static libraries beside the shared ones")
    variant("mercury", default=False, description="For programs that look for Mercury")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("pkgconfig", type="build")

    depends_on("xxhash")
    depends_on("libsodium@1.0.18:")
    depends_on("json-c", when="+tools")
    depends_on("libfabric@1.17:", when="+ofi")
    depends_on("hwloc@2:", when="+ofi")
    depends_on("ucx@1.10:+thread_multiple", when="+ucx")
    depends_on("mpi", when="+mpi")
    requires("^[virtuals=mpi] openmpi", "^[virtuals=mpi] mpich", policy="one_of", when="+mpi")
    # Its headers for the preprocessor, which clients of Mercury's macros use.
    depends_on("boost", when="+mercury", type=("build", "link", "run"))

    @property
    def download_instr(self):
        return (
            f"No mirror and no current folder has amalgam-{self.version}.tar.gz. "
            "Amalgam's docs/packages.md says how it is made of the tree."
        )

    def cmake_args(self):
        return [
            # What the compiler finds on this machine decides nothing.
            self.define("AMALGAM_BUILD_TESTS", False),
            self.define("AMALGAM_USDT", False),
            self.define_from_variant("AMALGAM_BUILD_TOOLS", "tools"),
            self.define_from_variant("AMALGAM_BUILD_STATIC", "static"),
            self.define_from_variant("AMALGAM_BUILD_MERCURY", "mercury"),
            self.define_from_variant("NA_OFI", "ofi"),
            self.define_from_variant("NA_UCX", "ucx"),
            self.define("NA_MPI", self.mpi_of_the_plugin()),
            self.define("NA_BMI", "embedded" if self.spec.satisfies("+bmi") else "OFF"),
        ]

    def mpi_of_the_plugin(self):
        if not self.spec.satisfies("+mpi"):
            return "OFF"
        return "openmpi" if self.spec["mpi"].name == "openmpi" else "mpich"

    def test_endpoints(self):
        """Over each transport that needs no launcher, hg_info copies data from an endpoint to another."""
        if self.spec.satisfies("~tools"):
            raise SkipTest("hg_info is installed by +tools")
        hg_info = Executable(self.prefix.bin.hg_info)
        for init, variant in ("na+sm", None), ("ofi+tcp", "+ofi"), ("ucx+tcp", "+ucx"), ("bmi+tcp", "+bmi"):
            if variant is None or self.spec.satisfies(variant):
                with test_part(self, "test_endpoints_" + init.replace("+", "_"), purpose=init):
                    hg_info("--check", init)
