#!/usr/bin/env bash
# comm.sh BUILD: every collective of every dtype at every size on 1 to 4 ranks, and collectives of more than 2^31 elements, which MPI 3.1 cannot count in
# one call, on two ranks; both over both backends of the host. Between them, tensors on the simulated accelerator by each of its backends. Takes 14 GiB
# of memory.
set -euo pipefail
export OMPI_MCA_mpi_yield_when_idle=1  # more ranks than cores
for ranks in 1 2 3 4; do
  TW_TEST_EVERY_SIZE=1 "$1/mpirun" -n $ranks "$1/bin/comm_mpi_tests" --file=collectives_test
  echo "every size on $ranks ranks: all right"
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
