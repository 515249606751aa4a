#!/usr/bin/env bash
# compare_code.sh PAGE SOURCE: the C++ of PAGE is what stands in SOURCE, which is compiled and run, between the lines "// PAGE begins" and "// PAGE ends".
set -euo pipefail
name=docs/$(basename "$1")
code=$(awk '/^```cpp$/ { on = 1; next } /^```/ { on = 0 } on' "$1")
[ -n "$code" ] || { echo "no C++ in $1"; exit 1; }
diff <(sed -n "\\|^// $name begins$|,\\|^// $name ends$|p" "$2" | sed '1d;$d') - <<<"$code" && echo "the page is as the program"
