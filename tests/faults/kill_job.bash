# To be sourced. `kill_job PID SECONDS` lets a job of mpirun run for that long, kills it and its ranks by SIGKILL and waits for their end; it succeeds
# if the job was still there.
kill_job() {
  local shot=1 rank ranks
  sleep "$2"  # the moment
  ranks=$(pgrep -P "$1" || true)
  kill -KILL "$1" 2>/dev/null && shot=0
  for rank in $ranks; do kill -KILL "$rank" 2>/dev/null || true; done
  for rank in $ranks; do tail --pid="$rank" -f /dev/null; done
  return $shot
}
