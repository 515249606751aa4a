#!/usr/bin/env bash
# compare.sh BUILD: a training step of ours and of PyTorch over gloo, in turns, on two ranks; one JSON line a case: DataParallel against
# DistributedDataParallel, FullySharded against FSDP2, which gathers again for the backward pass as ours does, or keeps what it gathered. Needs a Python
# with torch: TW_BENCH_PYTHON, or python3 (PYTHONPATH counts).
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

compare() {  # compare BENCHMARK CASE BASELINE "THEIR PROGRAM" "THEIR ARGUMENTS" OURS
  local theirs=() ours=()
  for ((round = 0; round < rounds; ++round)); do
    port=$((port + 1))
    theirs+=("$("$build/mpirun" -n 2 "$python" "$4" "$2" "$port" $5)")
    ours+=("$("$build/mpirun" -n 2 "$build/bin/bench_peers_ours" "$2" "$6")")
  done
  python3 - "$1" "$2" "$3" "$rounds" "${theirs[@]}" "${ours[@]}" <<'PY'
import json, statistics, sys
benchmark, case, baseline, rounds = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
numbers = [float(x) for x in sys.argv[5:]]
theirs, ours = statistics.median(numbers[:rounds]), statistics.median(numbers[rounds:])
spread = (max(numbers[rounds:]) - min(numbers[rounds:])) / ours
print(json.dumps({"benchmark": benchmark, "case": case, "ranks": 2, "baseline": baseline, "baseline_ms": theirs, "ours_ms": ours,
                  "ratio": theirs / ours, "rounds": rounds, "spread": spread}))
PY
}

for case in mlp_5e4 lenet mlp_8e6; do compare data_parallel/step $case torch_ddp_gloo torch_ddp.py "" data; done
for case in mlp_8e6 gpt_12; do
  compare sharded/step $case torch_fsdp2_gloo torch_fsdp.py 1 fully_sharded
  compare sharded/step $case torch_fsdp2_gloo_kept torch_fsdp.py 0 fully_sharded
done
