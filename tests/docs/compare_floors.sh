#!/usr/bin/env bash
# compare_floors.sh FLOORS PAGE: the table of floors in PAGE says what the build says in FLOORS.
set -euo pipefail
diff <(sort "$1") <(sed -nE 's/^\| ([0-9]) \| `([a-z_]+)` \| ?([^|]*) ?\|.*/\1 \2: \3/p' "$2" | sed 's/ *$//' | sort) && echo "the page is as the build"
