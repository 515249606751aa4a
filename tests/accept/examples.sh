#!/usr/bin/env bash
# examples.sh BUILD: what takes longer than make test has time for: the GPT of stages learns to spell, by 1000 steps on two ranks.
set -euo pipefail
cd "$(dirname "$0")/../.."
tests/expect_output.sh "bits per character: 7[.0-9]* before, (1[.]|2[.][0-7])[0-9]* after 1000 steps" "$1/mpirun" -n 2 "$1/bin/32_gpt_pipeline"
