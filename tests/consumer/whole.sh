#!/usr/bin/env bash
# whole.sh SOURCE BUILD TORCH COMPILER MPIEXEC TW_MPI TW_DEVICE VERSION: Torchweave as a part of a project; compiles all that a program needs, and runs it.
. "$(dirname "$0")/common.bash"
expect_configured project -DTORCHWEAVE_SOURCE="$source" -DTW_TORCH_DIR="$torch" -DTW_MPI="$mpi" -DTW_DEVICE="$device" -DTW_MODULES=data_parallel
build_targets project consumer
"$mpiexec" -n 2 "$work/project/consumer"
