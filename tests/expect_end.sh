#!/usr/bin/env bash
# expect_end.sh SECONDS REGEX COMMAND...: succeeds when COMMAND fails by itself within SECONDS and prints a line that matches REGEX.
# Open MPI's launcher may itself crash while it tears down an aborted job (seen with 4.1.4, in PMIx_server_finalize, once in hundreds of runs). Nothing can
# be said of the ranks then: COMMAND is run a second time, and a second crash counts.
set -u
seconds=$1
regex=$2
shift 2
output=$(mktemp)
trap 'rm -f "$output"' EXIT
run() {
  start=$(date +%s%N)
  timeout --kill-after=5 $((seconds + 20)) "$@" >"$output" 2>&1
  code=$?
  took=$((($(date +%s%N) - start) / 1000000))
  cat "$output"
}
run "$@"
if [ $code -eq 139 ] && grep -qE '\] (/[^ ]*/)?(mpiexec|mpirun|orterun)\(' "$output"; then  # a frame of the launcher's own stack
  echo "expect_end: the launcher crashed; once more"
  launcher=$(sed -nE 's/^\[[^]]*:0*([0-9]+)\] \*\*\* Process received signal.*/\1/p' "$output" | sed -n 1p)
  rm -rf "${TMPDIR:-/tmp}"/ompi.*/pid."$launcher"  # which only an orderly end takes away
  rmdir --ignore-fail-on-non-empty "${TMPDIR:-/tmp}"/ompi.*
  run "$@"
fi
if [ $code -eq 77 ] && grep -q '^SKIPPED: ' "$output"; then exit 77; fi
echo "exit code $code after $took ms"
if [ $code -eq 0 ]; then echo "expect_end: it should have failed"; exit 1; fi
if [ $took -gt $((seconds * 1000)) ]; then echo "expect_end: it took longer than $seconds s"; exit 1; fi
if ! grep -qE -- "$regex" "$output"; then echo "expect_end: no line matches: $regex"; exit 1; fi
