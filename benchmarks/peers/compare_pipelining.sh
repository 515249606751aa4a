#!/usr/bin/env bash
# compare_pipelining.sh BUILD: a forward and backward pass of ours and of torch.distributed.pipelining with gloo, each with the best of its schedules, in
# turns, on two ranks; one JSON line a case. Needs a Python with torch: TW_BENCH_PYTHON, or python3 (PYTHONPATH counts).
set -euo pipefail
cd "$(dirname "$0")"
build=$1
python=${TW_BENCH_PYTHON:-python3}
if ! "$python" -c 'import torch.distributed.pipelining' 2>/dev/null; then
  echo "SKIPPED: torch_pipelining: $python has no torch; set TW_BENCH_PYTHON" >&2
  exit 0
fi
rounds=5
port=29600
for batch in 1024 64; do
  lines=()
  for ((round = 0; round < rounds; ++round)); do
    for schedule in 1f1b gpipe; do
      port=$((port + 1))
      lines+=("theirs $schedule $("$build/mpirun" -n 2 "$python" torch_pipelining.py $schedule $batch $port)")
      lines+=("ours $schedule $("$build/mpirun" -n 2 "$build/bin/bench_peers_pipeline" $schedule $batch)")
    done
  done
  python3 - "$batch" "$rounds" "${lines[@]}" <<'PY'
import collections, json, statistics, sys
batch, rounds = sys.argv[1], int(sys.argv[2])
times = collections.defaultdict(list)
for line in sys.argv[3:]:
    whose, schedule, ms = line.split()
    times[whose, schedule].append(float(ms))
def best(whose):
    return min((numbers for (w, _), numbers in times.items() if w == whose), key=statistics.median)
theirs, ours = statistics.median(best("theirs")), statistics.median(best("ours"))
print(json.dumps({"benchmark": "pipeline/step", "case": f"best_of_batch_{batch}", "ranks": 2, "baseline": "torch_pipelining", "baseline_ms": theirs,
                  "ours_ms": ours, "ratio": theirs / ours, "rounds": rounds, "spread": (max(best("ours")) - min(best("ours"))) / ours}))
PY
done
