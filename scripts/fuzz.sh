#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS [TARGET]: runs each fuzz target for so long, one after the other. What it learns stays in BUILD/corpus for the next time; an
# input that breaks a parser is left in BUILD/found, and is run again by giving it to the target as its argument.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
seconds=$2
failed=()
# LibTorch is not instrumented, so its containers do not tell ASan where they end. Objects that it keeps for ever are not leaks.
export ASAN_OPTIONS=detect_container_overflow=0:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
for target in "$build"/bin/fuzz_${3:-*}; do
  name=$(basename "$target")
  name=${name#fuzz_}
  mkdir -p "$build/corpus/$name" "$build/found/$name"
  log=$build/found/$name.log
  if "$target" -max_total_time="$seconds" -max_len=4096 -timeout=10 -rss_limit_mb=4096 -print_final_stats=1 \
      -artifact_prefix="$build/found/$name/" "$build/corpus/$name" "tests/fuzz/seeds/$name" >"$log" 2>&1; then
    echo "fuzz: $name: $(sed -n 's/stat::number_of_executed_units: *//p' "$log") inputs, nothing found"
  else
    tail -n 40 "$log" >&2
    failed+=("$name")
  fi
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "fuzz: FOUND SOMETHING: ${failed[*]}; see $build/found"
  exit 1
fi
