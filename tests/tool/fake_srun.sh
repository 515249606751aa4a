#!/bin/sh
# Stands in for srun: runs a program once for each of -n ranks, with lines labelled, and says who died as srun does.
[ "$1" = -n ] || { echo "no -n"; exit 9; }
ranks=$2
shift 2
while [ $# -gt 0 ]; do
  case $1 in
    --nodelist=*) echo "srun: on ${1#--nodelist=}"; node=${1##*[=,]} ;;
    --mpi=pmix | --cpu-bind=cores | --cpu-bind=none | --kill-on-bad-exit=1) ;;
    --label) label=yes ;;
    *) break ;;
  esac
  shift
done
[ "$label" = yes ] || { echo "lines are not labelled"; exit 9; }
rank=0
while [ $rank -lt "$ranks" ]; do
  SLURM_PROCID=$rank "$@" >/tmp/fake_srun.$$ 2>&1
  code=$?
  sed "s/^/$rank: /" /tmp/fake_srun.$$
  rm -f /tmp/fake_srun.$$
  [ $code -eq 0 ] || { echo "srun: error: ${node:-here}: task $rank: Killed" >&2; exit $code; }
  rank=$((rank + 1))
done
