#!/usr/bin/env bash
# subdirectory.sh SOURCE BUILD TORCH COMPILER MPIEXEC TW_MPI TW_DEVICE VERSION: Torchweave as a part of a project, by add_subdirectory and by FetchContent,
# beside a fmt of the project's own, from sources where packages are missing. Compiles two programs' objects, the lowest module and a file of the planners.
. "$(dirname "$0")/common.bash"
expect_configured project -DTORCHWEAVE_SOURCE="$source" -DTW_TORCH_DIR="$torch" -DTW_MPI="$mpi" -DTW_DEVICE="$device" -DOWN_FMT=ON -DTW_MODULES="data_parallel;mpi_interop"
build_targets project consumer_object tw_base
cmake --install "$work/project" --prefix "$work/prefix" >/dev/null
[ -z "$(find "$work/prefix" -type f 2>/dev/null)" ] || fail "the project installs files of Torchweave's"

# One module, without LibTorch and MPI, and without packages of the system: all from sources.
sources=()
for package in FMT SPDLOG TOML RANDOM123 XXHASH; do sources+=(-DFETCHCONTENT_SOURCE_DIR_$package=/usr); done
none=(-DTORCHWEAVE_FETCHED="$source" -DTW_WITH_TORCH=OFF -DTW_MODULES=base -DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF)
expect_configured fetched "${none[@]}" "${sources[@]}"
build_targets fetched all
"$work/fetched/version" | grep "^$version compiled for none and none$" >/dev/null || fail "the version is wrong"

# All modules that need neither LibTorch nor MPI: a program that asks and tells, and a file of the planners.
sources+=(-DFETCHCONTENT_SOURCE_DIR_JSON=/usr -DFETCHCONTENT_SOURCE_DIR_EIGEN=/usr/include/eigen3)
expect_configured fetched "${none[@]}" "${sources[@]}" -DTW_MODULES= -DCMAKE_UNITY_BUILD=OFF
if grep -E "^-- (MPI|LibTorch):" "$work/fetched.log"; then fail "modules without LibTorch and MPI look for them"; fi
build_targets fetched ask_tell _deps/torchweave-build/modules/planning/CMakeFiles/tw_planning.dir/src/plan_json.cpp.o

if configure fetched "${none[@]}"; then fail "missing packages were not noticed"; fi
for package in fmt spdlog toml random123 xxhash; do
  grep "$package (.*Debian: " "$work/fetched.log" >/dev/null || { cat "$work/fetched.log"; fail "$package is missing, and not named"; }
done
if configure fetched "${none[@]}" -DTW_MODULES=search; then fail "search needs LibTorch"; fi
tr -s ' \n' ' ' <"$work/fetched.log" | grep "'search', which needs LibTorch or MPI" >/dev/null || { cat "$work/fetched.log"; fail "search: another message"; }
echo compiled
