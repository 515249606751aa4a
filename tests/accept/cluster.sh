#!/usr/bin/env bash
# cluster.sh BUILD: on three hosts of two ranks, 300 updates of a model that is split by data x tensor, and by data x stage, leave the same bits on all who
# hold an element. Then 20 training jobs on 2 to 4 hosts of unequal ranks, each of which is harmed once, at random but by its seed: a rank is killed or stopped,
# a cable is cut, so that the launcher or the watchdog sees it first, or all ranks of a host are killed. Each must name who failed, in time, and be finished by `torchweave launch` with what is left.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 failed=0
"$build/mpirun" --version 2>&1 | grep 'Open MPI\|OpenRTE' >/dev/null || { echo "SKIPPED: MPICH's launcher misses no hosts"; exit 0; }
"$build/bin/make_small_data" "$build/tmp/accept_data"
replicas() {  # replicas PROGRAM FILE TEST
  TEST_UPDATES=300 tests/cluster/hosts.sh --ranks 2,2,2 --timeout 300 -- "$build/bin/$1" --file="$2" --gtest_filter="$3" || [ $? = 77 ] || failed=1
}
replicas tensor_parallel_mpi_tests mesh_training_test MeshTraining.PlainLayersKeepTheSameBitsOnAllHolders
replicas train_mpi_tests seldom_parts_test SeldomParts.TiedStagesKeepTheSameBits
faults=(kill stop cut kill_host cut_late) layouts=(2,1 1,2 3,1 2,1,1 1,2,1 1,1,2 1,2,1,1 2,1,1,1) rates=(100mbit 1gbit 10gbit)
table=''
for seed in $(seq 20); do
  RANDOM=$((seed * 1009))  # of neighbours the first numbers would be, too
  fault=${faults[seed % 5]} ranks=${layouts[RANDOM % ${#layouts[@]}]} rate=${rates[RANDOM % ${#rates[@]}]} checkpoint=$((1 + RANDOM % 10))
  IFS=, read -ra hosts <<<"$ranks"
  case $fault in
    kill | stop) where=$((RANDOM % (${ranks//,/+}))) ;;
    kill_host) where=$((1 + RANDOM % ${#hosts[@]})) ;;
    cut*) where=$((2 + RANDOM % (${#hosts[@]} - 1))) ;;  # the first one is where it is launched
  esac
  line=$(tests/cluster/hosts.sh --ranks "$ranks" --rate "$rate" --timeout 120 --bare yes -- tests/cluster/fault_and_restart.sh "$build" "$build/tmp/accept_data/good" \
    "$build/tmp/accept_cluster" "$ranks" $fault "$where" $checkpoint 2>&1) || {
    [[ $line != SKIPPED:* ]] || { echo "$line"; exit 0; }
    failed=1 line="FAILED: $fault $where after checkpoint $checkpoint"$'\n'$line
  }
  echo "seed $seed, ranks $ranks, $rate: $line"
  table+=$(printf '%4d  %-8s %-8s %s' "$seed" "$ranks" "$rate" "$(head -n 2 <<<"$line" | paste -sd" ")")$'\n'
done
printf 'seed  ranks    links    what was done, and said\n%s' "$table"
exit $failed
