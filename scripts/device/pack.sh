#!/usr/bin/env bash
# pack.sh [TORCH_VERSION]: makes build/device/carry, which holds all that a machine with a GPU lacks to run the tests and benchmarks of devices, if it has
# this version of LibTorch for CUDA (2.11.0) in its Python, and neither MPI nor a package index. There: carry/there.sh OUT
#
# The programs are compiled here against that version's headers, which takes no toolkit and none of NVIDIA's libraries, and for this machine's Open MPI.
set -euo pipefail
cd "$(dirname "$0")/../.."
version=${1:-2.11.0}
limit=$((64 << 20))
torch=$PWD/build/deps/torch-$version/torch
if [ ! -e "$torch/lib/libtorch_cuda.so" ]; then
  echo "pack: fetching LibTorch $version for CUDA"
  rm -rf "build/deps/torch-$version"
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --target "build/deps/torch-$version" "torch===$version"
fi
TW_TORCH_DIR=$torch scripts/setup.sh build test openmpi
build=build/device/build
mkdir -p $build
cmake --preset release -B $build -DTW_MPI=openmpi -DTW_DEVICE=cuda -DTW_TORCH_DIR="$torch" -DTW_BUILD_APPS=OFF -DTW_BUILD_TESTS=ON \
  -DTW_BUILD_BENCHMARKS=ON >$build/configure.log 2>&1 || { cat $build/configure.log >&2; exit 1; }
cmake --build $build --target device_tests bench_device probe_device

carry=build/device/carry
root=$carry/root
rm -rf $carry
mkdir -p $root/bin $root/lib $root/openmpi/bin $root/openmpi/lib/openmpi3 $root/pmix/lib/pmix $root/share $root/etc
mapfile -t programs < <(cat $build/device_tests.txt; echo bench_device; echo probe_device)
for program in "${programs[@]}"; do strip -o "$root/bin/$program" "$build/bin/$program"; done
cp $build/device_tests.txt scripts/device/{machine,test,bench}.sh $root/

# loads FILE...: the libraries that the loader finds for them, LibTorch's and the compiler's own left out, which are there.
loads() {
  ldd "$@" 2>/dev/null | sed -nE 's/.* => (\/[^ ]+) .*/\1/p' | sort -u | grep -vE "^$torch/|/(libc|libm|libdl|librt|libpthread|libutil|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so" || true
}
prefix=/usr/lib/x86_64-linux-gnu  # Debian's
launcher=$(realpath "$(command -v mpirun.openmpi)")
orted=$(realpath "$(command -v orted)")
loads "$launcher" "$orted" "$build"/bin/*_tests "$build/bin/bench_device" >$carry/libraries
# Plug-ins are loaded by name, and ldd does not know them. Those for networks and batch systems want libraries of their own: a single machine needs none.
plug_ins() {  # plug_ins FROM TO
  local plug_in
  for plug_in in "$1"/*.so; do
    [ -n "$(loads "$plug_in" | grep -vxFf $carry/libraries)" ] || cp "$plug_in" "$2/"
  done
}
# PMIx is a plug-in with a library of its own, and much comes with it.
loads $prefix/openmpi/lib/openmpi3/mca_pmix_ext*.so $prefix/pmix2/lib/pmix/mca_gds_hash.so >>$carry/libraries
sort -u -o $carry/libraries $carry/libraries
plug_ins $prefix/openmpi/lib/openmpi3 $root/openmpi/lib/openmpi3
plug_ins $prefix/pmix2/lib/pmix $root/pmix/lib/pmix
xargs -a $carry/libraries cp -L -t $root/lib
cp "$launcher" $root/openmpi/bin/mpirun
cp "$orted" $root/openmpi/bin/orted
cp -rL /usr/share/openmpi $root/share/openmpi
[ ! -d $prefix/pmix2/share ] || cp -rL $prefix/pmix2/share $root/pmix/share
cp -rL /etc/openmpi $root/etc/openmpi
find $root/lib $root/openmpi $root/pmix -name '*.so*' -exec strip --strip-unneeded {} + 2>/dev/null || true

echo "$version" >$root/torch_version
tar -C $root -c . | xz -T2 -6 >$carry/root.tar.xz
rm -rf $root $carry/libraries
cp scripts/device/there.sh $carry/
bytes=$(du -sb $carry | cut -f1)
echo "pack: $carry, $((bytes >> 20)) MiB, for LibTorch $version"
[ "$bytes" -lt $limit ] || { echo "pack: that is more than $((limit >> 20)) MiB" >&2; exit 1; }
