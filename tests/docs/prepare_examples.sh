# Sourced by run_commands.sh for pages that run examples: if these are not built as programs of their own, the program that holds them takes their place.
rm build
mkdir -p build/release/bin
for entry in "$root"/build/release/* "$root"/build/release/bin/*; do
  [ "$(basename "$entry")" = bin ] || ln -s "$entry" "build/${entry#"$root/build/"}"
done
for name in $(grep -oE 'release/bin/[0-9]{2}_[a-z_]+' <<<"$commands" | sed 's|.*/||' | sort -u); do
  [ ! -e "build/release/bin/$name" ] || continue
  for group in "$root"/build/release/bin/examples_*; do
    names=$("$group" 2>&1 || true)
    ! grep -x "  $name" <<<"$names" >/dev/null || printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$group" "$name" >"build/release/bin/$name"
  done
  chmod +x "build/release/bin/$name"
done
