#!/usr/bin/env bash
# works_without_mpi.sh TOOL CHECKPOINT: succeeds when the commands that need no ranks work where MPI cannot start.
set -eu
tool=$1
checkpoint=$2
# Neither Open MPI nor MPICH starts with these.
export OMPI_MCA_pml=none PMI_FD=77 PMI_RANK=0 PMI_SIZE=1
if timeout 20 "$tool" doctor >/dev/null 2>&1; then echo "works_without_mpi: MPI has started"; exit 1; fi
works() { timeout 20 "$tool" "$@" >/dev/null || { echo "works_without_mpi: failed: $*"; exit 1; }; }
works --version
works keys
works keys search
for command in "" train search bench "bench comm" checkpoint plan keys doctor launch; do
  works $command --help
done
works plan layers --layers 64 --ranks 2
works plan pipeline --model mlp --devices 2 --batch 8
works checkpoint show "$checkpoint"
works checkpoint verify "$checkpoint"
mistake() {
  code=0
  output=$(timeout 20 "$tool" "${@:2}" 2>&1) || code=$?
  [ $code -ne 0 ] && grep -qE "^torchweave: .*$1" <<<"$output" || { echo "works_without_mpi: ${*:2}: $output"; exit 1; }
}
mistake "did you mean 'train'" trian
mistake "no_such.toml at byte 0: cannot be opened" train no_such.toml
mistake "no_such.toml at byte 0: cannot be opened" search no_such.toml
