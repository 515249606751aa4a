#!/usr/bin/env bash
# data_parallel.sh BUILD: on four ranks a model trains of which parameters and gradients take three times what a rank may have beside LibTorch and MPI.
set -euo pipefail
. "$(dirname "$0")/expect.bash"
build=$1
room=1000    # MB
layers=375   # of 4 MB: parameters and gradients take 3000 MB

train() { "$build/mpirun" -n 4 bash -c "ulimit -v $1; exec $build/bin/accept_fully_sharded $2"; }
peak() { sed -n 's/^address space \([0-9]*\) MB/\1/p'; }
base=$(train unlimited 0 | peak)
echo "without a model: $base MB"
found=$(train $(((base + room) * 1024)) $layers) || true
echo "$found"
used=$(peak <<<"$found")
expect "trains in $room MB" "${used:-0} > 0 && ${used:-0} <= $base + $room"
exit $failed
