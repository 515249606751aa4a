#!/usr/bin/env bash
# check_graph_svg.sh FILE STAGES: a picture of `torchweave plan pipeline --svg-graph` has that many colours of stages and operators in each.
set -euo pipefail
[ "$(tail -n 1 "$1")" = "</svg>" ] || { echo "$1 does not end"; exit 1; }
for ((stage = 0; stage < $2; ++stage)); do
  grep -q "data-stage=\"$stage\"" "$1" || { echo "no operator in stage $stage"; exit 1; }
done
! grep -q "data-stage=\"$2\"" "$1" || { echo "more than $2 stages"; exit 1; }
[ "$(grep -c 'class="cut"' "$1")" -ge $(($2 - 1)) ] || { echo "fewer cuts than borders"; exit 1; }
echo "$1 has $2 stages"
