#!/usr/bin/env bash
# expect_exit.sh CODE REGEX COMMAND...: succeeds when COMMAND ends with exit code CODE, prints exactly one line that matches REGEX, and the launcher adds
# nothing to it.
set -u
expected=$1
regex=$2
shift 2
output=$("$@" 2>&1)
code=$?
printf '%s\nexit code %s\n' "$output" $code
if [ $code -ne "$expected" ]; then echo "expect_exit: it should have been $expected"; exit 1; fi
if [ "$(grep -cE -- "$regex" <<<"$output")" -ne 1 ]; then echo "expect_exit: not exactly one line matches: $regex"; exit 1; fi
if grep -qE "MPI_ABORT|mpirun|Primary job|help message|Epoll" <<<"$output"; then echo "expect_exit: the launcher talks"; exit 1; fi
