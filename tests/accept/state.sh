#!/usr/bin/env bash
# state.sh BUILD: a checkpoint of 20,000 tensors opens in 2 s, and is saved, loaded and read in 8. A rank is killed at 60 random moments while checkpoints are saved; the newest is whole each time, on 1, 2 or 3 ranks.
set -euo pipefail
cd "$(dirname "$0")/../.."
TEST_TENSORS=20000 "$1/mpirun" -n 1 "$1/bin/state_mpi_tests" --file=store_test --gtest_filter=Checkpoint.IsReadInTimeLinearInItsTensors
modules/state/tests/killed_while_saving.sh 60 "$1/bin/save_program" "$1/mpirun" -n
