#!/usr/bin/env bash
# count_changes.sh LIMIT OLD NEW: succeeds when at most LIMIT lines of code of NEW are new or changed, comments and includes not counted.
set -u
code() { grep -vE '^ *(//|#include|$)' "$1"; }
changes=$(diff <(code "$2") <(code "$3") | grep '^>')
echo "$changes"
count=$(grep -c '^>' <<<"$changes")
echo "$count lines changed"
[ "$count" -gt 0 ] && [ "$count" -le "$1" ]
