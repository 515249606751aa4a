# To be sourced.

# `kill_job PID MILLISECONDS` lets a job of mpirun run for that long, kills it and its ranks by SIGKILL and waits for their end; it succeeds if the job
# was still there.
kill_job() {
  local shot=1 rank ranks
  sleep "$(awk "BEGIN { print $2 / 1000 }")"  # the moment
  ranks=$(pgrep -P "$1" || true)
  kill -KILL "$1" 2>/dev/null && shot=0
  for rank in $ranks; do kill -KILL "$rank" 2>/dev/null || true; done
  for rank in $ranks; do tail --pid="$rank" -f /dev/null; done
  return $shot
}

# `kill_often FOLDER KILLS FROM TO` starts the script's function `job` again and again, until it was killed KILLS times, each after FROM to TO
# milliseconds, and has come to its end after that. It counts in `killed` and `runs`, and calls the script's `was_killed` and `came_to_an_end`. FOLDER
# gets the log, and all that a killed Open MPI leaves behind.
kill_often() {
  local folder=$1 kills=$2 from=$3 to=$4 pid shot
  killed=0 runs=0
  mkdir -p "$folder/mpi"
  export OMPI_MCA_btl_vader_backing_directory=$folder/mpi OMPI_MCA_orte_tmpdir_base=$folder/mpi
  RANDOM=${SEED:-$$}
  while :; do
    job >"$folder/log" 2>&1 &
    pid=$!
    shot=false
    if [ "$killed" -lt "$kills" ] && kill_job $pid $((from + RANDOM * (to - from) / 32768)) 2>/dev/null; then
      shot=true
      killed=$((killed + 1))
      was_killed
    fi
    runs=$((runs + 1))
    if wait $pid 2>/dev/null; then
      came_to_an_end
      [ "$killed" -lt "$kills" ] || break
    else
      $shot || { cat "$folder/log"; exit 1; }
    fi
    rm -rf "$folder"/mpi/*
  done
}

# `starts_until_done LOG COMMAND...` starts a command until it succeeds, 5 times at most, and says how often that was.
starts_until_done() {
  local log=$1 starts=1
  until ("${@:2}") >"$log" 2>&1; do
    starts=$((starts + 1))
    [ $starts -le 5 ] || { cat "$log" >&2; return 1; }
  done
  echo $starts
}
