#!/usr/bin/env bash
# compare_packages.sh SOURCE: the table of dependencies in docs/install.md names the packages that scripts/setup.sh installs to build, no more and no less.
set -euo pipefail
cd "$1"
packages=$(sed -nE 's/^(known=.)?(build|openmpi|mpich|libtorch) +([^ ]+) .*/\3/p' scripts/setup.sh)
[ -n "$packages" ] || { echo "no table of packages in scripts/setup.sh"; exit 1; }
diff <(sort <<<"$packages") \
  <(awk -F'|' '/^\| dependency / { on = 1 } !/^\|/ { on = 0 } on { print $4 }' docs/install.md | grep -oE '`[^`]+`' | tr -d '`' | sort) && echo "the page has the packages"
