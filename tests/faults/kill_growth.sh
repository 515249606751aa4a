#!/usr/bin/env bash
# kill_growth.sh BUILD FOLDER KILLS: kills a search whose trials grow with SIGKILL at KILLS random times, and continues it each time on 2, 3 or 4 ranks.
# All trials end, none fails, and each has made every step once, from where it was.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/faults/kill_job.bash
build=$1 folder=$(realpath -m "$2") kills=$3 evaluations=100
rm -rf "$folder"

search() { exec "$build/mpirun" -n "$1" "$build/bin/accept_growth_kills" "$folder/journal" $evaluations "${@:2}"; }

# expect_ended FAILED: all trials, of which so many have failed, and some have grown.
expect_ended() {
  local ended failed growths
  cat "$folder/log"
  read -r ended _ failed _ growths _ < <(tail -n 1 "$folder/log" | tr -d ,)
  [ "$ended" -eq "$evaluations" ] && [ "$failed" -eq "$1" ] || { echo "not exactly $evaluations trials, $1 of them failed"; exit 1; }
  [ "$growths" -gt 0 ] || { echo "none has grown"; exit 1; }
}

job() { search $((2 + killed / 2 % 3)); }
was_killed() { :; }
came_to_an_end() { [ "$killed" -eq "$kills" ] || evaluations=$((evaluations * 2)); }
kill_often "$folder" "$kills" 200 1200
expect_ended 0
echo "killed $killed times in $runs runs: all $evaluations trials have ended, and none has lost its way"

# A helper that is killed by the trial which it helps with: that one has failed, and no other.
rm -rf "$folder/journal"
evaluations=100
starts=$(starts_until_done "$folder/log" search 4 deadly)
expect_ended 1
echo "a trial that kills who helps with it: $starts starts, and the search is complete"
