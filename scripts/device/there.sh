#!/usr/bin/env bash
# there.sh OUT [test|bench]: on a machine with a GPU, from the folder that scripts/device/pack.sh made: the tests and benchmarks of devices, results in
# OUT. All that it unpacks is gone when it ends.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=$1 what=${2:-both}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
tar -C "$root" -xf "$here/root.tar.xz"

torch=${TW_TORCH_DIR:-$(python3 -c 'import importlib.util; print(importlib.util.find_spec("torch").submodule_search_locations[0])')}
wanted=$(cat "$root/torch_version")
grep -q "^__version__ = '$wanted" "$torch/version.py" ||
  echo "there: $torch is not LibTorch $wanted, for which the programs were compiled" >&2

# Of the libraries only those that this machine lacks: its own programs must go on to find theirs.
mkdir "$root/missing"
known=$(ldconfig -p)
for library in "$root"/lib/*; do
  grep -qF "${library##*/} (" <<<"$known" || ln -s "$library" "$root/missing/"
done
export LD_LIBRARY_PATH="$root/missing:$torch/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" OMP_NUM_THREADS=1
# Where Open MPI and PMIx look for themselves, since they were built for other folders.
export OPAL_PREFIX="$root/openmpi" OPAL_LIBDIR="$root/openmpi/lib" OPAL_PKGLIBDIR="$root/openmpi/lib/openmpi3"
export OPAL_DATADIR="$root/share" OPAL_PKGDATADIR="$root/share/openmpi" OPAL_SYSCONFDIR="$root/etc/openmpi" PMIX_INSTALL_PREFIX="$root/pmix"
# As cmake/TwMpi.cmake has it; and one machine, where ranks meet in memory.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader OMPI_MCA_plm_rsh_agent=/bin/false PMIX_MCA_pcompress_base_silence_warning=1
ln -s openmpi/bin/mpirun "$root/mpirun"

code=0
case $what in both | test) "$root/test.sh" "$root" "$out" || code=$? ;; esac
[ $code -ne 77 ] || exit $code  # no device
case $what in both | bench) "$root/bench.sh" "$root" "$out" || code=$? ;; esac
exit $code
