#!/usr/bin/env bash
# train.sh BUILD: a job that is killed at 50 random times and resumed ends with the bytes of one that was not; the configuration of `make train` reaches
# 88 % test accuracy in the median of 5 seeds.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
"$build/bin/make_small_data" "$build/tmp/accept_data"
tests/faults/kill_and_resume.sh "$build" "$build/tmp/accept_data/good" "$build/tmp/accept_killed" 50

accuracies=()
for seed in 1 2 3 4 5; do
  "$build/mpirun" -n 2 "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --fresh --set seed=$seed --set data.validation=0 --set name=accept_seed_$seed >/dev/null
  accuracies+=("$(sed -n 's/.*"event":"summary".*"test_accuracy":\([0-9.]*\).*/\1/p' runs/accept_seed_$seed/metrics.jsonl)")
  echo "seed $seed: test accuracy ${accuracies[-1]}"
done
median=$(printf '%s\n' "${accuracies[@]}" | sort -g | sed -n 3p)
echo "median of 5 seeds: $median (at least 0.88 wanted)"
awk -v median="$median" 'BEGIN { exit !(median >= 0.88) }'
