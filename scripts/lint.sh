#!/usr/bin/env bash
# lint.sh [COMMIT]: formatting of all sources; everything compiled by clang, file by file, warnings as errors; clang-tidy on libraries and tool; every
# public header compiled alone. With COMMIT, of what has changed since, and of the units that include it by name. Succeeds when there is nothing to say.
set -euo pipefail
cd "$(dirname "$0")/.."
since=${1:-}

# units FILE...: those of the files that are compiled, and those that include them.
units() {
  for file in "$@"; do
    case $file in
      *.cpp) echo "$file" ;;
      *) git grep -lE "^#include [<\"](.*/)?$(basename "$file")[>\"]" -- '*.cpp' || true ;;
    esac
  done | sort -u
}

if [ -z "$since" ]; then
  git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 --dry-run --Werror
else
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp' '*.hpp')
  [ ${#changed[@]} -eq 0 ] || clang-format-19 --dry-run --Werror "${changed[@]}"
fi
bash -n scripts/*.sh .ci/run tests/*.sh tests/*/*.sh
if [ -z "$since" ]; then
  scripts/build.sh tidy all
  scripts/build.sh tidy all_verify_interface_header_sets
else
  scripts/build.sh tidy help >/dev/null  # configures
  mapfile -t objects < <(units "${changed[@]}" | while read -r unit; do
    if grep -qF "\"$PWD/$unit\"" build/tidy/compile_commands.json; then echo "../../$unit^"; fi
  done)
  echo "lint: ${#objects[@]} units for ${#changed[@]} changed files"
  [ ${#objects[@]} -eq 0 ] || ninja -C build/tidy -k 0 "${objects[@]}"
fi
echo "lint: nothing to mend"
