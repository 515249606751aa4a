#!/usr/bin/env bash
# killed_while_saving.sh ROUNDS PROGRAM MPIEXEC...: starts PROGRAM save on two ranks, kills a rank at a random moment, and lets PROGRAM check what is
# left, on 1, 2 or 3 ranks. The newest checkpoint must be whole, and no older than the one of the round before.
set -u
rounds=$1
program=$2
shift 2
directory=$(mktemp -d)
job=
trap 'rm -rf "$directory"' EXIT
last=0
for round in $(seq "$rounds"); do
  rm -f "$directory/saving" "$directory"/pid.*
  "$@" 2 "$program" save "$directory" >"$directory/log" 2>&1 &
  job=$!
  tries=600
  until [ -s "$directory/saving" ]; do  # seen once is enough: it is written anew at every save, and is empty for a moment then
    kill -0 $job 2>/dev/null || { cat "$directory/log"; echo "it ended by itself"; exit 1; }
    [ $((tries -= 1)) -gt 0 ] || { kill $job; wait $job; echo "it saved nothing in 30 s"; exit 1; }
    sleep 0.05
  done
  sleep "0.$(printf %03d $((RANDOM % 300)))"  # the random moment
  kill -9 "$(cat "$directory/pid.$((round % 2))")"
  wait $job
  found=$("$@" $((round % 3 + 1)) "$program" check "$directory" 2>&1) || { echo "$found"; exit 1; }
  step=$(grep -o 'whole [0-9]*' <<<"$found" | cut -d' ' -f2)
  echo "round $round: step $step"
  [ "${step:-0}" -ge "$last" ] || { echo "step $last was there before"; exit 1; }
  last=$step
done
[ "$last" -gt "$rounds" ] || { echo "too little was saved for a test"; exit 1; }
echo "all rounds left a whole checkpoint"
