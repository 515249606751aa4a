#!/usr/bin/env bash
# leaves_nothing.sh COMMAND...: succeeds when COMMAND succeeds and leaves behind no file in /dev/shm, none in its temporary directory, and no process.
set -u
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mark=TW_FAULT_MARK=$$-$RANDOM  # in the environment of all its processes
before=$(ls -A /dev/shm)
env "$mark" TMPDIR="$temporary" "$@" || exit 1
for _ in $(seq 50); do  # what was killed takes a moment to go
  processes=$(grep -lsz "^$mark\$" /proc/[0-9]*/environ)
  files=$(comm -13 <(sort <<<"$before") <(ls -A /dev/shm | sort) && ls -A "$temporary")
  [ -n "$processes$files" ] || exit 0
  sleep 0.1
done
echo "leaves_nothing: left behind: $processes $files"
exit 1
