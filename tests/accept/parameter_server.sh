#!/usr/bin/env bash
# parameter_server.sh BUILD: LeNet on Fashion-MNIST on three ranks reaches 85 % by each of the servers' algorithms; where one rank is slow, it does so in
# less time than by all-reduce.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/accept/expect.bash
build=$1
export OMPI_MCA_mpi_yield_when_idle=1  # more ranks than cores

train() {  # train ALGORITHM SETTINGS...
  local algorithm=$1 name=accept_servers_$1 settings=()
  shift
  for setting in "$@"; do settings+=(--set "$setting"); done
  "$build/mpirun" -n 3 "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --fresh --set name="$name" --set data.validation=0 --set replicas.meet=parameter_server \
    --set replicas.algorithm="$algorithm" "${settings[@]}" >/dev/null
  accuracy=$(sed -n 's/.*"event":"summary".*"test_accuracy":\([0-9.e+]*\).*/\1/p' "runs/$name/metrics.jsonl")
  echo "$algorithm, 3 ranks, 2 epochs: accuracy $accuracy"
  expect "at least 85 %" "$accuracy >= 0.85"
}

train downpour replicas.period=1 optimizer.lr=0.001  # often, and in small steps: all workers' updates are added up
train easgd replicas.period=5
train eamsgd replicas.period=5 optimizer.name=sgd optimizer.lr=0.05 optimizer.momentum=0.9 optimizer.nesterov=true
train ssp replicas.staleness=3
"$build/mpirun" -n 3 "$build/bin/accept_slow_rank" /usr/share/datasets/fashion-mnist 3 || failed=1
exit $failed
