#!/usr/bin/env bash
# tool.sh BUILD VERSION: the tool that is installed finds its libraries by itself.
set -euo pipefail
prefix=$1/tests/consumer/tool
rm -rf "$prefix"
cmake --install "$1" --component tool --prefix "$prefix" >/dev/null
said=$(LD_LIBRARY_PATH= "$prefix/bin/torchweave" --version)
[ "$said" = "$2" ] || { echo "version '$said' instead of $2"; exit 1; }
