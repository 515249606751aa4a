#!/usr/bin/env bash
# no_apt_test.sh SETUP FOLDER: runs the script SETUP as an unprivileged user on machines where it cannot install packages. A machine is a folder with all
# programs that there are. Its compiler knows the headers in the folder include beside it, and those in folders that it is called with.
set -euo pipefail
setup=$(realpath "$1")
rm -rf "$2"
mkdir -p "$2"
folder=$(realpath "$2")
as_user=()
if [ "$(id -u)" -eq 0 ]; then
  chown nobody "$folder"
  as_user=(runuser -u nobody --)
  "${as_user[@]}" test -w "$folder" || { echo "SKIPPED: user nobody cannot write to $folder"; exit 77; }
fi

headers="spdlog/spdlog.h fmt/core.h toml++/toml.h CLI/CLI.hpp nlohmann/json.hpp zlib.h Random123/philox.h xxhash.h Eigen/Core"

# machine NAME PROGRAM...: makes one, with these programs of which nothing is asked but to be there, and all headers.
machine() {
  machine=$folder/$1
  shift
  mkdir -p "$machine/bin" "$machine/include" "$machine/scripts"
  cp "$setup" "$machine/scripts/setup.sh"
  local program header
  for program in bash dirname env grep id rm mktemp tail; do ln -s "$(command -v $program)" "$machine/bin/"; done
  for program in "$@"; do install -m 755 /dev/stdin "$machine/bin/$program" <<<'#!/usr/bin/env bash'; done
  install -m 755 /dev/stdin "$machine/bin/c++" <<'END'
#!/usr/bin/env bash
text=$(</dev/stdin)
[[ $text =~ \<(.*)\> ]]
for argument in "-I$(dirname "$0")/../include" "$@"; do
  if [[ $argument == -I* && $argument != -I/usr/* && -e ${argument#-I}/${BASH_REMATCH[1]} ]]; then exit 0; fi
done
exit 1
END
  for header in $headers; do install -D /dev/null "$machine/include/$header"; done
  [ "$(id -u)" -ne 0 ] || chown -R nobody "$machine"
}

# setup [NAME=VALUE...]: runs it for the groups in $groups; its output is in $output, its exit code in $code.
groups=()
setup() {
  code=0
  output=$(cd "$machine" && "${as_user[@]}" env -i PATH="$machine/bin" TW_TORCH_DIR="$folder/torch" "$@" scripts/setup.sh "${groups[@]}" 2>&1) || code=$?
  printf '== %s: exit code %s\n%s\n' "${machine##*/} $*" $code "$output"
}
fail() { echo "no_apt_test: $1"; exit 1; }
says() { grep -qF -- "$1" <<<"$output" || fail "it does not say: $1"; }
silent_about() { ! grep -qF -- "$1" <<<"$output" || fail "it says: $1"; }
ends_with() { [ $code -eq "$1" ] || fail "it should have ended with $1"; }
install -D /dev/null "$folder/torch/share/cmake/Torch/TorchConfig.cmake"

machine lacks_three cmake mpicxx mpiexec sudo
rm "$machine"/include/nlohmann/json.hpp "$machine"/include/spdlog/spdlog.h
setup
ends_with 1
says "  nlohmann-json (nlohmann-json3-dev)"
says "  spdlog (libspdlog-dev)"
says "  Ninja (ninja-build)"
says docs/install.md
for present in CMake zlib MPI Eigen ccache hwloc "without one"; do silent_about "$present"; done

# What an own prefix has counts.
machine own_prefix cmake mpicxx mpiexec ninja
rm "$machine"/include/nlohmann/json.hpp
install -D /dev/null "$folder/prefix/include/nlohmann/json.hpp"
setup CMAKE_PREFIX_PATH="$folder/other:$folder/prefix"
ends_with 0
[ -z "$output" ] || fail "it should have had nothing to say"

machine no_compiler cmake ninja mpicxx mpiexec
rm "$machine/bin/c++"
setup
ends_with 1
says "  C++20 compiler (g++)"
says "libraries are looked for with the compiler"

# Both MPIs may be named.
machine no_mpi cmake ninja
groups=(openmpi mpich)
setup
ends_with 1
says "  MPI (libopenmpi-dev)"
says "  MPICH (libmpich-dev)"
groups=(mpich)
setup
ends_with 1
says "  MPICH (libmpich-dev)"
silent_about libopenmpi-dev
groups=()

# Debian, but no root and no sudo: its package manager knows of nothing.
machine no_root cmake ninja mpicxx mpiexec apt-get dpkg-query
rm "$machine/include/xxhash.h"
setup
ends_with 1
says "  xxHash (libxxhash-dev)"
silent_about "zlib"

# sudo refuses.
install -m 755 /dev/stdin "$machine/bin/sudo" <<<$'#!/usr/bin/env bash\necho "not in the sudoers file" >&2; exit 1'
setup
ends_with 1
says "not in the sudoers file"
says docs/install.md
echo "all machines are described"
