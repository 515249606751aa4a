#!/usr/bin/env bash
# bench.sh BUILD [MODULE]: runs the benchmarks and gathers their JSON lines in build/bench.jsonl. Of the four ranks two are the baseline and two are
# ours; they take turns, so two work at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
only=${2:-}
: >build/bench.jsonl
for driver in "$build"/bin/bench_*; do
  module=${driver##*/bench_}
  [ -z "$only" ] || [ "$only" = "$module" ] || continue
  mpirun -n 4 "$driver" | tee -a build/bench.jsonl
done
echo "written to build/bench.jsonl"
