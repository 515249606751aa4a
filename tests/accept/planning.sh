#!/usr/bin/env bash
# planning.sh BUILD: plans of levels and sweeps against a naive simulation, for every number of steps up to 300, every coarsening up to 16 and every
# number of ranks up to 64.
set -euo pipefail
TW_TEST_EVERY_PLAN=1 "$1/bin/planning_pure_tests" --gtest_brief=1 --gtest_filter="Sweep.*"
echo "every plan of up to 300 steps and 64 ranks: all right"
