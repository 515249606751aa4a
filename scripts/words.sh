#!/usr/bin/env bash
# words.sh [--update]: counts words of a private language in public headers, and in the texts between quotes of sources and of the tool. scripts/words.txt
# has the counts that there may be, a line a word: headers, texts, word. Fails where there are more, or fewer: those are entered by --update.
set -euo pipefail
cd "$(dirname "$0")/.."
list=scripts/words.txt

texts() { git ls-files ':(glob)modules/*/src/**' 'apps/*.cpp' 'apps/*.hpp' | xargs grep -hoE '"([^"\\]|\\.)*"'; }
headers() { git ls-files ':(glob)modules/*/include/**' | xargs cat; }
count() { grep -owiE "$1" | wc -l || true; }  # on standard input

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
headers >"$work/headers"
texts >"$work/texts"
while read -r _ _ word; do
  echo "$(count "$word" <"$work/headers") $(count "$word" <"$work/texts") $word"
done <"$list" >"$work/now"

if [ "${1:-}" = --update ]; then
  cp "$work/now" "$list"
elif ! diff "$list" "$work/now" >"$work/difference"; then
  echo "words: more or fewer than scripts/words.txt has (<; headers, texts, word). Write plain English, or enter what has gone by scripts/words.sh --update"
  cat "$work/difference"
  exit 1
fi
