#!/usr/bin/env bash
# lint.sh [COMMIT]: formatting of all sources; every unit, file by file, and every public header by itself, as clang sees it, warnings as errors; the
# units of libraries and tool as clang-tidy sees them. With COMMIT, of what has changed since, and of the units that include it by name. No objects are
# made. Succeeds when there is nothing to say.
set -euo pipefail
cd "$(dirname "$0")/.."
since=${1:-}
jobs=$(env -u OMP_NUM_THREADS nproc)  # which would otherwise hide cores

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

# compiles "FILE COMPILER OPTIONS". (Clang finds what is deprecated in the standard library's own sorting, too.)
compiles() { eval "${1#* } -Wno-deprecated-declarations -fsyntax-only ${1%% *}"; }

# gathered: the units on standard input, FILE COMPILER OPTIONS a line, by folder and options and two dozen at a time in one file each, whose first line is
# the options: most of clang-tidy's time goes into LibTorch's headers, once a file. Not by #include, or its analyzer would look away. Prints their names.
gathered() {
  local file compiler options last= count=0 into=
  rm -rf gathered && mkdir gathered
  while read -r file compiler options; do
    if [ "${file%/*} $options" != "$last" ] || [ $((count % 24)) -eq 0 ]; then
      last="${file%/*} $options"
      into=${file#"$root"/}
      into=gathered/${into//\//_}
      count=0
      echo "// $options" >"$into"
      echo "$into"
    fi
    count=$((count + 1))
    { echo "#line 1 \"$file\""; cat "$file"; } >>"$into"
  done
}

# tidy FILE: what clang-tidy says of a file of gathered(), with the places in the units. (What the compiler says, compiles() says.)
tidy() {
  local options said
  options=$(sed -n '1s|^// ||p' "$1")
  # shellcheck disable=SC2086
  said=$(eval clang-tidy-19 --quiet --checks=-clang-diagnostic-* "$1" -- $options -iquote "$(sed -nE '2s|#line 1 "(.*)/.*|\1|p' "$1")" 2>&1) && return
  awk -v of="$1" -v begin="$PWD/$1:" '
    BEGIN {
      for (n = 1; (getline line < of) > 0; ++n) {
        if (split(line, part, "\"") > 1 && line ~ /^#line 1 /) { unit = part[2]; first = n }
        at[n] = unit ":" n - first
      }
    }
    index($0, begin) == 1 { rest = substr($0, length(begin) + 1); line = rest + 0; $0 = at[line] substr(rest, length(line "") + 1) }
    !/warnings? generated/' <<<"$said"
  return 1
}
export -f compiles tidy
export root=$PWD

if [ -z "$since" ]; then
  git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 --dry-run --Werror
else
  mapfile -t changed < <(git diff --name-only --diff-filter=d "$since" -- '*.cpp' '*.hpp')
  [ ${#changed[@]} -eq 0 ] || clang-format-19 --dry-run --Werror "${changed[@]}"
fi
if git grep -nE 'std::[io]?stringstream' -- 'modules/*/src/*' 'modules/*/include/*' apps ':!*/text_stream.hpp'; then
  echo "lint: use TextWriter and TextReader of tw/base/text_stream.hpp, which no std::locale reaches"
  exit 1
fi
# A reader that ends at the first match kills the writer, and pipefail reports that as "no match".
if git grep -nE '[|] *(head\b|grep -[A-Za-z]*[qm])' -- '*.sh' .ci; then
  echo "lint: read a pipe to its end: \`grep PATTERN >/dev/null\`, \`sed -n 1p\`"
  exit 1
fi
scripts/words.sh
bash -n scripts/*.sh scripts/device/*.sh .ci/run tests/*.sh tests/*/*.sh
for header in cmake/precompiled/*.hpp; do scripts/build.sh tidy "tw_precompiled_$(basename "$header" .hpp)" >/dev/null; done
cd build/tidy
jq -r '.[] | select(.file | test("/(cmake_pch.hxx.cxx|precompiled/unit.cpp|/examples_[0-9]+.cpp)$|/compile_fail/") | not)
  | .file + " " + (.command | sub(" -o .*"; ""))' compile_commands.json | sort -k 2 >commands
if [ -n "$since" ]; then
  (cd "$root" && units "${changed[@]}") | sed 's/$/ /' >changed
  grep -F -f changed commands >commands_of_changed || true
  mv commands_of_changed commands
fi
echo "lint: $(wc -l <commands) units and headers"
said=0
xargs -d '\n' -r -n 1 -P "$jobs" bash -c 'compiles "$0"' <commands || said=1
(grep -E "^$root/(modules/[^/]+/src|apps)/" commands || true) | gathered >to_tidy
xargs -r -n 1 -P "$jobs" bash -c 'tidy "$0"' <to_tidy || said=1
[ $said = 0 ] && echo "lint: nothing to fix"
