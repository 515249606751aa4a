#!/usr/bin/env bash
# bench.sh BUILD [SUBJECT]: runs the benchmarks and gathers their JSON lines in build/bench.jsonl. Of the ranks of a contest one half is the baseline
# and the other half is ours; they take turns, so half of them work at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
only=${2:-}
: >build/bench.jsonl

bench() {  # bench SUBJECT COMMAND...
  [ -z "$only" ] || [ "$only" = "$1" ] || return 0
  shift
  "$@" | tee -a build/bench.jsonl
}

two_hosts() {  # two_hosts RATE DRIVER
  tests/cluster/two_hosts.sh --rate "$1" --timeout 600 -- "$PWD/$build/bin/bench_overlap" "$2" "$1" || [ $? -eq 77 ]
}

bench data mpirun -n 2 "$build/bin/bench_data"
bench data_parallel mpirun -n 4 "$build/bin/bench_data_parallel"
bench train mpirun -n 4 "$build/bin/bench_train"
bench comm mpirun -n 4 "$build/bin/bench_comm"
bench comm mpirun -n 8 --mca mpi_yield_when_idle 1 "$build/bin/bench_comm" comm/allreduce
bench comm mpirun -n 8 --mca mpi_yield_when_idle 1 "$build/bin/bench_comm" comm/allreduce_shared
bench state mpirun -n 1 "$build/bin/bench_state" "$PWD/build"
for rate in 1gbit 100mbit; do
  for driver in inlined thread; do bench overlap two_hosts $rate $driver; done
done
echo "written to build/bench.jsonl"
