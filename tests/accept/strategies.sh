#!/usr/bin/env bash
# strategies.sh BUILD: LeNet on Fashion-MNIST on two ranks. Local SGD and DiLoCo that meet every 50 steps reach 87 % in 3 epochs with about a fiftieth of
# the traffic; PowerSGD and top-k lose at most one point against plain data parallelism at equal epochs. Then 10,000 steps of every way to reduce
# gradients leave no memory behind.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/accept/expect.bash
build=$1

figure() { sed -n "s/.*\"event\":\"summary\".*\"$2\":\([0-9.e+]*\).*/\1/p" "runs/$1/metrics.jsonl"; }

run() {  # run NAME EPOCHS SETTINGS...
  local name=accept_strategy_$1 epochs=$2
  shift 2
  local settings=()
  for setting in "$@"; do settings+=(--set "$setting"); done
  "$build/mpirun" -n 2 "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --fresh --set name="$name" --set epochs="$epochs" --set data.validation=0 "${settings[@]}" >/dev/null
  accuracy=$(figure "$name" test_accuracy)
  bytes=$(figure "$name" bytes_per_step)
}

run data 2
plain=$accuracy
plain_bytes=$bytes
echo "data, 2 epochs: accuracy $plain, $plain_bytes bytes a step"
run top_k 2 replicas.compression=top_k
echo "top_k (1 %), 2 epochs: accuracy $accuracy, $bytes bytes a step"
expect "within one point of plain" "$accuracy >= $plain - 0.01"
run power_sgd 2 replicas.compression=power_sgd replicas.power_sgd_rank=4
echo "power_sgd (rank 4), 2 epochs: accuracy $accuracy, $bytes bytes a step"
expect "within one point of plain" "$accuracy >= $plain - 0.01"
for strategy in local_sgd diloco; do
  run $strategy 3 replicas.meet=$strategy replicas.period=50
  echo "$strategy, period 50, 3 epochs: accuracy $accuracy, $bytes bytes a step"
  expect "at least 87 %" "$accuracy >= 0.87"
  expect "a fiftieth of the traffic, but for the meeting at each epoch's end" "$bytes <= $plain_bytes / 50 + 1.1 * $plain_bytes / 469"
done
"$build/mpirun" -n 2 "$build/bin/accept_leaks" || failed=1
exit $failed
