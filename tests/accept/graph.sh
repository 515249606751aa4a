#!/usr/bin/env bash
# graph.sh BUILD: two thousand modules at random on one, two and three ranks: cut at random, they equal one process (1e-10, float64), or are refused where
# they have to be; where rows do not see each other, so do their replicas, whole and sharded. Models of torchvision and transformers, scripted and traced,
# and a Transformer and an LSTM of torch::nn with dropout equal one process on two ranks, or are refused, as docs/zoo.md says; for those, pip installs
# torch, torchvision and transformers below build/.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$1
failed=0
for ranks in 1 2 3; do
  "$build/mpirun" -n "$ranks" "$build/bin/accept_random_modules" 2000 || failed=1
done
python=build/accept/python
install() { python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$python" "$@"; }
if [ ! -d "$python/transformers" ]; then
  rm -rf "$python"
  mkdir -p "$python"
  install --no-deps "torch==2.13.0" "torchvision==0.28.*"
  install numpy pillow typing_extensions sympy networkx jinja2 fsspec filelock "transformers==4.57.*"
fi
rm -rf build/accept/zoo
mkdir -p build/accept/zoo
PYTHONPATH=$python python3 tests/accept/export_zoo.py build/accept/zoo
[ ! -s build/accept/zoo/unwritten.txt ] || { cat build/accept/zoo/unwritten.txt; failed=1; }
"$build/mpirun" -n 2 "$build/bin/accept_zoo" build/accept/zoo build/accept/zoo.md || failed=1
rm -rf build/accept/zoo  # gigabytes
grep '^| ' docs/zoo.md | tail -n +2 | diff - build/accept/zoo.md || { echo "build/accept/zoo.md says otherwise than docs/zoo.md"; failed=1; }
exit $failed
