#!/usr/bin/env bash
# test.sh BUILD JOBS ONLY [CTEST_ARGUMENT...]: runs the tests of a build folder; with ONLY, a regular expression, those whose run, file or name it
# matches, such as "fault" (of CTest's list), "comm.mpi.2", "capture_test" or "Trainer.Writes".
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
jobs=$2
only=$3
shift 3
if [ -n "$only" ]; then
  # A line for each test of each program: its run, its file, its name.
  matching=$(while read -r run file; do
    sed -nE "s|^(TW_)?TEST(_F\|_P\|_ON)?\(([A-Za-z0-9_]+), *([A-Za-z0-9_]+)[,)].*|$run ${file#"$PWD"/} \3.\4|p" "$file"
  done <"$build/tests.txt" | ONLY=$only awk '{ for (i = 1; i <= 3; ++i) if ($i ~ ENVIRON["ONLY"]) { print; next } }')
  if [ -n "$matching" ]; then
    GTEST_FILTER=$(awk '{ print "*" $3 "*" }' <<<"$matching" | sort -u | paste -sd:)
    export GTEST_FILTER
    only="$only|^($(awk '{ print $1 }' <<<"$matching" | sort -u | paste -sd'|'))\$"
  fi
  set -- "$@" -R "$only"
fi
rm -rf "$build/reports"
mkdir -p "$build/reports"
failed=0
ctest --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" "$@" || failed=$?
for report in "$build"/reports/*; do
  [ -e "$report" ] || break
  cat "$report"
  failed=1
done
exit $failed
