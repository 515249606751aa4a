#!/usr/bin/env bash
# state.sh BUILD: a rank is killed at 60 random moments while checkpoints are saved; the newest is whole each time, on 1, 2 or 3 ranks.
set -euo pipefail
cd "$(dirname "$0")/../.."
modules/state/tests/killed_while_saving.sh 60 "$1/bin/save_program" "$1/mpirun" -n
