#!/usr/bin/env bash
# bench.sh BUILD [SUBJECT]: runs the benchmarks and gathers their JSON lines in build/bench.jsonl. The ranks of a contest are those of
# baselines and ours; they take turns, so that two of them work at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
only=${2:-}
: >build/bench.jsonl

mpirun() { "$build/mpirun" "$@"; }  # Open MPI's: see its options below

bench() {  # bench SUBJECT COMMAND...
  [ -z "$only" ] || [ "$only" = "$1" ] || return 0
  shift
  "$@" | tee -a build/bench.jsonl
}

hosts() {  # hosts RANKS RATE PROGRAM ARGUMENTS...
  local ranks=$1 rate=$2 program=$3
  shift 3
  tests/cluster/hosts.sh --ranks "$ranks" --rate "$rate" --timeout 600 -- "$PWD/$build/bin/$program" "$@" "$rate" || [ $? -eq 77 ]
}

bench data mpirun -n 2 "$build/bin/bench_data"
bench data_parallel mpirun -n 10 "$build/bin/bench_data_parallel"
bench data_parallel benchmarks/peers/compare.sh "$PWD/$build"
bench graph mpirun -n 2 "$build/bin/bench_graph"
bench layer_parallel mpirun -n 4 "$build/bin/bench_layer_parallel"
for ranks in 2 4 8; do bench layer_parallel mpirun -n $ranks --mca mpi_yield_when_idle 1 "$build/bin/bench_layer_parallel" virtual; done
# Contestants on the same cores, one each: a push is over in microseconds, and cores differ. Two of four ranks work at a time, so that MPI, which
# counts them, must be told not to give its core away.
bench mesh mpirun -n 4 "$build/bin/bench_mesh"
bench mesh benchmarks/peers/compare_mesh.sh "$PWD/$build"
bench mesh mpirun -n 4 "$build/bin/bench_splits"
bench parameter_server mpirun -n 4 --map-by core:oversubscribe --bind-to core:overload-allowed --mca mpi_yield_when_idle 0 "$build/bin/bench_parameter_server"
bench parameter_server mpirun -n 6 --mca mpi_yield_when_idle 1 "$build/bin/bench_parameter_server" slow_rank
bench pipeline mpirun -n 4 "$build/bin/bench_pipeline"
bench pipeline benchmarks/peers/compare_pipelining.sh "$PWD/$build"
bench pipeline mpirun -n 1 "$build/bin/bench_plan"
bench pipeline mpirun -n 2 "$build/bin/bench_predictions"
bench pipeline mpirun -n 8 --mca mpi_yield_when_idle 1 "$build/bin/bench_predictions" virtual
bench precision mpirun -n 3 "$build/bin/bench_precision"
bench recomputed mpirun -n 2 "$build/bin/bench_recomputed"
bench search mpirun -n 2 "$build/bin/bench_search"
bench search mpirun -n 8 --mca mpi_yield_when_idle 1 "$build/bin/bench_search" busy
bench search mpirun -n 2 "$build/bin/bench_search" cma
bench sharded mpirun -n 6 "$build/bin/bench_sharded"
bench train mpirun -n 4 "$build/bin/bench_train"
bench comm mpirun -n 4 "$build/bin/bench_comm"
bench comm mpirun -n 8 --mca mpi_yield_when_idle 1 "$build/bin/bench_comm" comm/allreduce
bench comm mpirun -n 8 --mca mpi_yield_when_idle 1 "$build/bin/bench_comm" comm/allreduce_shared
bench state mpirun -n 1 "$build/bin/bench_state" "$PWD/build"
for rate in 1gbit 100mbit; do
  for driver in inlined thread; do bench overlap hosts 1,1 $rate bench_overlap $driver; done
  bench data_parallel hosts 1,1 $rate bench_slow_network lenet
  bench parameter_server hosts 1,1 $rate bench_parameter_server two_hosts
done
bench data_parallel hosts 1,1 1gbit bench_slow_network mlp_8e6
for ranks in 2,2 1,1,1,1; do
  for what in default ways; do bench comm hosts $ranks 1gbit bench_across_hosts $what; done
done
echo "written to build/bench.jsonl"
