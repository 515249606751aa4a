#!/usr/bin/env bash
# syntax.sh [TORCH] [COMPILER]: whether every unit of build/release compiles with the headers below TORCH/include, of another LibTorch, and by COMPILER.
# Nothing is made. Succeeds when all do; otherwise says what the compiler said.
set -euo pipefail
cd "$(dirname "$0")/.."
torch=${1:-} compiler=${2:-g++}
torch_now=$(sed -nE 's/^TW_TORCH_DIR:[A-Z]+=(.+)/\1/p' build/release/CMakeCache.txt)
torch_now=$(realpath "${torch_now:-${TW_TORCH_DIR:-build/deps/torch}}")
work=$(mktemp -d)
export torch_now torch=${torch:-$torch_now} compiler work
trap 'rm -rf "$work"' EXIT

check() {
  local command=$1
  command=${command#*"/c++ "}  # after the launcher and the compiler
  command=${command//"$torch_now/include"/"$torch/include"}
  # Without what was compiled of the precompiled header, which knows the headers of now.
  if [[ $command =~ -include\ ([^ ]+/([^/ ]+)\.dir/cmake_pch\.hxx) ]]; then
    cp "${BASH_REMATCH[1]}" "$work/${BASH_REMATCH[2]}.hxx"
    command=${command/"${BASH_REMATCH[1]}"/"$work/${BASH_REMATCH[2]}.hxx"}
  fi
  command=$(sed -E 's/ -o [^ ]+//; s/ -MF [^ ]+//; s/ -MT [^ ]+//; s/ -MD//; s/ -Winvalid-pch//; s/ -Xclang//g' <<<"$command")
  # shellcheck disable=SC2086
  eval $compiler -fsyntax-only -w $command
}
export -f check
jq -r '.[] | select(.file | endswith(".gch") or endswith(".hxx.cxx") | not) | .command' build/release/compile_commands.json >"$work/commands"
echo "syntax: $(wc -l <"$work/commands") units, $compiler, $torch"
(cd build/release && xargs -d '\n' -n 1 -P "$(nproc)" bash -c 'check "$0"' <"$work/commands")
echo "syntax: all compile"
