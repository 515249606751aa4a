#!/usr/bin/env bash
# compare_mesh.sh BUILD: what each axis adds to a training step of a small GPT, ours and PyTorch's over gloo, in turns, on two ranks: the step less the
# same computing alone. One JSON line an axis; its ratio is theirs over ours. Needs a Python with torch: TW_BENCH_PYTHON, or python3 (PYTHONPATH counts).
set -euo pipefail
cd "$(dirname "$0")"
build=$1
python=${TW_BENCH_PYTHON:-python3}
if ! "$python" -c 'import torch.distributed' 2>/dev/null; then
  echo "SKIPPED: torch_gloo: $python has no torch; set TW_BENCH_PYTHON" >&2
  exit 0
fi
rounds=5
port=29700
for axis in data shard stage tensor; do
  lines=()
  for ((round = 0; round < rounds; ++round)); do
    for how in together alone; do
      port=$((port + 1))
      lines+=("theirs $how $("$build/mpirun" -n 2 "$python" torch_mesh.py $axis $how $port)")
      lines+=("ours $how $("$build/mpirun" -n 2 "$build/bin/bench_peers_mesh" $axis $how)")
    done
  done
  python3 - "$axis" "$rounds" "${lines[@]}" <<'PY'
import collections, json, statistics, sys
axis, rounds = sys.argv[1], int(sys.argv[2])
times, memory = collections.defaultdict(list), collections.defaultdict(list)
for line in sys.argv[3:]:
    whose, how, ms, mib = line.split()
    times[whose, how].append(float(ms))
    memory[whose, how].append(int(mib))
added = {whose: [together - alone for together, alone in zip(times[whose, "together"], times[whose, "alone"])] for whose in ("theirs", "ours")}
theirs, ours = statistics.median(added["theirs"]), statistics.median(added["ours"])
print(json.dumps({"benchmark": "mesh/added_time", "case": f"gpt_12_{axis}", "ranks": 2, "baseline": "torch_gloo", "baseline_ms": theirs, "ours_ms": ours,
                  "ratio": theirs / ours, "rounds": rounds, "spread": (max(added["ours"]) - min(added["ours"])) / abs(ours),
                  **{f"{whose}_step_ms": statistics.median(times[whose, "together"]) for whose in ("theirs", "ours")},
                  **{f"{whose}_peak_mib": max(memory[whose, "together"]) for whose in ("theirs", "ours")}}))
PY
done
