#!/usr/bin/env bash
# run_commands.sh PAGE FOLDER: runs every command in the ```sh blocks of PAGE, in order, in a copy of the clone's root (links) at FOLDER, so that runs/ is
# written there. `make` commands are only asked whether make knows them: this test is one of theirs.
set -euo pipefail
cd "$(dirname "$0")/../.."
page=$PWD/$1 folder=$2 root=$PWD
rm -rf "$folder"
mkdir -p "$folder"
for entry in "$root"/*; do
  [ "$(basename "$entry")" = runs ] || ln -s "$entry" "$folder/"
done
cd "$folder"
commands=$(awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on && NF' "$page")
[ -n "$commands" ] || { echo "no command in $page"; exit 1; }
while IFS= read -r command; do
  command=${command%%  #*}
  echo "+ $command"
  case $command in
    make*) make -n ${command#make} >/dev/null </dev/null ;;
    *) bash -c "$command" </dev/null ;;
  esac
done <<<"$commands"
echo "all commands of $(basename "$page") ran"
