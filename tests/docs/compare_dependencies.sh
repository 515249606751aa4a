#!/usr/bin/env bash
# compare_dependencies.sh SOURCE: the table of dependencies in docs/install.md names the modules that link each of them, as cmake/dependencies_by_module.txt.
set -euo pipefail
cd "$1"
diff <(sed -E '/ Threads::/d; s/tw_headers:://; s/::.*//' cmake/dependencies_by_module.txt | tr '[:upper:]' '[:lower:]' | sort) \
  <(awk -F' *[|] *' '/^\| dependency / { on = 1 } !/^\|/ { on = 0 }
      on && $5 ~ /^[a-z0-9]+$/ && $5 != "name" { count = split($3, modules, ", "); for (i = 1; i <= count; ++i) if (modules[i] ~ /^`/) print modules[i], $5 }' docs/install.md |
    tr -d '`' | sort) && echo "the page has the dependencies of modules"
