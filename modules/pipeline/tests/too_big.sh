#!/usr/bin/env bash
# too_big.sh MPIEXEC PROGRAM: a model of 16 blocks of 64 MiB, with as much for gradients, does not fit a rank that has 1.5 GiB more address space than
# it needs for one block, and trains on two such ranks.
set -u
mpiexec=$1
program=$2
small=$("$mpiexec" -n 1 "$program" 1) || { echo "one block does not run: $small"; exit 1; }
limit=$((${small##*peak } + 1536 * 1024))
limited() { "$mpiexec" -n "$1" bash -c 'ulimit -v '"$limit"'; exec "$0" 16' "$program" 2>&1; }
if output=$(limited 1); then
  echo "it fits one rank: $output"
  exit 1
fi
grep -qE "can't allocate memory|bad_alloc|not enough memory" <<<"$output" || { echo "it fails otherwise: $output"; exit 1; }
output=$(limited 2) || { echo "two ranks: $output"; exit 1; }
echo "trained on two ranks: $output"
