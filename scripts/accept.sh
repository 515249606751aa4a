#!/usr/bin/env bash
# accept.sh BUILD [MODULE]: the long acceptance runs, one script a module below tests/accept; prints what each showed.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=()
for script in tests/accept/${2:-*}.sh; do
  module=$(basename "$script" .sh)
  echo "accept: $module"
  "$script" "$1" || failed+=("$module")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "accept: FAILED: ${failed[*]}"
  exit 1
fi
echo "accept: all shown"
