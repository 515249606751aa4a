#!/usr/bin/env bash
# expect_verdict.sh CODES REGEX COMMAND...: succeeds when COMMAND ends with one of the exit codes CODES, such as 1 or 1,9, and one line is its verdict,
# which matches REGEX and is the last that rank 0 prints.
set -u
expected=$1
regex=$2
shift 2
output=$("$@" 2>/dev/null)
code=$?
printf '%s\nexit code %s\n' "$output" $code
[[ ,$expected, == *,$code,* ]] || { echo "expect_verdict: it should have been $expected"; exit 1; }
[ "$(grep -cE '^(PASSED|FAILED): ' <<<"$output")" -eq 1 ] || { echo "expect_verdict: not exactly one verdict"; exit 1; }
grep -qE -- "$regex" <<<"$(grep -E '^(PASSED|FAILED): ' <<<"$output")" || { echo "expect_verdict: it does not match: $regex"; exit 1; }
