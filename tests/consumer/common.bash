# Sourced by the tests here: their arguments, and how a project is configured and built.
set -euo pipefail
source=$1 build=$2 torch=$3 compiler=$4 mpiexec=$5 mpi=$6 device=$7 version=$8
here=$source/tests/consumer
name=$(basename "$0" .sh)
work=$build/tests/consumer/$name
prefix=$build/tests/consumer/moved
mkdir -p "$work"

# configure PROJECT [ARGUMENT...]: into $work/PROJECT. Only that it builds and runs is of interest, so nothing is optimised.
configure() {
  local arguments=(-S "$here/$1" -B "$work/$1" -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O0 -DNDEBUG" -DCMAKE_UNITY_BUILD=ON)
  command -v ccache >/dev/null && arguments+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  rm -rf "${work:?}/$1"
  cmake "${arguments[@]}" "${@:2}" >"$work/$1.log" 2>&1
}
# build_targets PROJECT TARGET...
build_targets() { cmake --build "$work/$1" --target "${@:2}" >"$work/$1.log" 2>&1 || { cat "$work/$1.log"; exit 1; }; }
# expect_configured PROJECT [ARGUMENT...]
expect_configured() { configure "$@" || { cat "$work/$1.log"; exit 1; }; }
fail() { echo "$1"; exit 1; }
