#!/usr/bin/env bash
# launch_and_restart.sh BUILD DATA FOLDER: a training job that is launched survives the death of a rank: it is named, the job goes on from its newest
# checkpoint, and ends as one that nobody killed.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 data=$2 folder=$3
rm -rf "$folder"
mkdir -p "$folder"

"$build/bin/torchweave" launch -n 2 --restart 2 --log-dir "$folder/logs" --checkpoints "$folder/run" -- \
  "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --data "$data" --set output="$folder" --set name=run --set model.name=mlp \
  --set batch_size=8 --set epochs=60 --fresh >"$folder/log" 2>&1 &
job=$!
trap 'kill $job 2>/dev/null || true' EXIT  # which ends the ranks too
until [ -n "$(ls "$folder/run/checkpoints" 2>/dev/null)" ]; do  # there is something to go on from
  kill -0 $job || { cat "$folder/log"; exit 1; }
  sleep 0.05
done
for rank in $(pgrep -P "$(pgrep -P $job mpi)"); do
  ! grep -qsz '^OMPI_COMM_WORLD_RANK=1$' "/proc/$rank/environ" || victim=$rank
done
kill -KILL "$victim"
wait $job || { cat "$folder/log"; exit 1; }
grep -q "torchweave: rank 1 on .* died: signal 9 (Killed); starting again in 1 s on 2 ranks" "$folder/log" || { cat "$folder/log"; exit 1; }
grep -q "run: done" "$folder/log" || { cat "$folder/log"; exit 1; }
grep -q -- "--- start 2 ---" "$folder/logs/merged.log" && grep -q "^rank 0 | .*run: done" "$folder/logs/merged.log" && grep -q "run: done" "$folder/logs/rank_0.log"
echo "killed once, and done"
