#!/usr/bin/env bash
# mesh.sh BUILD: the table of models and meshes, on 1 to 8 ranks, with several settings a cell: each equal to one process, or refused. Checkpoints of every
# mesh are loaded on others.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
export TW_ALL_CELLS=1 OMP_NUM_THREADS=1 TEST_TMPDIR="$build/tmp/accept_mesh"
mkdir -p "$TEST_TMPDIR"

for ranks in 1 2 3 4 6 8; do
  for file in mesh_table_test mesh_checkpoint_test; do
    "$build/mpirun" -n "$ranks" "$build/bin/composition_mpi_tests" --file="$file" > "$TEST_TMPDIR/output" || { cat "$TEST_TMPDIR/output"; exit 1; }
    sed -n "s/^\(.*cells equal.*\)/$ranks ranks: \1/p" "$TEST_TMPDIR/output"
  done
  echo "$ranks ranks: checkpoints of every mesh are loaded on others"
done
