#!/usr/bin/env bash
# installed.sh SOURCE BUILD TORCH COMPILER MPIEXEC TW_MPI TW_DEVICE VERSION: what is installed names no folder of the build, works after it was moved, for
# a project that looks for LibTorch first, too: library, tool and an example.
. "$(dirname "$0")/common.bash"
rm -rf "$work" "$prefix"
mkdir -p "$work"
DESTDIR='' cmake --install "$build" --prefix "$work/prefix" >/dev/null
mv "$work/prefix" "$prefix"

# Our own files: LibTorch's are as PyTorch built them.
named=$(grep -rlF -e "$source" "$prefix" --exclude-dir=torch --exclude-dir=nvidia || true)
[ -z "$named" ] || fail "installed files name $source: $named"
[ -s "$prefix/share/doc/Torchweave/LICENSE" ] || fail "there is no LICENSE"
if grep -rl "setup\.sh" "$prefix" --include='*.cmake'; then fail "the package names a script of the source tree"; fi

said=$(LD_LIBRARY_PATH='' "$prefix/bin/torchweave" --version)
[ "$said" = "$version" ] || fail "version '$said' instead of $version"

expect_configured project -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLE="$source/examples/01_five_lines/five_lines.cpp"
build_targets project consumer example
"$mpiexec" -n 2 "$work/project/consumer" | tee "$work/said"
grep "^consumer on 2 ranks: gradients agree$" "$work/said" >/dev/null || fail "the consumer failed"
grep "Torchweave $version with LibTorch" "$work/said" >/dev/null || fail "it does not say what it was built with"
"$mpiexec" -n 2 "$work/project/example" >/dev/null

# The C++ library comes before LibTorch's, which export parts of one, whoever found LibTorch. This project takes all modules, by the umbrella target and its header.
mv "$work/project" "$work/first"
expect_configured project -DCMAKE_PREFIX_PATH="$prefix;$torch" -DTORCH_FIRST=ON -DUMBRELLA=ON
build_targets project consumer
order=$(readelf -d "$work/project/consumer" | sed -n 's/.*(NEEDED).*\[\(lib\(stdc++\|torch_cpu\|c10\)\.so\).*/\1/p' | sed -n 1p)
[ "$order" = libstdc++.so ] || fail "$order comes before libstdc++.so"
"$mpiexec" -n 2 "$work/project/consumer"
echo "the moved prefix works"
