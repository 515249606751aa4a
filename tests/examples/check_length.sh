#!/usr/bin/env bash
# check_length.sh LIMIT DIR: succeeds when no source below DIR has more than LIMIT lines.
set -u
long=$(find "$2" -name '*.cpp' -exec awk -v limit="$1" 'END { if (NR > limit) print FILENAME ": " NR " lines" }' {} \;)
echo "$long"
[ -z "$long" ]
