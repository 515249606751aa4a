#!/bin/sh
# Rank 0 looks for a word in what standard input brings. Each rank ends in the middle of a line.
found=
if [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" -eq 0 ] && grep word >/dev/null; then found="got_it, "; fi
printf '%sunfinished' "$found"
