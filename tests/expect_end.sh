#!/usr/bin/env bash
# expect_end.sh SECONDS REGEX COMMAND...: succeeds when COMMAND fails by itself within SECONDS and prints a line that matches REGEX.
set -u
seconds=$1
regex=$2
shift 2
output=$(mktemp)
trap 'rm -f "$output"' EXIT
start=$(date +%s%N)
timeout --kill-after=5 $((seconds + 20)) "$@" >"$output" 2>&1
code=$?
took=$((($(date +%s%N) - start) / 1000000))
cat "$output"
echo "exit code $code after $took ms"
if [ $code -eq 0 ]; then echo "expect_end: it should have failed"; exit 1; fi
if [ $took -gt $((seconds * 1000)) ]; then echo "expect_end: it took longer than $seconds s"; exit 1; fi
if ! grep -qE -- "$regex" "$output"; then echo "expect_end: no line matches: $regex"; exit 1; fi
