#!/usr/bin/env bash
# leftovers.sh COMMAND...: the doctor names what a killed job left in shared memory, but nothing so young that a job may be about to use it.
set -euo pipefail
left=/dev/shm/vader_segment.left_by_a_test.$$ young=/dev/shm/vader_segment.of_a_test.$$
trap 'rm -f "$left" "$young"' EXIT
: >"$left" >"$young"
touch -d '2 minutes ago' "$left"
report=$("$@")
echo "$report"
grep -q "rm .*$left" <<<"$report"
! grep -q "$young" <<<"$report"
