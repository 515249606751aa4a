#!/usr/bin/env bash
# Installs what a fresh Debian or Ubuntu machine lacks to build Torchweave: system packages, and LibTorch into build/deps.
#
#   scripts/setup.sh [GROUP...]      groups: build (the library and the tool; always), test, lint, fuzz, docs
#
# It does nothing, and needs no network, where everything is there. LibTorch is left alone where TW_TORCH_DIR names one.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.13.0

packages=(g++ cmake ninja-build ccache libopenmpi-dev openmpi-bin libspdlog-dev libfmt-dev libtomlplusplus-dev libcli11-dev
          nlohmann-json3-dev zlib1g-dev libzip-dev librandom123-dev libxxhash-dev libeigen3-dev libsqlite3-dev dataset-fashion-mnist)
for group in "$@"; do
  case "$group" in
    build) ;;
    test) packages+=(libgtest-dev iproute2) ;;
    lint) packages+=(clang-19 clang-tidy-19 clang-format-19) ;;
    fuzz) packages+=(clang-19 libclang-rt-19-dev) ;;
    docs) packages+=(doxygen graphviz) ;;
    *) echo "setup: unknown group '$group' (build, test, lint, fuzz, docs)" >&2; exit 2 ;;
  esac
done

# The folder with LibTorch's include/, lib/ and share/cmake/Torch.
torch_dir=${TW_TORCH_DIR:-build/deps/torch}
if [ -n "${TW_TORCH_DIR:-}" ] && [ ! -e "$torch_dir/share/cmake/Torch/TorchConfig.cmake" ]; then
  echo "setup: TW_TORCH_DIR is $TW_TORCH_DIR, but there is no share/cmake/Torch/TorchConfig.cmake in it" >&2
  exit 1
fi
need_torch=false
[ -e "$torch_dir/share/cmake/Torch/TorchConfig.cmake" ] || need_torch=true
$need_torch && packages+=(python3-pip)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f '${db:Status-Status}\n' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "setup: installing with apt-get: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: run it as root, or install sudo" >&2; exit 1; }
    as_root=(sudo)
  fi
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "setup: apt-get failed, see above" >&2
    exit 1
  fi
  rm -f "$log"
fi

if $need_torch; then
  echo "setup: installing LibTorch $torch_version (CPU) into build/deps/torch"
  rm -rf build/deps/wheel
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target build/deps/wheel "torch==$torch_version"
  if [ -e build/deps/wheel/torch/lib/libtorch_cuda.so ]; then
    echo "setup: pip chose the CUDA build of torch $torch_version. Make pip prefer the CPU wheel (PIP_EXTRA_INDEX_URL set to PyTorch's index of CPU wheels)," >&2
    echo "setup: or set TW_TORCH_DIR to a LibTorch $torch_version of your own." >&2
    exit 1
  fi
  rm -rf build/deps/torch
  mv build/deps/wheel/torch build/deps/torch
  rm -rf build/deps/wheel
fi
