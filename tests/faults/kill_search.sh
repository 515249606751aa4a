#!/usr/bin/env bash
# kill_search.sh BUILD FOLDER KILLS: kills a search with SIGKILL at KILLS random times, and continues it each time on 2 or 3 ranks and 1 or 2 islands,
# each layout with another propagator.
# Only trials in flight may be lost, none that had ended may begin again, and exactly as many are complete as were asked for.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/faults/kill_job.bash
build=$1 folder=$(realpath -m "$2") kills=$3 evaluations=$((300 * $3))
rm -rf "$folder"
mkdir -p "$folder/mpi"
# What a killed Open MPI leaves behind goes into the folder too.
export OMPI_MCA_btl_vader_backing_directory=$folder/mpi OMPI_MCA_orte_tmpdir_base=$folder/mpi
RANDOM=${SEED:-$$}

search() {  # search RANKS EVALUATIONS ISLANDS RANKS_PER_WORKER PROPAGATOR [TRIAL]
  exec "$build/mpirun" -n "$1" "$build/bin/accept_search_kills" "$folder/journal" "${@:2}" >"$folder/log" 2>&1
}

killed=0 workers_killed=0 runs=0 layouts=0
while :; do
  ranks=$((2 + layouts % 2)) islands=$((1 + layouts / 2 % 2))
  search $ranks $evaluations $islands 1 $layouts &
  job=$!
  shot=false
  if [ "$killed" -lt "$kills" ] && kill_job $job "$(awk -v r=$RANDOM 'BEGIN { print 0.2 + r / 32768 }')" 2>/dev/null; then
    shot=true
    killed=$((killed + 1)) workers_killed=$((workers_killed + ranks))
    [ $((killed % 2)) -ne 0 ] || layouts=$((layouts + 1))  # each layout is continued once, by replay
  fi
  runs=$((runs + 1))
  if wait $job 2>/dev/null; then
    [ "$killed" -lt "$kills" ] || break
    evaluations=$((evaluations * 2))
  else
    $shot || { cat "$folder/log"; exit 1; }
  fi
  rm -rf "$folder"/mpi/*
done
cat "$folder/log"
read -r complete _ failed _ lost _ < <(tr -d , <"$folder/log")
[ "$complete" -eq "$evaluations" ] && [ "$failed" -eq 0 ] || { echo "not exactly $evaluations evaluations"; exit 1; }
[ "$lost" -le $workers_killed ] || { echo "more evaluations were lost than were in flight"; exit 1; }
echo "killed $killed times in $runs runs on $((layouts + 1)) layouts: at most $workers_killed evaluations were in flight, $lost of them were done again"

# A rank of a worker of two, and one of four workers while the others are in long trials, killed by the objective: each time the job ends, and with the
# second time this trial has failed, and no other. Where not all that are asked to end can say so in time, it takes one more.
for case in "2 0 7" "1 0 3"; do
  rm -rf "$folder/journal" "$folder/journal.diary"
  starts=1
  until (search 4 200 1 $case); do
    starts=$((starts + 1))
    [ $starts -le 5 ] || { cat "$folder/log"; exit 1; }
  done
  cat "$folder/log"
  grep -q "^199 complete, 1 failed" "$folder/log" || exit 1
  echo "an objective that kills a rank of its worker of ${case%% *}: $starts starts, and the search is complete"
done
