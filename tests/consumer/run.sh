#!/usr/bin/env bash
# run.sh installed|subdirectory|whole SOURCE BUILD TORCH COMPILER BUILD_TYPE MPIEXEC TW_MPI TW_DEVICE: builds the project in this folder against Torchweave.
# installed: links the installed libraries, and runs. subdirectory: configures Torchweave as a part of the project, and compiles the program and the
# lowest module; whole: compiles all that the program needs, and runs.
set -euo pipefail
kind=$1 source=$2 build=$3 torch=$4 compiler=$5 build_type=$6 mpiexec=$7 mpi=$8 device=$9
here=$(cd "$(dirname "$0")" && pwd)
work=$build/tests/consumer/$kind
arguments=(-S "$here/project" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE="$build_type" -DTW_TORCH_DIR="$torch"
  -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON)  # only that it builds and runs is of interest
if [ "$kind" = installed ]; then
  rm -rf "$work"
  cmake --install "$build" --prefix "$work/prefix" >/dev/null
  arguments+=(-DCMAKE_PREFIX_PATH="$work/prefix")
else
  arguments+=(-DTORCHWEAVE_SOURCE="$source" -DTW_MPI="$mpi" -DTW_DEVICE="$device")
fi
command -v ccache >/dev/null && arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
cmake "${arguments[@]}" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }
build() { cmake --build "$work/build" --target "$@" >"$work.log" 2>&1 || { cat "$work.log"; exit 1; }; }
if [ "$kind" = subdirectory ]; then
  build consumer_object tw_base
  echo "compiled"
else
  build consumer
  "$mpiexec" -n 2 "$work/build/consumer"
fi
