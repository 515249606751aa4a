#!/usr/bin/env bash
# layer_parallel.sh BUILD: nested iteration reaches the loss of the direct run with at most half of its work, for six seeds. MG/OPT's median loss over
# ten seeds is not above that of plain gradient descent at equal work, with whichever of four learning rates has the least median. 64 residual layers
# on Fashion-MNIST, trained with two iterations forward and one backward, are within a point of serial training, for three seeds; so is a GRU over
# pixels, and one learns the adding problem.
set -euo pipefail
. "$(dirname "$0")/expect.bash"
build=$1

for seed in 1 2 3 4 5 6; do
  line=$("$build/mpirun" -n 2 "$build/bin/23_nested_iteration" $seed)
  echo "seed $seed: $line"
  read -r goal work loss used < <(sed -E 's/direct: loss ([0-9.e-]+) after ([0-9.]+) .*nested: loss ([0-9.e-]+) after ([0-9.]+).*/\1 \2 \3 \4/' <<<"$line")
  expect "the direct run's loss in at most half of its work" "$loss <= $goal && $used <= $work / 2"
done

median() { sed 's|-*nan|inf|' | sort -g | awk '{ value[NR] = $1 } END { print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2 }'; }
lines=""
for seed in 1 2 3 4 5 6 7 8 9 10; do
  found=$("$build/mpirun" -n 2 "$build/bin/26_mgopt" $seed)
  echo "seed $seed: $(tr '\n' ';' <<<"$found")"
  lines+="$found"$'\n'
done
ours=$(sed -nE 's/^MG.OPT: loss ([^,]+),.*/\1/p' <<<"$lines" | median)
plain=$(for rate in 0.2 0.4 0.8 1.6; do sed -n "s/^gradient descent with rate $rate: loss //p" <<<"$lines" | median; done | sort -g | sed -n 1p)
echo "medians: MG/OPT $ours, gradient descent with its best rate $plain"
expect "MG/OPT's loss is not above gradient descent's" "$ours > 0 && $ours <= $plain"

accuracy() { "$build/mpirun" -n 2 "$build/bin/22_resnet" 60000 1 "$1" "$2" | sed -n 's/^accuracy //p'; }
for seed in 1 2 3; do
  serial=$(accuracy $seed serial)
  parallel=$(accuracy $seed parallel)
  echo "seed $seed, one epoch: serial $serial, in parallel $parallel"
  expect "within one point" "$parallel >= $serial - 0.01"
done

for seed in 1 2 3; do
  line=$("$build/mpirun" -n 2 "$build/bin/24_gpt_layers" 400 $seed | tail -n 1)
  echo "seed $seed, GPT of 20 blocks: $line"
  expect "at most 2 % more" "$(sed -E 's/.* serial, ([0-9.e-]+) % more/\1/' <<<"$line") <= 2"
done

# Over time: the adding problem of 1,000 steps, and Fashion-MNIST pixel by pixel, two iterations forward and one backward.
runs=$(mktemp -d)
trap 'rm -rf "$runs"' EXIT
last() { sed -nE "s/^  $1 +(.*[^0-9.])?$2.*/\2/p"; }
loss=$("$build/mpirun" -n 2 "$build/bin/torchweave" train configs/gru_adding.toml --set "output=$runs" --fresh --set data.validation=0 | last test 'loss ([0-9.e-]+)')
echo "adding problem: mean squared error $loss"
expect "below 0.05" "$loss < 0.05"
pixels() { "$build/mpirun" -n "$1" "$build/bin/torchweave" train configs/gru_fashion_mnist.toml --set "output=$runs" --fresh --set data.validation=0 "${@:2}" | last 'test accuracy' '([0-9.]+) % of'; }
parallel=$(pixels 2)
serial=$(pixels 1 --set mesh.layer=1 --set layer_parallel.levels=1)
echo "pixel by pixel, two epochs: serial $serial %, in parallel $parallel %"
expect "within one point" "$parallel >= $serial - 1"
exit $failed
