#!/usr/bin/env bash
# bench.sh BUILD OUT [KIND]: the benchmarks of devices of KIND (cuda), into OUT/bench.jsonl: a line of the machine, then one a case. Nine minutes at most.
# 77: there is no device.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) out=$2 kind=${3:-cuda}
machine=$("$here/machine.sh" "$build" "$kind")
mkdir -p "$out"
echo "$machine" | tee "$out/bench.jsonl"
failed=()

bench() {  # bench SECONDS RANKS SUBJECT
  timeout -k 10 "$1" "$build/mpirun" -n "$2" "$build/bin/bench_device" "$3" "$kind" </dev/null | tee -a "$out/bench.jsonl" || failed+=("$3 on $2")
}
bench 150 2 allreduce
bench 240 1 steps
bench 130 2 steps
echo "written to $out/bench.jsonl"
[ ${#failed[@]} -eq 0 ] || { printf 'failed, or took too long: %s\n' "${failed[@]}" >&2; exit 1; }
