#!/usr/bin/env bash
# mesh.sh BUILD: the table of models and meshes, on 1 to 8 ranks, with several settings a cell, and forty random modules: each equal to one process, or
# refused. Checkpoints of every mesh are loaded on others, 1,000 updates leak nothing, and the memory of a rank is predicted.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
export TW_ALL_CELLS=1 OMP_NUM_THREADS=1 TEST_TMPDIR="$build/tmp/accept_mesh"
mkdir -p "$TEST_TMPDIR"

# run RANKS FILE [ARGUMENT...]: prints the counts.
run() {
  local ranks=$1 file=$2
  shift 2
  "$build/mpirun" -n "$ranks" "$build/bin/composition_mpi_tests" --file="$file" "$@" > "$TEST_TMPDIR/output" || { cat "$TEST_TMPDIR/output"; exit 1; }
  sed -nE "s/^(.*(cells equal|checkpoints loaded|updates on|memory of).*)/$ranks ranks: \1/p" "$TEST_TMPDIR/output"
}

for ranks in 1 2 3 4 6 8; do
  run "$ranks" mesh_table_test
  run "$ranks" mesh_random_test
done
for ranks in 4 6 8; do run "$ranks" mesh_checkpoint_test; done  # four ranks: also those of fewer ranks
run 4 mesh_leaks_test
run 4 mesh_memory_test
run 4 mesh_device_test --device=simulated
run 4 mesh_precision_test
run 4 mesh_failures_test
