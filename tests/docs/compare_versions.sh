#!/usr/bin/env bash
# compare_versions.sh SOURCE: docs/versions.md has the numbers of formats and the exit codes that stand in the sources, and headers that there are. What is
# released names the version that CMakeLists.txt has.
set -euo pipefail
cd "$1"
page=docs/versions.md
number() { sed -nE "s/^(inline )?constexpr int(64_t)? $2 = ([0-9]+);.*/\3/p" "$1"; }
formats() {
  echo "checkpoint: $(number modules/state/src/index.cpp version)"
  echo "state of the trainer: $(number modules/train/src/progress.cpp progress_version)"
  echo "journal of a search: $(sed -nE 's/^constexpr uint64_t magic = .*"TWJRNL0?([0-9]+)".*/\1/p' modules/search/src/journal.cpp)"
  echo "description of a search: $(number modules/search/src/description.cpp description_version)"
  echo "configuration: $(number modules/base/src/config.cpp config_version)"
  echo "plan of a pipeline: $(number modules/planning/src/plan_json.cpp plan_version)"
  echo "record of the self-test: $(number apps/torchweave/selftest/record.hpp record_version)"
  echo "profile of a model: $(number modules/planning/src/profile_json.cpp profile_version)"
}
# rows HEADING: the table below it, without its first two lines.
rows() { awk -v heading="## $1" '$0 == heading { on = 1; next } /^## / { on = 0 } on && /^\|/ && ++line > 2' "$page"; }
diff <(formats) <(rows "Formats with a number" | awk -F' *[|] *' '{ print $2 ": " $4 }')
diff <(sed -nE 's/^ +[a-z]+ = ([0-9]+),.*/\1/p' apps/torchweave/ending.hpp) <(rows "Exit codes" | awk -F' *[|] *' '$2 > 1 && $2 < 100 { print $2 }')
# <tw/version.hpp> is generated.
headers=$(rows Headers | grep -oE '<tw/[^>]+>' | tr -d '<>')
[ -n "$headers" ] || { echo "$page names no header"; exit 1; }
for header in $headers; do
  compgen -G "cmake/${header#tw/}.in" >/dev/null || compgen -G "modules/*/include/$header" >/dev/null || { echo "$page names <$header>, which is not there"; exit 1; }
done
version=$(sed -nE 's/^project\(Torchweave VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
for line in "CITATION.cff:version: $version" "packaging/spack/package.py:    version(\"$version\"" "packaging/easybuild/Torchweave-$version-foss-2024a.eb:version = '$version'"; do
  grep -qF -- "${line#*:}" "${line%%:*}" || { echo "${line%%:*} has no line with: ${line#*:}"; exit 1; }
done
echo "the page has the numbers of the sources"
