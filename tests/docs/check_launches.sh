#!/usr/bin/env bash
# check_launches.sh SOURCE: no page, configuration or example of SOURCE tells readers to type `mpirun -n N` with N above 2. Open MPI's mpirun refuses more
# ranks than the machine has cores; `build/release/mpirun` and `torchweave launch -n N --` do not. And each page with a ```sh block is one whose commands a
# test runs; others have ```text blocks.
set -euo pipefail
shopt -s globstar
cd "$1"
files=(*.md docs/**/*.md configs/*.toml examples/**/*.cpp)
found=$(grep -nE 'mpi(run|exec)[^|`]* (-n|-np|--np|-c) *([3-9]|[1-9][0-9]+)\b' "${files[@]}" | grep -vE 'build/[a-z]+/mpirun ' || true)
[ -z "$found" ] || { printf '%s\n' "$found" "write build/release/mpirun, or torchweave launch -n N --"; exit 1; }
for page in $(grep -lx '```sh' *.md docs/**/*.md); do
  grep -E "[ (]$page[ )]" tests/docs/CMakeLists.txt >/dev/null || { echo "$page has sh blocks, but tests/docs/CMakeLists.txt does not run them: write text, or add the page"; exit 1; }
done
echo "in ${#files[@]} files, commands for more than two ranks work for users"
