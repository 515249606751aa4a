#!/usr/bin/env bash
# compare_keys.sh TOOL PAGE: succeeds when the tables of PAGE are what `TOOL keys train` and `TOOL keys search` print. To fix PAGE, replace its tables by
# those.
set -euo pipefail
tables=$("$1" keys train && "$1" keys search)
diff <(grep '^|' "$2") - <<<"$tables" && echo "the page is as the tool"
