#!/usr/bin/env bash
# kill_and_resume.sh BUILD DATA FOLDER KILLS: kills a training job on 2 ranks with SIGKILL at KILLS random times, resuming it each time. A run that got to
# its end that way must be the undisturbed one, byte for byte: its last checkpoint (parameters, optimizer, progress) and its metrics.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/faults/kill_job.bash
build=$1 data=$2 folder=$3 kills=$4
rm -rf "$folder"
mkdir -p "$folder"

train() {  # train NAME OPTION...
  exec "$build/mpirun" -n 2 "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --data "$data" --set output="$folder" --set name="$1" --set model.name=mlp \
    --set model.width=64 --set batch_size=8 --set epochs=20 --set checkpoint.every_steps=7 --set data.shift=2 "${@:2}"
}

figures() { cut -d, -f1-6,8 "$folder/$1/metrics.csv"; }  # all but times

compare() {
  local last
  last=$(ls "$folder/whole/checkpoints" | tail -n 1)
  diff -r "$folder/whole/checkpoints/$last" "$folder/killed/checkpoints/$last" || { echo "the last checkpoints differ"; exit 1; }
  diff -r "$folder/whole/best" "$folder/killed/best" || { echo "the best models differ"; exit 1; }
  cmp "$folder/whole/best.safetensors" "$folder/killed/best.safetensors"
  diff <(figures whole) <(figures killed) || { echo "the metrics differ"; exit 1; }
}

began=$(date +%s%N)
(train whole --fresh) >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
milliseconds=$((($(date +%s%N) - began) / 1000000))

finished=0 option=--fresh
job() { train killed $option; }
was_killed() { option=--resume; }
came_to_an_end() {
  compare
  finished=$((finished + 1))
  option=--fresh
}
kill_often "$folder" "$kills" 0 $milliseconds
echo "killed $killed times, resumed to the end $finished times: every byte as in the undisturbed run"
