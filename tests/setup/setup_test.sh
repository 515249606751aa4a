#!/usr/bin/env bash
# setup_test.sh SETUP FOLDER: runs the script SETUP in a copy of its own on machines that differ in the packages that pip finds, with wheels of a few
# bytes. Nothing is asked of a network.
set -euo pipefail
setup=$(realpath "$1") here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$2"
mkdir -p "$2"
folder=$(realpath "$2")
python3 -m pip --version >/dev/null 2>&1 || { echo "SKIPPED: there is no pip"; exit 77; }
python3 "$here/fake_index.py" "$folder/index"
mkdir "$folder/bin"
printf '#!/bin/sh\necho installed\n' >"$folder/bin/dpkg-query"  # what apt-get brings is no matter here
chmod +x "$folder/bin/dpkg-query"

nobody=http://127.0.0.1:9  # where no server is

# machine NAME CPU_INDEX INDEX [GROUP]: sets up a copy called NAME; its output is in $output, its exit code in $code.
machine() {
  copy=$folder/$1 code=0
  mkdir -p "$copy/scripts"
  cp "$setup" "$copy/scripts/setup.sh"
  began=$SECONDS
  output=$(env -u PIP_EXTRA_INDEX_URL -u PIP_FIND_LINKS -u PIP_NO_INDEX -u TW_TORCH_DIR PIP_CONFIG_FILE=/dev/null PIP_DEFAULT_TIMEOUT=15 PATH="$folder/bin:$PATH" \
    TW_TORCH_CPU_INDEX="$2" PIP_INDEX_URL="$3" "$copy/scripts/setup.sh" build ${4:-} 2>&1) || code=$?
  printf '== %s: exit code %s after %s s\n%s\n' "$1" $code $((SECONDS - began)) "$output"
  deps=$copy/build/deps
  [ ! -e "$deps/wheel" ] || fail "build/deps/wheel is left behind"
}
fail() { echo "setup_test: $1"; exit 1; }
has() { [ -e "$deps/$1" ] || fail "there is no build/deps/$1"; }
lacks() { [ ! -e "$deps/$1" ] || fail "there is build/deps/$1"; }
says() { grep -qE "$1" <<<"$output" || fail "it does not say: $1"; }

machine cpu_index "file://$folder/index/cpu" "file://$folder/index/cuda"
[ $code -eq 0 ] || fail "it failed"
has torch/cpu_build
lacks nvidia

machine cuda_alone $nobody "file://$folder/index/cuda"
[ $code -eq 0 ] || fail "it failed"
says "this is the CUDA build \([0-9.]+[KMG]\)"
says "NVIDIA's libraries take [0-9.]+[KMG]"
has torch/lib/libtorch_cuda.so
has nvidia/cu13/lib/libcudart.so.13
has nvidia/cu13/lib/libcupti.so.13
lacks nvidia/cu13/lib/libcublas.so.13
# A second run finds all there, whatever pip finds.
machine cuda_alone $nobody $nobody
[ $code -eq 0 ] && [ -z "$output" ] || fail "it should have had nothing to do"

# For GPUs, beside what is there for the CPU: the CUDA build, also where pip would rather take another, and all that it requires of NVIDIA.
machine cpu_index $nobody "file://$folder/index/both" cuda
[ $code -eq 0 ] || fail "it failed"
says "LibTorch 2\.[0-9.]+ for CUDA into build/deps/cuda: [0-9.]+ GB to fetch, [0-9.]+ GB on disk"
has torch/cpu_build
has cuda/torch/lib/libtorch_cuda.so
has cuda/nvidia/cu13/lib/libcublas.so.13
has cuda/nvidia/cudnn/lib/libcudnn.so.9
lacks cuda/torch/only_the_cpu_half
lacks nvidia
machine cpu_index $nobody $nobody cuda
[ $code -eq 0 ] && [ -z "$output" ] || fail "it should have had nothing to do"

machine no_cuda_build $nobody "file://$folder/index/plain" cuda
[ $code -eq 1 ] || fail "it should have failed"
says "there is no CUDA build of torch 2\.[0-9.]+ for Python 3"
lacks cuda

machine neither $nobody "file://$folder/index/neither"
[ $code -eq 1 ] || fail "it should have failed"
says "there is no torch 2\.[0-9.]+ for Python 3"
says "TW_TORCH_DIR"
lacks torch

# A server that takes connections and never answers.
python3 -c 'import socket, time
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen(16)
print(server.getsockname()[1], flush=True); time.sleep(120)' >"$folder/port" &
silent=$!
trap 'kill $silent 2>/dev/null || true' EXIT
until [ -s "$folder/port" ]; do kill -0 $silent; sleep 0.1; done
machine silent_index "http://127.0.0.1:$(cat "$folder/port")" "file://$folder/index/plain"
[ $code -eq 0 ] || fail "it failed"
has torch/plain_build
lacks nvidia
[ $((SECONDS - began)) -le 40 ] || fail "a silent index holds it up"
echo "all machines are set up"
