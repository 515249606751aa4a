#!/usr/bin/env bash
# search.sh BUILD: medians over seeds, against published ones.
set -euo pipefail
"$1/bin/accept_functions" 10
