#!/usr/bin/env bash
# search.sh BUILD: medians over seeds, against published ones and against what constant learning rates come to.
set -euo pipefail
"$1/bin/accept_functions" 10
mpirun -n 2 "$1/bin/accept_population" 9 200
