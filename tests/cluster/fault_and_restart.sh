#!/usr/bin/env bash
# fault_and_restart.sh BUILD DATA FOLDER RANKS FAULT WHERE CHECKPOINT: to be run by hosts.sh --ranks RANKS --bare yes. Launches a training job on all hosts
# and does it one harm as soon as its CHECKPOINT-th checkpoint is there:
#   kill R       SIGKILL for rank R
#   stop R       SIGSTOP for rank R
#   cut H        the cable of host H is cut
#   cut_late H   the same, where the watchdog ends the job before Open MPI misses the host, and Open MPI cannot tell it so
#   kill_host H  SIGKILL for all ranks of host H
# Who failed must be named in time, the job must be started once more, where a host failed without that host (after `cut_late` twice: the host is missed at
# the second start), and come to its end; and no rank of the first start may live on. Prints a line that says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1 data=$2 folder=$3 fault=$5 where=$6 checkpoint=$7
IFS=, read -ra ranks <<<"$4"
rm -rf "$folder"
mkdir -p "$folder"

epochs=80 every=5 last=400  # 200 samples in batches of 40
host_timeout=4 stall_abort=10
[ "$fault" != cut_late ] || host_timeout=8 stall_abort=3
hosts='' host_of=()  # of ranks
for ((host = 1; host <= ${#ranks[@]}; ++host)); do
  hosts+=${hosts:+,}tw-h$host:${ranks[host - 1]}
  for ((i = 0; i < ranks[host - 1]; ++i)); do host_of+=("$host"); done
done

fail() { echo "fault_and_restart: $*"; grep -vE '^epoch|default$' "$folder/log"; exit 1; }
milliseconds() { echo $(($(date +%s%N) / 1000000)); }
processes_of() {  # processes_of RANK
  local environment
  for environment in $(grep -lsz "^OMPI_COMM_WORLD_RANK=$1\$" /proc/[0-9]*/environ); do basename "$(dirname "$environment")"; done
}
ranks_on() {  # ranks_on HOST
  local rank
  for rank in "${!host_of[@]}"; do [ "${host_of[rank]}" -ne "$1" ] || echo "$rank"; done
}

"$build/bin/torchweave" launch --hosts "$hosts" --bind none --restart 3 --host-timeout $host_timeout --log-dir "$folder/logs" --checkpoints "$folder/run" -- \
  "$build/bin/torchweave" train configs/lenet_fashion_mnist.toml --data "$data" --set output="$folder" --set name=run --set model.name=mlp \
  --set model.width=32 --set global_batch=40 --set epochs=$epochs --set checkpoint.every_steps=$every --set checkpoint.keep=1000 \
  --set stall.warning=$((stall_abort / 2)) --set stall.abort=$stall_abort --fresh >"$folder/log" 2>&1 &
job=$!
until [ "$(ls "$folder/run/checkpoints" 2>/dev/null | wc -l)" -ge "$checkpoint" ]; do
  kill -0 $job 2>/dev/null || fail "it ended before it was harmed"
  sleep 0.02
done

rest=${#host_of[@]} without='' seconds=10  # Open MPI takes up to 5 to end a job on several hosts
case $fault in
  kill | stop) host=${host_of[where]} victims=$(processes_of "$where") ;;
  kill_host) host=$where victims=$(for rank in $(ranks_on "$host"); do processes_of "$rank"; done) ;;
  cut*) host=$where victims='' ;;
esac
old=$(grep -lsz '^OMPI_COMM_WORLD_RANK=' /proc/[0-9]*/environ)
case $fault in
  kill) who="rank $where on tw-h$host died: signal 9 \(Killed\)" ;;
  kill_host) who="rank ($(ranks_on "$host" | paste -sd'|')) on tw-h$host died: signal 9 \(Killed\)" ;;
  stop) who="rank $where (is late|has not responded|has begun this call)[^;]*" seconds=$((seconds + stall_abort)) ;;
  cut) who="the job on tw-h$host died: the host no longer answers" seconds=$((seconds + host_timeout)) ;;
  cut_late) who="rank ($(ranks_on "$host" | paste -sd'|')) has not responded[^;]*" seconds=$((seconds + stall_abort + host_timeout + 10)) ;;
esac
[[ $fault = stop || $fault = cut_late ]] || rest=$((rest - ranks[host - 1])) without=", without tw-h$host"
# A rank that lost its connection to one that was killed may end the job before Open MPI knows of that; then it goes on with all.
lost="the job on (tw-h|10\.77\.0\.)$host died: other ranks lost the connection to a rank there; starting again in 1 s on ${#host_of[@]} ranks"
began=$(milliseconds)
case $fault in
  kill | kill_host) kill -KILL $victims ;;
  stop) kill -STOP $victims ;;
  cut*) /run/cut "tw-h$host" ;;
esac

until grep -q '^torchweave: .*; starting again in' "$folder/log"; do
  kill -0 $job 2>/dev/null || fail "it ended, and was not started again"
  sleep 0.02
done
took=$(($(milliseconds) - began))
wait $job || fail "it did not come to its end"
said=$(grep '^torchweave: ' "$folder/log")
if [[ $fault = kill* ]] && grep -qE "^torchweave: $lost\$" <<<"$said"; then
  rest=${#host_of[@]}
else
  head -n 1 <<<"$said" | grep -E "^torchweave: $who; starting again in 1 s on $rest ranks$without\$" >/dev/null || fail "another was named: $said"
fi
starts=1
if [ "$fault" = cut_late ]; then
  starts=2 rest=$((rest - ranks[host - 1]))
  sed -n 2p <<<"$said" | grep "^torchweave: the job on tw-h$host died: the host cannot reach the launcher; starting again in 2 s on $rest ranks, without tw-h$host\$" >/dev/null ||
    fail "the host was not missed at the second start: $said"
fi
[ "$(wc -l <<<"$said")" -eq $starts ] || fail "it was started again too often: $said"
[ $took -le $((1000 * seconds)) ] || fail "it took $took ms until the failure was named"
grep -qE "$last steps of 40 images on $rest ranks?," "$folder/log" || fail "the last start was not on $rest ranks"
grep -q "run: done" "$folder/log" || fail "the run is not done"
ls "$folder/run/checkpoints" | tail -n 1 | grep -E "[^0-9]0*$last\$" >/dev/null || fail "the last checkpoint is not that of step $last"
while grep -qsz '^OMPI_COMM_WORLD_RANK=' $old; do
  [ $(($(milliseconds) - began)) -le 60000 ] || fail "ranks of the first start live on: $old"
  sleep 0.1
done
echo "$fault $where after checkpoint $checkpoint: $(awk '{ sub(/^torchweave: /, ""); printf "%s%s", (NR > 1 ? ", then " : ""), $0 }' <<<"$said"), after $(awk "BEGIN { printf \"%.1f\", $took / 1000 }") s; done on $rest ranks"
