#!/usr/bin/env bash
# bench.sh BUILD [MODULE]: runs the benchmarks on two ranks, one thread each, and gathers their JSON lines in build/bench.jsonl.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
only=${2:-}
: >build/bench.jsonl
for driver in "$build"/bin/bench_*; do
  module=${driver##*/bench_}
  [ -z "$only" ] || [ "$only" = "$module" ] || continue
  mpirun -n 2 "$driver" | tee -a build/bench.jsonl
done
echo "written to build/bench.jsonl"
