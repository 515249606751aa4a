#!/usr/bin/env bash
# Formatting of all sources; everything compiled by clang, warnings as errors; clang-tidy on libraries and tool; every public header compiled alone.
# Succeeds when there is nothing to say.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files '*.cpp' '*.hpp' | xargs clang-format-19 --dry-run --Werror
bash -n scripts/*.sh .ci/run tests/*.sh tests/*/*.sh
scripts/build.sh tidy all
scripts/build.sh tidy all_verify_interface_header_sets
echo "lint: nothing to mend"
