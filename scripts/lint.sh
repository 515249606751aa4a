#!/usr/bin/env bash
# lint.sh [COMMIT]: formatting of all sources; every unit, file by file, and every public header by itself, as clang sees it, warnings as errors; the
# units of libraries and tool as clang-tidy sees them. With COMMIT, of what has changed since, and of the units that include it by name. Nothing is
# made. Succeeds when there is nothing to say.
set -euo pipefail
cd "$(dirname "$0")/.."
since=${1:-}

# units FILE...: those of the files that are compiled, the headers by themselves, and the units that include them.
units() {
  for file in "$@"; do
    case $file in
      *.cpp) echo "$PWD/$file" ;;
      *)
        echo "/${file#*/include/}.cxx"
        git grep -lE "^#include [<\"](.*/)?$(basename "$file")[>\"]" -- '*.cpp' | sed "s|^|$PWD/|" || true ;;
    esac
  done | sort -u
}

# check "FILE COMMAND", of build/tidy/compile_commands.json
check() {
  local file=${1%% *} command=${1#* } said
  command=$(sed -E 's/ -o [^ ]+//' <<<"$command")
  case $file in
    "$root"/modules/*/src/* | "$root"/apps/*) said=$(clang-tidy-19 --quiet -p . "$file" 2>&1) || { echo "$said"; return 1; } ;;
    *) eval "$command -fsyntax-only" ;;
  esac
}
export -f check
export root=$PWD

if [ -z "$since" ]; then
  git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 --dry-run --Werror
else
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp' '*.hpp')
  [ ${#changed[@]} -eq 0 ] || clang-format-19 --dry-run --Werror "${changed[@]}"
fi
bash -n scripts/*.sh .ci/run tests/*.sh tests/*/*.sh
scripts/build.sh tidy help >/dev/null  # configures
cd build/tidy
jq -r '.[] | .file + " " + .command' compile_commands.json >commands
if [ -n "$since" ]; then
  (cd "$root" && units "${changed[@]}") | sed 's/$/ /' >changed
  grep -F -f changed commands >commands_of_changed || true
  mv commands_of_changed commands
fi
echo "lint: $(wc -l <commands) units and headers"
xargs -d '\n' -r -n 1 -P "$(nproc)" bash -c 'check "$0"' <commands
echo "lint: nothing to mend"
