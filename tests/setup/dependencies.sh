#!/usr/bin/env bash
# dependencies.sh [--update]: third-party packages by module, as modules/*/CMakeLists.txt link them, are those of cmake/dependencies_by_module.txt. That list
# may only shrink: --update takes out what is gone, and refuses what is new.
set -euo pipefail
cd "$(dirname "$0")/../.."
list=cmake/dependencies_by_module.txt
now=$(for file in modules/*/CMakeLists.txt; do
  module=${file#modules/}
  sed -n '/^tw_module(/,/)/{s/#.*//;p}' "$file" | tr ' ()' '\n\n\n' |
    grep -E '^[A-Za-z0-9_]+::|^torch$' | grep -v '^tw::' | sed "s|^|${module%/*} |" || true
done | LC_ALL=C sort -u)
new=$(LC_ALL=C comm -13 "$list" - <<<"$now")
[ -z "$new" ] || { echo "a module needs a package that it did not need before: $new"; exit 1; }
if [ "${1:-}" = --update ]; then printf '%s\n' "$now" >"$list"; fi
gone=$(LC_ALL=C comm -23 "$list" - <<<"$now")
[ -z "$gone" ] || { echo "no longer needed; run tests/setup/dependencies.sh --update: $gone"; exit 1; }
echo "dependencies: as listed"
