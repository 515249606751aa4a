#!/usr/bin/env bash
# refused.sh SOURCE BUILD TORCH COMPILER MPIEXEC TW_MPI TW_DEVICE VERSION: what cannot work with the prefix of installed.sh is refused, by messages that
# name both sides.
. "$(dirname "$0")/common.bash"

# expect_refused WHAT REGEX [ARGUMENT...]
expect_refused() {
  if configure refused -DCMAKE_PREFIX_PATH="$prefix" "${@:3}"; then fail "$1 was accepted"; fi
  tr -s ' \n' ' ' <"$work/refused.log" | grep -E "$2" >/dev/null || { cat "$work/refused.log"; fail "$1: the message is not '$2'"; }
}

# expect_accepted WHAT [ARGUMENT...]
expect_accepted() { configure refused -DCMAKE_PREFIX_PATH="$prefix" "${@:2}" || { cat "$work/refused.log"; fail "$1 was refused"; }; }

# A LibTorch that is nothing but what its package says of it.
make_torch() {  # make_torch FOLDER MINOR ABI
  mkdir -p "$1/include/torch/headeronly" "$1/share/cmake/Torch"
  printf '#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR %s\n' "$2" >"$1/include/torch/headeronly/version.h"
  cat >"$1/share/cmake/Torch/TorchConfig.cmake" <<CONFIG
add_library(torch INTERFACE IMPORTED)
set_target_properties(torch PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "$1/include" INTERFACE_COMPILE_OPTIONS "-D_GLIBCXX_USE_CXX11_ABI=$3" INTERFACE_LINK_LIBRARIES m)
CONFIG
}
minor=$(sed -n 's/.*TORCH_VERSION_MINOR \([0-9]*\).*/\1/p' "$torch/include/torch/headeronly/version.h")
make_torch "$work/other_version" 1 1
make_torch "$work/other_abi" "$minor" 0
make_torch "$work/other_kind" "$minor" 1
kind=$(sed -n 's/.*BUILT_WITH_LIBTORCH_KIND "\(.*\)".*/\1/p' "$(find "$prefix" -name TorchweaveConfig.cmake)") other_kind=CPU
if [ "$kind" = CPU ]; then
  other_kind=CUDA
  mkdir -p "$work/other_kind/lib"
  touch "$work/other_kind/lib/libtorch_cuda.so"
fi

expect_refused "an unknown module" "it has no module 'nothing'\. It was built with these modules \(TW_MODULES\): base, report" -DCOMPONENTS="comm;nothing"
expect_refused "another LibTorch" "compiled for LibTorch 2\.$minor, but $work/other_version is LibTorch 2\.1" -DTW_DEVICE= -DTW_TORCH_DIR="$work/other_version"
expect_refused "another ABI" "compiled for LibTorch with _GLIBCXX_USE_CXX11_ABI=1, but that of $work/other_abi is 0" -DTW_DEVICE= -DTW_TORCH_DIR="$work/other_abi"
expect_refused "a folder without LibTorch" "TW_TORCH_DIR is $work, but there is no" -DTW_TORCH_DIR="$work"
expect_refused "another LibTorch than the project's own" "TW_TORCH_DIR is $torch, but this project already has a target torch, of $work/other_abi" \
  -DTORCH_FIRST="$work/other_abi" -DTW_TORCH_DIR="$torch"
expect_refused "another kind of LibTorch" "compiled for LibTorch's $kind build, but $work/other_kind is used as a $other_kind build" -DTORCH_FIRST="$work/other_kind"
expect_accepted "another kind of LibTorch that the project has chosen" -DTORCH_FIRST="$work/other_kind" -DTW_DEVICE= -DCOMPONENTS=tensor
expect_refused "missing packages" "package ZLIB was not found: .*\(Debian: zlib1g-dev\).*package MPI was not found: .*libmpich-dev" -DCMAKE_DISABLE_FIND_PACKAGE_ZLIB=ON -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON
expect_refused "a project without C++" "Torchweave needs C\+\+: write project" -DLANGUAGES=C
expect_refused "a version that is not there" "version: $version" -DVERSION=7.0
other=mpicxx.mpich
case $("$mpiexec" --version) in *HYDRA*) other=mpicxx.openmpi ;; esac
if command -v $other >/dev/null; then
  expect_refused "another MPI" "compiled for MPI .*, but this project uses" -DMPI_CXX_COMPILER="$(command -v $other)"
else
  echo "SKIPPED: another MPI ($other is not installed)"
fi
# Another version of the same MPI is accepted, with a warning.
mkdir -p "$work/other_mpi"
if [ $other = mpicxx.mpich ]; then
  printf '#define OMPI_%s_VERSION 99\n' MAJOR MINOR RELEASE >"$work/other_mpi/mpi.h"
else
  printf '#define MPICH_NAME 4\n#define MPICH_VERSION "99.99.99"\n' >"$work/other_mpi/mpi.h"
fi
expect_accepted "another version of MPI" -DOWN_MPI="$work/other_mpi" -DCOMPONENTS=mpi
tr -s ' \n' ' ' <"$work/refused.log" | grep -E "compiled for MPI .*, and this project uses .* 99\.99\.99" >/dev/null || { cat "$work/refused.log"; fail "another version of MPI: there is no warning"; }
# Modules that need less are found without the rest.
expect_accepted "modules that need neither MPI nor LibTorch" -DCOMPONENTS="evolution;planning" -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON -DCMAKE_DISABLE_FIND_PACKAGE_Torch=ON

echo '#include <tw/version.hpp>' >"$work/old.cpp"
if "$compiler" -std=c++17 -fsyntax-only -I"$prefix/include" "$work/old.cpp" 2>"$work/old.log"; then fail "C++17 was accepted"; fi
grep "Torchweave needs C++20" "$work/old.log" >/dev/null || fail "C++17: the message does not say what is needed"

# Two versions in one prefix, of which the later one's headers were overwritten.
package=$(dirname "$(find "$prefix" -name TorchweaveConfig.cmake)") two=$work/two
libraries=${package%/cmake/Torchweave}
copies=$two/$(basename "$libraries")
rm -rf "$two"
mkdir -p "$copies/cmake"
ln -s "$prefix/include" "$two"
ln -s "$libraries"/*.a "$copies"
cp -r "$package" "$copies/cmake"
cp -r "$package" "$copies/cmake/Torchweave-9.9.9"
sed -i "s/${version//./\\.}/9.9.9/g" "$copies"/cmake/Torchweave-9.9.9/TorchweaveConfig*.cmake
refusal="it is version 9\.9\.9, but the headers in $two/include are of version $version"
expect_found() { grep "^Torchweave_DIR.*=$copies/cmake/Torchweave$" "$work/refused/CMakeCache.txt" >/dev/null || fail "of two versions, the other one was found"; }
expect_refused "a version with the headers of another" "$refusal" -DCMAKE_PREFIX_PATH="$two" -DCOMPONENTS=base -DVERSION=9.9
expect_accepted "one of two versions" -DCMAKE_PREFIX_PATH="$two" -DCOMPONENTS=base -DVERSION="$version;EXACT"
expect_found
if configure refused -DCMAKE_PREFIX_PATH="$two" -DCOMPONENTS=base -DVERSION=; then  # CMake finds whichever comes first
  expect_found
else
  tr -s ' \n' ' ' <"$work/refused.log" | grep "$refusal" >/dev/null || { cat "$work/refused.log"; fail "no version: another message"; }
fi

# Headers of another version than the libraries.
mkdir -p "$work/other_headers/tw"
sed "s/version_${version//./_}/version_9_9_9/g" "$prefix/include/tw/version.hpp" >"$work/other_headers/tw/version.hpp"
echo 'int main() {}' | cat "$work/old.cpp" - >"$work/linked.cpp"
link() { "$compiler" -std=c++20 -I"$1" "$work/linked.cpp" "$(find "$prefix" -name libtw_base.a)" -o "$work/linked" >"$work/linked.log" 2>&1; }
link "$prefix/include" || { cat "$work/linked.log"; fail "headers and libraries of one version do not link"; }
if link "$work/other_headers"; then fail "libraries of another version than the headers were accepted"; fi
grep "undefined reference to .*headers_and_library_are_version_9_9_9" "$work/linked.log" >/dev/null || { cat "$work/linked.log"; fail "the linker's message does not name the version"; }
echo "all refused"
