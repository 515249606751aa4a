#!/usr/bin/env bash
# compare_tested.sh CMAKE SCRIPT DOCS FOLDER: the table of DOCS/tested.md is that of the records in DOCS/tested, and SCRIPT refuses pages and records that
# are wrong. FOLDER is for copies.
set -euo pipefail
cmake=$1 script=$2 docs=$3 folder=$4
check() { "$cmake" -D CHECK=ON -D "DOCS=$1" -P "$script" 2>&1; }
check "$docs" || exit 1

# refuses REGEX FILE EXPRESSION: after sed's EXPRESSION on FILE of a copy.
refuses() {
  rm -rf "$folder"
  mkdir -p "$folder"
  cp -r "$docs/tested" "$docs/tested.md" "$folder"
  sed -i "$3" "$folder/$2"
  if output=$(check "$folder"); then echo "not refused: $3"; exit 1; fi
  grep -qE -- "$1" <<<"$(tr -s '\n ' ' ' <<<"$output")" || { echo "$output"; echo "it does not mention: $1"; exit 1; }
}
record=tested/$(ls "$docs/tested" | sed -n 1p)
refuses 'tested.md is not as the records' tested.md '$d'
refuses 'tested.md is not as the records' "$record" 's/"ranks": [0-9]*/"ranks": 77/'
refuses "of version 2, but this script reads 'torchweave selftest' of version 1" "$record" 's/"version": 1,/"version": 2,/'
refuses 'did not finish, or that had planted faults' "$record" 's/"finished": true,/"finished": false,/'
refuses 'did not finish, or that had planted faults' "$record" 's/"finished": true,/&"planted_faults": true,/'
refuses "$(basename "$record"): .*machines" "$record" 's/"machines"/"cars"/'
echo "wrong pages and records are refused"
