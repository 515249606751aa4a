#!/usr/bin/env bash
# release_test.sh SCRIPT FOLDER: makes a release, by SCRIPT, of a small repository with two dependencies, which it fetches from files.
set -euo pipefail
script=$(realpath "$1")
for program in git curl; do
  command -v $program >/dev/null || { echo "SKIPPED: there is no $program"; exit 77; }
done
rm -rf "$2"
mkdir -p "$2/clone/scripts" "$2/clone/cmake" "$2/server/alpha-1.2" "$2/server/beta/include"
folder=$(realpath "$2")
cd "$folder/server"
echo alpha >alpha-1.2/alpha.hpp
touch -d 2020-01-01 alpha-1.2/alpha.hpp
tar -czf alpha-1.2.tar.gz alpha-1.2
echo beta >beta/include/beta.hpp
echo beta >beta/licence
(cd beta && cmake -E tar cf ../beta.zip --format=zip include licence)  # without a folder of its own

cd "$folder/clone"
cp "$script" scripts/release.sh
echo 'project(Torchweave VERSION 4.5.6 LANGUAGES CXX' >CMakeLists.txt
echo build >.gitignore
# list [ALPHA_SHA256]: writes the list of dependencies, of which alpha's first address does not answer, and commits it.
list() {
  cat >cmake/dependencies.txt <<END
# NAME VERSION SHA256 URL...
alpha 1.2 ${1:-$(sha256sum "$folder/server/alpha-1.2.tar.gz" | cut -d ' ' -f 1)} file://$folder/nowhere/alpha-1.2.tar.gz file://$folder/server/alpha-1.2.tar.gz

beta 3 $(sha256sum "$folder/server/beta.zip" | cut -d ' ' -f 1) file://$folder/server/beta.zip
END
  git add -A
  git -c user.name=test -c user.email=test@example.org commit --quiet --message=list
}
git init --quiet
list
echo "not committed" >new.txt
fail() { echo "release_test: $1"; exit 1; }

# release: runs it; its output is in $output, its exit code in $code.
release() {
  code=0
  output=$(scripts/release.sh 2>&1) || code=$?
  printf '== exit code %s\n%s\n' $code "$output"
}

release
[ $code -eq 0 ] || fail "it failed"
archive=build/torchweave-4.5.6.tar.gz
files=$(tar -tzf $archive | grep -v '/$')
expected='torchweave-4.5.6/.gitignore
torchweave-4.5.6/CMakeLists.txt
torchweave-4.5.6/cmake/dependencies.txt
torchweave-4.5.6/scripts/release.sh
torchweave-4.5.6/third_party/alpha/alpha.hpp
torchweave-4.5.6/third_party/beta/include/beta.hpp
torchweave-4.5.6/third_party/beta/licence'
diff <(echo "$expected") - <<<"$files" || fail "the archive has other files"
[ "$(tar -tvzf $archive --full-time --numeric-owner | awk '{ print $2, $4, $5 }' | sort -u | wc -l)" -eq 1 ] || fail "files differ in owner or time"
first=$(sha256sum $archive | cut -d ' ' -f 1)
grep -q "$archive $first" <<<"$output" || fail "it does not print the checksum"

# Downloads stay, except those that have changed.
mv "$folder/server" "$folder/gone"
release
[ $code -eq 0 ] || fail "it fetches what is there"
[ "$(sha256sum $archive | cut -d ' ' -f 1)" = "$first" ] || fail "two runs make different bytes"
echo damaged >"$(echo build/downloads/alpha-*)"
release
[ $code -eq 1 ] || fail "it took a damaged download"
grep -q "no URL answers" <<<"$output" || fail "it does not say that nothing answers"
mv "$folder/gone" "$folder/server"

rm -rf build
list "$(printf '%064d' 0)"
release
[ $code -eq 1 ] || fail "it took a file with another checksum"
grep -q "has SHA256 [0-9a-f]\{64\}, expected 0\{64\}" <<<"$output" || fail "it does not state both checksums"
[ ! -e $archive ] || fail "it made an archive"
echo "releases are made"
