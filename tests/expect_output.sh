#!/usr/bin/env bash
# expect_output.sh REGEX COMMAND...: succeeds when COMMAND succeeds and prints a line that matches REGEX. (CTest's own PASS_REGULAR_EXPRESSION would
# not look at the exit code.) Exit code 77 with a line "SKIPPED: reason" is passed on, for CTest's SKIP_RETURN_CODE.
set -u
regex=$1
shift
output=$("$@" 2>&1)
code=$?
printf '%s\n' "$output"
if [ $code -eq 77 ] && grep -q '^SKIPPED: ' <<<"$output"; then exit 77; fi
if [ $code -ne 0 ]; then echo "expect_output: exit code $code"; exit 1; fi
if ! grep -qE -- "$regex" <<<"$output"; then echo "expect_output: no line matches: $regex"; exit 1; fi
