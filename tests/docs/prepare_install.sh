# Sourced by run_commands.sh for docs/install.md; TORCH_FOLDER is LibTorch. Makes a build folder of the user's, and the page's CMakeLists.txt. What takes
# minutes is not done: the library is built by a dry run, and the one that is there is installed; nothing is optimised. A variable that CMake does not know is an error.
mkdir -p bin train fetch libtorch
rm build
mkdir build
ln -s "$root/build/deps" "$root/build/release" build/
ln -s "$TORCH_FOLDER" libtorch/torch
awk '/^`\$HOME\/.*CMakeLists.txt`/ { file = $1; gsub(/[`,:]|\$HOME\//, "", file) }
     /^```cmake$/ { on = 1; next } /^```/ { on = 0 } on { print >file }' "$page"
for component in Unspecified tool; do cmake --install "$root/build/release" --component $component --prefix "$folder/torchweave" >/dev/null; done
mkdir -p torchweave/lib/torchweave
ln -s "$folder/libtorch/torch" torchweave/lib/torchweave/torch  # in place of the copy that component libtorch makes
cat >bin/cmake <<END
#!/usr/bin/env bash
set -euo pipefail
cmake=$(command -v cmake)
case "\$1 \$2" in
  "--build build/"* | "--build $folder/fetch/build") exec "\$cmake" --build "\$2" -- -n ;;
  "--install build/"*) test -e "\$2/cmake_install.cmake" ;;
  -S*)
    "\$cmake" -G Ninja -D CMAKE_CXX_FLAGS_RELEASE=-O0 "\$@" 2>&1 | tee configure.log
    ! grep -A 5 "variables were not used" configure.log
    ;;
  *) exec "\$cmake" "\$@" ;;
esac
END
chmod +x bin/cmake
PATH=$folder/bin:$PATH
