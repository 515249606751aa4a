#!/usr/bin/env bash
# check_launches.sh SOURCE: no page, configuration or example of SOURCE tells readers to type `mpirun -n N` with N above 2. Open MPI's mpirun refuses more
# ranks than the machine has cores; `build/release/mpirun` and `torchweave launch -n N --` do not.
set -euo pipefail
shopt -s globstar
cd "$1"
files=(*.md docs/**/*.md configs/*.toml examples/**/*.cpp)
found=$(grep -nE 'mpi(run|exec)[^|`]* (-n|-np|--np|-c) *([3-9]|[1-9][0-9]+)\b' "${files[@]}" | grep -vE 'build/[a-z]+/mpirun ' || true)
[ -z "$found" ] || { printf '%s\n' "$found" "write build/release/mpirun, or torchweave launch -n N --"; exit 1; }
echo "in ${#files[@]} files, commands for more than two ranks work for users"
