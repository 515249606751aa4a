#!/usr/bin/env bash
# kill_growth.sh BUILD FOLDER KILLS: kills a search whose trials grow with SIGKILL at KILLS random times, and continues it each time on 2, 3 or 4 ranks.
# All trials end, none fails, and each has made every step once, from where it was.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/faults/kill_job.bash
build=$1 folder=$(realpath -m "$2") kills=$3 evaluations=100
rm -rf "$folder"
mkdir -p "$folder/mpi"
# What a killed Open MPI leaves behind goes into the folder too.
export OMPI_MCA_btl_vader_backing_directory=$folder/mpi OMPI_MCA_orte_tmpdir_base=$folder/mpi
RANDOM=${SEED:-$$}

killed=0 runs=0
while :; do
  "$build/mpirun" -n $((2 + killed / 2 % 3)) "$build/bin/accept_growth_kills" "$folder/journal" $evaluations >"$folder/log" 2>&1 &
  job=$!
  shot=false
  if [ "$killed" -lt "$kills" ] && kill_job $job "$(awk -v r=$RANDOM 'BEGIN { print 0.2 + r / 32768 }')" 2>/dev/null; then
    shot=true
    killed=$((killed + 1))
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
read -r ended _ failed _ growths _ < <(tr -d , <"$folder/log")
[ "$ended" -eq "$evaluations" ] && [ "$failed" -eq 0 ] || { echo "not exactly $evaluations trials"; exit 1; }
[ "$growths" -gt 0 ] || { echo "none has grown"; exit 1; }
echo "killed $killed times in $runs runs: all $evaluations trials have ended, and none has lost its way"
