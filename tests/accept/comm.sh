#!/usr/bin/env bash
# comm.sh BUILD: collectives of more than 2^31 elements, which MPI 3.1 cannot count in one call, on two ranks and both back ends. Takes 14 GiB of memory.
set -euo pipefail
mpirun -n 2 "$1/bin/accept_comm"
