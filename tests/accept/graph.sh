#!/usr/bin/env bash
# graph.sh BUILD: two thousand modules at random on one, two and three ranks: cut at random, they equal one process (1e-10, float64), or are refused where
# they have to be; where rows do not see each other, so do their replicas, whole and sharded. Vision models from Python, scripted and traced, and a
# Transformer and an LSTM of torch::nn with dropout equal it on two ranks; for those, pip installs torch and torchvision below build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
failed=0
for ranks in 1 2 3; do
  "$build/mpirun" -n "$ranks" "$build/bin/accept_random_modules" 2000 || failed=1
done
python=build/accept/python
if [ ! -d "$python/torchvision" ]; then
  mkdir -p "$python"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$python" --no-deps "torch==2.13.0" "torchvision==0.28.*"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$python" numpy pillow typing_extensions sympy networkx jinja2 fsspec filelock
fi
rm -rf build/accept/models
mkdir -p build/accept/models
PYTHONPATH=$python python3 tests/accept/export_models.py build/accept/models
"$build/mpirun" -n 2 "$build/bin/accept_vision_models" build/accept/models || failed=1
exit $failed
