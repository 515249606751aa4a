#!/usr/bin/env bash
# compare_options.sh SOURCE: the table of options in docs/install.md has what SOURCE's CMake files declare, no more and no less.
set -euo pipefail
cd "$1"
diff <(grep -hoE '^ *(option\(TW_[A-Z_]+|set\(TW_[A-Z_]+ .*CACHE (STRING|PATH|BOOL))' CMakeLists.txt cmake/*.cmake | grep -oE 'TW_[A-Z_]+' | sort -u) \
  <(sed -nE 's/^\| `(TW_[A-Z_]+)` \|.*/\1/p' docs/install.md | sort) && echo "the page has the options of the build"
