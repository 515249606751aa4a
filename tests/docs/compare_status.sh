#!/usr/bin/env bash
# compare_status.sh README DEVICES ALGORITHMS: README says of GPUs what the page on devices says ("Not run at all: ..."), and names nothing as missing that the
# page on algorithms has.
set -euo pipefail
not_run() { tr '\n' ' ' <"$1" | grep -oE 'Not run at all: [^.]*\.' | tr -s ' '; }
[ -n "$(not_run "$1" || true)" ] || { echo "$1 has no line 'Not run at all: '"; exit 1; }
diff <(not_run "$1") <(not_run "$2") || { echo "$1 and $2 say different things of what has not run on a GPU"; exit 1; }
if grep -q '^\*\*On a GPU\*\*' "$2" && grep -qi 'nothing has run on a gpu' "$1"; then echo "$1 says that nothing has run on a GPU"; exit 1; fi
missing=$(sed -n 's/^\*\*Not there yet:\*\* \([^.]*\)\..*/\1/p' "$1")
[ -n "$missing" ] || { echo "$1 has no line 'Not there yet'"; exit 1; }
while read -r name; do
  for form in "$name" "${name//_/ }" "${name//_/ }s"; do
    if grep -qiwF -- "$form" <<<"$missing"; then echo "$1 says that $form is not there yet; $3 has it"; exit 1; fi
  done
done < <(sed -n 's/^## Over messages (\(.*\))$/\1/p' "$3" | grep -oE '`[a-z_]+`' | tr -d '`')
echo "the status lines agree"
