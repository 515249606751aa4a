#!/usr/bin/env bash
# Installs what a fresh Debian or Ubuntu machine lacks to build Torchweave: system packages, and LibTorch into build/deps.
#
#   scripts/setup.sh [GROUP...]      groups: build (the library and the tool; always), test, lint, fuzz, docs, openmpi, mpich, cuda
#
# Without openmpi or mpich, it takes openmpi; with both, Debian's alternatives decide which one `mpirun` is: by default Open MPI.
#
# It does nothing, and needs no network, where everything is there. Without apt-get, or without root and sudo, it looks for what is needed by itself, and lists
# what is missing: docs/install.md. LibTorch is left alone where TW_TORCH_DIR names one; else it is the CPU build from
# PyTorch's index of CPU wheels (or TW_TORCH_CPU_INDEX, such as a mirror) where that answers, else what pip is configured with: the CUDA build, maybe.
# Group cuda takes the CUDA build and all of NVIDIA's libraries that it loads into build/deps/cuda, beside the other; neither a toolkit nor nvcc.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.13.0
cpu_index=${TW_TORCH_CPU_INDEX:-https://download.pytorch.org/whl/cpu}

# Groups, Debian's package, how it is found without a package manager (a program, a <header>, or "optional" if builds do without it), common name.
known='build     g++                   c++                  C++20 compiler
build     cmake                 cmake                CMake
build     ninja-build           ninja                Ninja
build     ccache                optional             ccache
build     libspdlog-dev         <spdlog/spdlog.h>    spdlog
build     libfmt-dev            <fmt/core.h>         fmt
build     libtomlplusplus-dev   <toml++/toml.h>      toml++
build     libcli11-dev          <CLI/CLI.hpp>        CLI11
build     nlohmann-json3-dev    <nlohmann/json.hpp>  nlohmann-json
build     zlib1g-dev            <zlib.h>             zlib
build     librandom123-dev      <Random123/philox.h> Random123
build     libxxhash-dev         <xxhash.h>           xxHash
build     libeigen3-dev         <Eigen/Core>         Eigen
build     libsqlite3-dev        optional             SQLite
build     libhwloc-dev          optional             hwloc
build     dataset-fashion-mnist optional             Fashion-MNIST
openmpi   libopenmpi-dev        mpicxx               MPI
openmpi   openmpi-bin           mpiexec              MPI launcher
mpich     libmpich-dev          mpicxx.mpich         MPICH
mpich     mpich                 mpiexec.mpich        MPICH launcher
libtorch  python3-pip           pip                  pip
test      libgtest-dev          <gtest/gtest.h>      GoogleTest
test      iproute2              optional             iproute2
lint,fuzz clang-19              clang++-19           Clang 19
lint      clang-tidy-19         clang-tidy-19        clang-tidy 19
lint      clang-format-19       clang-format-19      clang-format 19
lint      jq                    jq                   jq
fuzz      libclang-rt-19-dev    optional             run time of Clang 19
docs      doxygen               doxygen              Doxygen
docs      graphviz              dot                  Graphviz'

groups=(build)
mpis=()
device=
for group in "$@"; do
  case "$group" in
    openmpi | mpich) mpis+=("$group") ;;
    cuda) device=$group ;;
    build | test | lint | fuzz | docs) groups+=("$group") ;;
    *) echo "setup: unknown group '$group' (build, test, lint, fuzz, docs, openmpi, mpich, cuda)" >&2; exit 2 ;;
  esac
done
[ ${#mpis[@]} -gt 0 ] || mpis=(openmpi)
groups+=("${mpis[@]}")

# The folder with LibTorch's include/, lib/ and share/cmake/Torch.
deps=build/deps${device:+/$device}
torch_dir=${TW_TORCH_DIR:-$deps/torch}
if [ -n "${TW_TORCH_DIR:-}" ] && [ ! -e "$torch_dir/share/cmake/Torch/TorchConfig.cmake" ]; then
  echo "setup: TW_TORCH_DIR is $TW_TORCH_DIR, but there is no share/cmake/Torch/TorchConfig.cmake in it" >&2
  exit 1
fi
need_torch=false
[ -e "$torch_dir/share/cmake/Torch/TorchConfig.cmake" ] || need_torch=true
$need_torch && groups+=(libtorch)

# is_found PROBE: whether a machine without a package manager has it. Libraries lie where the compiler looks, or in a prefix of CMAKE_PREFIX_PATH.
compiler=${CXX:-c++} prefixes=${CMAKE_PREFIX_PATH:-}
is_found() {
  local prefix flags=()
  case "$1" in
    optional) return 0 ;;
    pip) python3 -m pip --version >/dev/null 2>&1 ;;
    c++) command -v "$compiler" >/dev/null ;;
    '<'*)
      for prefix in ${prefixes//:/ } /usr; do flags+=("-I$prefix/include" "-I$prefix/include/eigen3"); done
      printf '#if !__has_include(%s)\n#error\n#endif\n' "$1" | "$compiler" -x c++ -E "${flags[@]}" - >/dev/null 2>&1
      ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# is_installed PACKAGE: whether Debian's package manager, if there is one, says so.
is_installed() { dpkg-query -W -f '${db:Status-Status}\n' "$1" 2>/dev/null | grep -x installed >/dev/null; }

missing=()  # packages
lacking=()  # those that nobody has installed in another way, either
while read -r of package probe name; do
  for group in "${groups[@]}"; do
    [[ ",$of," == *",$group,"* ]] || continue
    is_installed "$package" && break
    missing+=("$package")
    is_found "$probe" || lacking+=("$name ($package)")
    break
  done
done <<<"$known"
as_root=()
can_install=true
if [ "$(id -u)" -ne 0 ]; then
  as_root=(sudo)
  command -v sudo >/dev/null || can_install=false
fi
command -v apt-get >/dev/null || can_install=false

if [ ${#missing[@]} -gt 0 ] && ! $can_install; then
  if [ ${#lacking[@]} -gt 0 ]; then
    echo "setup: this machine lacks the following; in parentheses, Debian's package:" >&2
    printf '  %s\n' "${lacking[@]}" >&2
    is_found c++ || echo "setup: libraries are looked for with the compiler; without one, all of them are in the list" >&2
    echo "setup: apt-get could install them, with root or sudo. How to build without these: docs/install.md" >&2
    exit 1
  fi
elif [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing with apt-get: ${missing[*]}"
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "setup: apt-get failed, see above. How to build without it: docs/install.md" >&2
    exit 1
  fi
  rm -f "$log"
fi

$need_torch || exit 0

rm -rf build/deps/wheel
trap 'rm -rf build/deps/wheel' EXIT

# pip, which says what it fetches and how large that is.
fetch() {
  local log status=0
  log=$(mktemp)
  python3 -m pip install --disable-pip-version-check --root-user-action=ignore --progress-bar off --target build/deps/wheel "$@" 2>&1 |
    tee "$log" | sed -un 's/^ *Downloading \(.*\) \((.*)\)$/setup: fetching \1 \2/p' || status=$?
  [ $status -eq 0 ] || cat "$log" >&2
  rm -f "$log"
  return $status
}

# required_by_torch PATTERN: the requirements of the wheel that was fetched, without the machines that they are for, whose beginning matches.
required_by_torch() { sed -n "s/^Requires-Dist: \($1[^; ]*\).*/\1/p" build/deps/wheel/torch-*.dist-info/METADATA; }

# keep FOLDER NAME...: moves what was fetched to where it stays.
keep() {
  local folder=$1
  shift
  mkdir -p "$folder"
  for name in "$@"; do
    rm -rf "${folder:?}/$name"
    mv "build/deps/wheel/$name" "$folder/$name"
  done
}

if [ "$device" = cuda ]; then
  echo "setup: installing LibTorch $torch_version for CUDA into $deps: 2.5 GB to fetch, 3.9 GB on disk"
  # Of this very name: a CPU build's has something behind it.
  if ! fetch --no-deps "torch===$torch_version" || [ ! -e build/deps/wheel/torch/lib/libtorch_cuda.so ]; then
    echo "setup: there is no CUDA build of torch $torch_version for $(python3 --version) on $(uname -m) where pip looks." >&2
    echo "setup: Let pip find it (PIP_INDEX_URL), or set TW_TORCH_DIR to one of your own." >&2
    exit 1
  fi
  mapfile -t libraries < <(required_by_torch 'cuda-toolkit\[' && required_by_torch nvidia-)
  fetch "${libraries[@]}"
  keep "$deps" nvidia torch
  echo "setup: LibTorch takes $(du -sh "$deps/torch" | cut -f1), NVIDIA's libraries $(du -sh "$deps/nvidia" | cut -f1)"
  exit 0
fi

# Whether the index of CPU wheels, or a place that pip is configured with, has the CPU build. Bounded: there are machines that reach one mirror alone.
has_cpu_build() {
  local versions
  versions=$(timeout 30 python3 -m pip index versions --disable-pip-version-check --retries 0 --timeout 5 --index-url "$cpu_index" torch 2>/dev/null) &&
    grep -qF "$torch_version+cpu" <<<"$versions"
}

echo "setup: installing LibTorch $torch_version into build/deps/torch"
if has_cpu_build && fetch --retries 2 --timeout 15 --index-url "$cpu_index" --no-deps "torch==$torch_version+cpu"; then
  :
elif ! fetch --no-deps "torch==$torch_version"; then
  echo "setup: there is no torch $torch_version for $(python3 --version) on $(uname -m), neither at $cpu_index nor where pip looks." >&2
  echo "setup: Let pip find it (PIP_INDEX_URL), or set TW_TORCH_DIR to a LibTorch $torch_version of your own." >&2
  exit 1
fi
if [ -e build/deps/wheel/torch/lib/libtorch_cuda.so ]; then
  # Its CPU half, which is what we link, loads two of NVIDIA's libraries, from the folder beside it.
  echo "setup: this is the CUDA build ($(du -sh build/deps/wheel/torch | cut -f1)): no CPU build was found at $cpu_index."
  echo "setup: Only its CPU half is used, which needs two libraries of NVIDIA to load, CUDA's run time and CUPTI."
  fetch "$(required_by_torch 'cuda-toolkit\[' | sed 's/\[.*\]/[cudart,cupti]/')"
  touch build/deps/wheel/torch/only_the_cpu_half  # see cmake/TwFindTorch.cmake
  keep build/deps nvidia
  echo "setup: NVIDIA's libraries take $(du -sh build/deps/nvidia | cut -f1) in build/deps/nvidia"
fi
keep build/deps torch
