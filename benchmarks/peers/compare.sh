#!/usr/bin/env bash
# compare.sh BUILD: a training step of ours and of PyTorch's DistributedDataParallel with gloo, in turns, on two ranks; one JSON line a case. Needs a
# Python with torch: TW_BENCH_PYTHON, or python3 (PYTHONPATH counts).
set -euo pipefail
cd "$(dirname "$0")"
build=$1
python=${TW_BENCH_PYTHON:-python3}
if ! "$python" -c 'import torch.distributed' 2>/dev/null; then
  echo "SKIPPED: torch_ddp_gloo: $python has no torch; set TW_BENCH_PYTHON" >&2
  exit 0
fi
rounds=5
port=29500
for case in mlp_5e4 lenet mlp_8e6; do
  theirs=()
  ours=()
  for ((round = 0; round < rounds; ++round)); do
    port=$((port + 1))
    theirs+=("$("$build/mpirun" -n 2 "$python" torch_ddp.py "$case" "$port")")
    ours+=("$("$build/mpirun" -n 2 "$build/bin/bench_peers_ours" "$case")")
  done
  python3 - "$case" "$rounds" "${theirs[@]}" "${ours[@]}" <<'PY'
import json, statistics, sys
case, rounds = sys.argv[1], int(sys.argv[2])
numbers = [float(x) for x in sys.argv[3:]]
theirs, ours = statistics.median(numbers[:rounds]), statistics.median(numbers[rounds:])
spread = (max(numbers[rounds:]) - min(numbers[rounds:])) / ours
print(json.dumps({"benchmark": "data_parallel/step", "case": case, "ranks": 2, "baseline": "torch_ddp_gloo", "baseline_ms": theirs, "ours_ms": ours,
                  "ratio": theirs / ours, "rounds": rounds, "spread": spread}))
PY
done
