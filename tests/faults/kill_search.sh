#!/usr/bin/env bash
# kill_search.sh BUILD FOLDER KILLS: kills a search with SIGKILL at KILLS random times, and continues it each time on 2 or 3 ranks and 1 or 2 islands,
# each layout with another propagator.
# Only trials in flight may be lost, none that had ended may begin again, and exactly as many are complete as were asked for.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/faults/kill_job.bash
build=$1 folder=$(realpath -m "$2") kills=$3 evaluations=$((300 * $3)) workers_killed=0 layouts=0 before=0 begun=0
rm -rf "$folder"

search() {  # search RANKS EVALUATIONS ISLANDS RANKS_PER_WORKER PROPAGATOR [TRIAL HOW [TIMES]]
  exec "$build/mpirun" -n "$1" "$build/bin/accept_search_kills" "$folder/journal" "${@:2}"
}

# expect_trials COMPLETE FAILED
expect_trials() {
  cat "$folder/log"
  grep -q "^$1 complete, $2 failed" "$folder/log" || { echo "not exactly $1 complete and $2 failed"; exit 1; }
}

segments() { find "$folder" -name '*-00000.journal' | wc -l; }
ranks() { echo $((2 + layouts % 2)); }
job() { search "$(ranks)" $evaluations $((1 + layouts / 2 % 2)) 1 $layouts; }
was_killed() {
  workers_killed=$((workers_killed + $(ranks)))
  [ $begun -le $before ] || layouts=$((layouts + 1)) before=$(segments)  # each layout that has begun is continued once, by replay
  begun=$(segments)
}
came_to_an_end() { [ "$killed" -eq "$kills" ] || evaluations=$((evaluations * 2)); }
kill_often "$folder" "$kills" 200 1200
expect_trials $evaluations 0
lost=$(tail -n 1 "$folder/log" | awk '{ print $5 }')
[ "$lost" -le $workers_killed ] || { echo "more evaluations were lost than were in flight"; exit 1; }
echo "killed $killed times in $runs runs on $((layouts + 1)) layouts: at most $workers_killed evaluations were in flight, $lost of them were done again"

# A rank of a worker of two, and one of four workers while the others are in long trials, that end by their trial: each time the job ends, and with the
# second time this trial has failed, and no other. Where not all that are asked to end can say so in time, it takes more. Who is asked to end three
# times, as a batch system does, on a worker of four ranks or on one rank alone, is not blamed.
deadly() {  # deadly COMPLETE RANKS RANKS_PER_WORKER TRIAL HOW [TIMES]
  rm -rf "$folder/journal" "$folder/journal.diary"
  starts=$(starts_until_done "$folder/log" search "$2" 200 1 "$3" 0 "${@:4}")
  expect_trials "$1" $((200 - $1))
  echo "ended by $5 on $2 ranks, $3 a worker: $starts starts, and the search is complete"
}
deadly 199 4 2 7 SIGKILL
deadly 199 4 1 3 SIGKILL
deadly 199 4 1 3 MPI_Abort
deadly 199 1 1 3 SIGKILL
# MPICH's launcher ends the other ranks by SIGKILL, so that they cannot note that they were asked to end: there the trial has failed.
deadly "$("$build/mpirun" --version | grep -i hydra >/dev/null && echo 199 || echo 200)" 4 4 3 SIGTERM 3
deadly 200 1 1 3 SIGTERM 3
