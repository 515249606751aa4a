#!/bin/sh
# objective.sh KIND ARGUMENTS...: a program for `torchweave search --command`.
kind=$1
shift
case $kind in
  stops)  # half of all x are bad, say so, and would then sleep for longer than a test may take
    value=$(awk "BEGIN { print ($1 > 0 ? $1 : 0) }")
    for step in 1 2; do echo "{\"step\": $step, \"value\": $value}"; done
    [ "$value" = 0 ] || sleep 300
    echo "{\"loss\": $value}"
    ;;
  optional)  # better with an argument than without
    echo "{\"loss\": -${1:-0}}"
    ;;
  stubborn)
    trap '' TERM
    while :; do sleep 300; done
    ;;
  fails)
    echo '{"loss": 1}'
    echo 'out of luck' >&2
    exit 3
    ;;
  alone)  # fails where it sees MPI's variables
    if env | grep -E '^(OMPI|PMIX|PMI)_' >/dev/null; then exit 1; fi
    echo '{"loss": 1}'
    ;;
esac
