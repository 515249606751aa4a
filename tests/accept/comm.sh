#!/usr/bin/env bash
# comm.sh BUILD: every collective of every dtype by every backend of the host, at every size on 1 to 4 ranks, at some on 5 to 8, and over several hosts of
# equal and of unequal numbers of ranks; tensors on the simulated accelerator by each of its backends; and collectives of more than 2^31 elements, which
# MPI 3.1 cannot count in one call, on two ranks. Takes 14 GiB of memory.
set -euo pipefail
export OMPI_MCA_mpi_yield_when_idle=1  # more ranks than cores
for ranks in 1 2 3 4; do
  TW_TEST_EVERY_SIZE=1 "$1/mpirun" -n $ranks "$1/bin/comm_mpi_tests" --file=collectives_test
  echo "every size on $ranks ranks: all right"
done
for ranks in 5 6 7 8; do
  "$1/mpirun" -n $ranks "$1/bin/comm_mpi_tests" --file=collectives_test
  echo "some sizes on $ranks ranks: all right"
done
for ranks in 1,1,1 2,2,1 3,3 2,2,2 3,2,1,2 2,2,2,2; do
  "$(dirname "$0")/../cluster/hosts.sh" --ranks $ranks --timeout 600 -- "$(realpath "$1")/bin/comm_mpi_tests" --file=collectives_test || [ $? -eq 77 ]
  echo "hosts of $ranks ranks: all right"
done
for backend in "" --nccl --ipc --direct; do
  for ranks in 1 2 3 4; do
    for tests in collectives_test device_test; do
      "$1/mpirun" -n $ranks "$1/bin/comm_mpi_tests" --file=$tests --device=simulated $backend
    done
    echo "tensors on devices by ${backend:---staged} on $ranks ranks: all right"
  done
done
"$1/mpirun" -n 2 "$1/bin/accept_comm"
