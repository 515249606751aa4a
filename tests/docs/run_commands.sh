#!/usr/bin/env bash
# run_commands.sh PAGE FOLDER [PREPARE]: runs every command in the ```sh blocks of PAGE, in order, in a copy of the clone's root (links) at FOLDER, which is
# the user's HOME, too, so that runs/ is written there. `make` commands are only asked whether make knows them: this test is one of theirs. PREPARE is sourced
# before.
# Commands run as users type them: without variables that allow what MPI's launcher refuses, and if this script runs as root, as user nobody.
set -euo pipefail
cd "$(dirname "$0")/../.."
page=$PWD/$1 folder=$2 root=$PWD prepare=${3:-/dev/null}
rm -rf "$folder"
mkdir -p "$folder"
for entry in "$root"/*; do
  [ "$(basename "$entry")" = runs ] || ln -s "$entry" "$folder/"
done
commands=$(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on && NF' "$page")
[ -n "$commands" ] || { echo "no command in $page"; exit 1; }

as_user=(env)
[ "$(id -u)" -ne 0 ] || as_user=(runuser -u nobody -- env)
for variable in "${!OMPI_@}" "${!MPIR_@}" OMP_NUM_THREADS TMPDIR; do as_user+=(-u "$variable"); done
as_user+=(HOME="$folder")
cd "$folder"
. "$prepare"
[ "$(id -u)" -ne 0 ] || chown -Rh nobody "$folder"
if refusal=$("${as_user[@]}" mpirun -n 2 test -x "$root/build/release/bin/torchweave" 2>&1); then
  echo "as a user: $("${as_user[@]}" id -un)"
else
  echo "not as a user, because this machine has one core, or users cannot read $root: ${refusal:0:200}"
  as_user=(env HOME="$folder")
fi
while IFS= read -r command; do
  command=${command%%  #*}
  echo "+ $command"
  case $command in
    make*) make -n ${command#make} >/dev/null </dev/null ;;
    *) "${as_user[@]}" bash -c "$command" </dev/null ;;
  esac
done <<<"$commands"
echo "all commands of $(basename "$page") ran"
