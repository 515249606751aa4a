#!/usr/bin/env bash
# compare_keys.sh TOOL PAGE: succeeds when the table of PAGE is what `TOOL keys` prints. To mend PAGE, replace its table by that.
set -euo pipefail
table=$("$1" keys)
diff <(grep '^|' "$2") - <<<"$table" && echo "the page is as the tool"
