#!/usr/bin/env bash
# Makes build/torchweave-VERSION.tar.gz from a commit and the sources of the dependencies, so that it can be built without a network.
#
#   scripts/release.sh [COMMIT]      COMMIT: HEAD by default
#
# cmake/dependencies.txt of the commit has a dependency a line: NAME VERSION SHA256 URL [URL...]; # begins a comment. The first URL that answers counts.
# Downloads stay in build/downloads; what is there with the right checksum is not fetched again. The archive has each in third_party/NAME. Two runs make
# the same bytes. Prints the path and the SHA256 of the archive.
set -euo pipefail
cd "$(dirname "$0")/.."
commit=$(git rev-parse --verify "${1:-HEAD}^{commit}")
fail() { echo "release: $1" >&2; exit 1; }

version=$(git show "$commit:CMakeLists.txt" | sed -nE 's/^project\(Torchweave VERSION ([0-9.]+).*/\1/p')
[ -n "$version" ] || fail "CMakeLists.txt has no line 'project(Torchweave VERSION ...'"
list=$(git show "$commit:cmake/dependencies.txt") || fail "there is no cmake/dependencies.txt in $commit"
[ -z "$(git status --porcelain --untracked-files=no)" ] || echo "release: changes that are not committed are left out" >&2

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
name=torchweave-$version
git archive --prefix="$name/" "$commit" | tar -x -C "$work"
mkdir -p build/downloads

checksum() { sha256sum "$1" | cut -d ' ' -f 1; }

# get FILE SHA256 URL...: has FILE in build/downloads, or fails.
get() {
  local file=build/downloads/$1 expected=$2 url found
  shift 2
  [ ! -e "$file" ] || [ "$(checksum "$file")" != "$expected" ] || return 0
  for url in "$@"; do
    echo "release: fetching $url"
    rm -f "$file"
    curl --fail --silent --show-error --location --retry 2 --connect-timeout 20 --max-time 600 --output "$file" "$url" || continue
    found=$(checksum "$file")
    [ "$found" != "$expected" ] || return 0
    rm -f "$file"
    fail "$url has SHA256 $found, expected $expected"
  done
  fail "$file cannot be fetched: no URL answers"
}

while read -r dependency of sha256 urls; do
  [[ -n $dependency && $dependency != \#* ]] || continue
  [[ $dependency =~ ^[a-zA-Z0-9_.+-]+$ && $sha256 =~ ^[0-9a-f]{64}$ && -n $urls ]] ||
    fail "cmake/dependencies.txt: not 'NAME VERSION SHA256 URL...': $dependency $of $sha256 $urls"
  read -ra urls <<<"$urls"
  for i in "${!urls[@]}"; do
    case ${urls[i]} in
      debian:*) urls[i]=${TW_DEBIAN_MIRROR:?names a mirror of Debian, the folder that holds pool/}/${urls[i]#debian:} ;;
      pypi:*) urls[i]=${TW_PYPI_FILES:?names the host of the files of PyPI, the folder that holds packages/}/${urls[i]#pypi:} ;;
    esac
  done
  file=$dependency-$of-${urls[0]##*/}
  get "$file" "$sha256" "${urls[@]}"
  mkdir "$work/unpacked"
  (cd "$work/unpacked" && cmake -E tar xf "$OLDPWD/build/downloads/$file")
  inside=("$work"/unpacked/*)
  mkdir -p "$work/$name/third_party"
  if [ ${#inside[@]} -eq 1 ] && [ -d "${inside[0]}" ]; then mv "${inside[0]}" "$work/$name/third_party/$dependency"; else mv "$work/unpacked" "$work/$name/third_party/$dependency"; fi
  rm -rf "$work/unpacked"
done <<<"$list"

archive=build/$name.tar.gz
tar -c -C "$work" --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw --mtime="@$(git show -s --format=%ct "$commit")" "$name" | gzip -n9 >"$work/archive"
mv "$work/archive" "$archive"
echo "$archive $(checksum "$archive")"
