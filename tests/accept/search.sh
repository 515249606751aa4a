#!/usr/bin/env bash
# search.sh BUILD: medians over seeds, against published ones, on BBOB, against random search's under noise, on fronts of two objectives, on tables of
# trainings beside Optuna's, and against what constant learning rates come to; searches that are killed 30 times; journals of every propagator cut at
# 200 places; 2,000 trials that fail, after which a rank holds no more than before; steps to as good a LeNet as random search finds; the search of LeNets
# on 4 ranks, which must improve on the default.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/accept/expect.bash
build=$1
"$build/bin/accept_functions" 10 || failed=1
while read -r by_dimension dimensions wanted_alone wanted_of_16; do  # a guard: three quarters of the shares before the last propagators were removed
  for in_flight in 1 16; do
    line=$("$build/bin/accept_bbob" automatic $by_dimension 3 $in_flight $dimensions)
    echo "$line"
    share=$(sed -E 's/.*in flight: ([0-9.]+).*/\1/' <<<"$line")
    least=$([ $in_flight -eq 1 ] && echo $wanted_alone || echo $wanted_of_16)
    expect "at least $least" "$share >= $least"
  done
done <<'WANTED'
50 2 0.465 0.369
50 5 0.315 0.282
50 10 0.180 0.224
200 2 0.557 0.567
200 5 0.425 0.425
200 10 0.332 0.354
1000 2 0.670 0.654
1000 5 0.567 0.555
1000 10 0.528 0.487
WANTED
for propagator in automatic quadratic_trust_region cma_es nelder_mead tpe gaussian_process genetic; do
  for by_dimension in 20 50 200; do
    "$build/bin/accept_noise" 41 $propagator $by_dimension 2 5 || failed=1
  done
  "$build/bin/accept_noise" 41 $propagator 20 10 || failed=1
done
"$build/bin/accept_fronts" 11 || failed=1
"$build/bin/accept_tables" tests/accept/tables || failed=1
"$build/bin/accept_curves" 9 || failed=1
"$build/mpirun" -n 2 "$build/bin/accept_population" 9 200 || failed=1
"$build/mpirun" -n 4 "$build/bin/accept_failing_trials" 2000 || failed=1
tests/faults/kill_search.sh "$build" "$build/tmp/accept_kill_search" 30 || failed=1
for workers in 2 4; do
  "$build/mpirun" -n $workers "$build/bin/accept_search_cuts" "$build/tmp/accept_search_cuts" 200 || failed=1
done
"$build/mpirun" -n 2 "$build/bin/accept_halving" /usr/share/datasets/fashion-mnist 9 || failed=1

"$build/mpirun" -n 4 "$build/bin/torchweave" search configs/search_lenet.toml --fresh >/dev/null
losses=$(awk -F, 'NR > 1 && $2 == "complete" { print $1, $3 }' runs/search_lenet/trials.csv)
default=$(awk '$1 == 0 { print $2 }' <<<"$losses")
best=$(awk '{ print $2 }' <<<"$losses" | sort -g | sed -n 1p)
echo "LeNet: error of the default $default, of the best $best"
expect "better than the default" "$best < $default"
exit $failed
