# SPDX-License-Identifier: Apache-2.0
# Spack's recipe. Untested until somebody builds it; please report what you had to change. Put it into packages/torchweave/package.py of a repository of yours.
from spack.package import *


class Torchweave(CMakePackage):
    """Distributed training of neural networks over MPI, in C++ on LibTorch."""

    homepage = "https://example.org/torchweave"  # where you got it from
    url = "https://example.org/torchweave-0.1.0.tar.gz"

    license("Apache-2.0")

    # sha256: as scripts/release.sh prints it
    version("0.1.0")

    variant("tool", default=True, description="Build the command-line tool")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi@3.1:")
    depends_on("py-torch@2.13")  # its LibTorch is found through CMAKE_PREFIX_PATH
    depends_on("hwloc@2:")
    depends_on("fmt")
    depends_on("spdlog +fmt_external")
    depends_on("tomlplusplus")
    depends_on("nlohmann-json")
    depends_on("random123", type="build")
    depends_on("xxhash")
    depends_on("zlib-api")
    depends_on("eigen@3.3:", type="build")
    depends_on("sqlite@3:")
    depends_on("cli11", type="build", when="+tool")

    def cmake_args(self):
        return [self.define_from_variant("TW_BUILD_APPS", "tool")]
