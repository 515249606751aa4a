#!/usr/bin/env bash
# signal_and_resume.sh BUILD DATA FOLDER SIGNAL: sends SIGNAL to the launcher of a training job, as a batch system does. The job must end by itself, with a
# checkpoint, and go on when it is resumed. SIGNAL may be "script": SIGTERM to a script that turns it into SIGUSR1, as docs/guide.md has it.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 data=$2 folder=$3 signal=$4
rm -rf "$folder"
mkdir -p "$folder"

heard=$signal
[ "$signal" != TERM ] || export OMPI_MCA_odls_base_sigkill_timeout=5  # or Open MPI kills its ranks after a second
[ "$signal" != script ] || heard=USR1

train() {  # train EPOCHS OPTION...
  exec "$build/mpirun" -n 2 "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --data "$data" --set output="$folder" \
    --set name=run --set model.name=mlp --set batch_size=8 --set epochs="$1" "${@:2}" >"$folder/log" 2>&1
}

script() {
  train "$@" &
  trap "kill -USR1 $!" TERM INT
  wait $! || wait $!
}

if [ "$signal" = script ]; then script 100000 --fresh & else train 100000 --fresh & fi
job=$!
until [ -s "$folder/run/metrics.jsonl" ]; do  # it trains
  kill -0 $job || { cat "$folder/log"; exit 1; }
  sleep 0.1
done
kill -s "${signal/script/TERM}" $job
code=0
wait $job || code=$?
[ $code -eq 75 ] || [ "$signal" = TERM ] || { cat "$folder/log"; echo "exit code $code, where 75 says that it is unfinished"; exit 1; }  # TERM: MPI's own
grep -q "\"finished\":false,\"stopped_because\":\"SIG$heard\"" "$folder/run/metrics.jsonl" || { cat "$folder/log"; exit 1; }
epochs=$(sed -n 's/.*"event":"epoch","epoch":\([0-9]*\).*/\1/p' "$folder/run/metrics.jsonl" | tail -n 1)
(train $((epochs + 2)) --resume) || { cat "$folder/log"; exit 1; }
grep -q "run: done" "$folder/log" || { cat "$folder/log"; exit 1; }
echo "ended by SIG$heard in epoch $((epochs + 1)), resumed and done"
