#!/usr/bin/env bash
# build.sh PRESET[-MPI][-DEVICE] TARGET [-DOPTION=VALUE...]: configures build/PRESET[-MPI][-DEVICE] where needed and builds TARGET. MPI is openmpi or
# mpich, see cmake/TwMpi.cmake; DEVICE is cuda, see cmake/TwFindTorch.cmake.
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/$1
IFS=- read -r preset rest <<<"$1"
mpi='' device=''
for part in ${rest//-/ }; do
  if [ "$part" = cuda ]; then device=$part; else mpi=$part; fi
done
target=$2
shift 2
log=$build/configure.log
set -- "$@" -DTW_MPI="$mpi" -DTW_DEVICE="$device"
[ -z "${TW_TORCH_DIR:-}" ] || set -- "$@" -DTW_TORCH_DIR="$TW_TORCH_DIR"  # or a folder that was configured before would keep its own
mkdir -p "$build"
if ! cmake --preset "$preset" -B "$build" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build "$build" --target "$target"
