#!/usr/bin/env bash
# compare_memory.sh COMMAND...: succeeds when COMMAND, a training, holds as much memory at its peak as it says with --dry-run: together and of each kind
# within 10 % of the whole.
set -u
peak_of() {
  output=$("$@" 2>&1) || { printf '%s\n' "$output"; exit 1; }
  line=$(grep -E '^  memory +at most ' <<<"$output")
  printf '%s\n' "$line" >&2
  sed -E 's/.*at most ([0-9.]+) MiB.*: parameters ([0-9.]+), gradients ([0-9.]+), optimizer ([0-9.]+), buffers ([0-9.]+), activations ([0-9.]+).*/\1 \2 \3 \4 \5 \6/' <<<"$line"
}
predicted=$(peak_of "$@" --dry-run) || { echo "$predicted"; exit 1; }
measured=$(peak_of "$@" --fresh) || { echo "$measured"; exit 1; }
awk -v predicted="$predicted" -v measured="$measured" 'BEGIN {
  if (split(predicted, p, " ") != 6 || split(measured, m, " ") != 6 || m[1] <= 0) { print "compare_memory: no six numbers: " predicted "; " measured; exit 1 }
  split("together parameters gradients optimizer buffers activations", of, " ")
  for (i = 1; i <= 6; ++i) {
    off = (p[i] - m[i]) / m[1]
    printf "%-12s %8.1f predicted %8.1f measured %+7.1f %% of the whole\n", of[i], p[i], m[i], 100 * off
    if (off > 0.1 || off < -0.1) bad = 1
  }
  exit bad
}'
