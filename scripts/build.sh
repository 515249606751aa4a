#!/usr/bin/env bash
# build.sh PRESET TARGET [-DOPTION=VALUE...]: configures build/PRESET where needed and builds TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1
target=$2
shift 2
log=build/$preset/configure.log
[ -z "${TW_TORCH_DIR:-}" ] || set -- "$@" -DTW_TORCH_DIR="$TW_TORCH_DIR"  # or a folder that was configured before would keep its own
mkdir -p "build/$preset"
if ! cmake --preset "$preset" "$@" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build "build/$preset" --target "$target"
