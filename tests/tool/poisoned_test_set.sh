#!/usr/bin/env bash
# poisoned_test_set.sh GOOD POISONED COMMAND...: succeeds when COMMAND, a search, makes the same choices on two folders of data that differ in the labels
# of their test sets, and finds other values on these.
set -eu
good=$1 poisoned=$2
shift 2
clean=$("$@" --data "$good" 2>&1) || { echo "$clean"; exit 1; }
spoiled=$("$@" --data "$poisoned" 2>&1) || { echo "$spoiled"; exit 1; }
choices() { grep -E '^  best |^    '; }
value() { grep -E '^  test '; }
[ -n "$(choices <<<"$clean")" ] && [ -n "$(value <<<"$spoiled")" ]  # the words that are looked for are there
diff <(choices <<<"$clean") <(choices <<<"$spoiled")
[ "$(value <<<"$clean")" != "$(value <<<"$spoiled")" ]
