#!/usr/bin/env bash
# python_reads.sh PROGRAM: files that PROGRAM writes are read by Python's safetensors, and the other way round.
set -u
python=${TW_TEST_PYTHON:-python3}
if ! "$python" -c 'import numpy, safetensors.numpy' 2>/dev/null; then
  echo "SKIPPED: $python lacks the packages safetensors and numpy"
  exit 77
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" write "$directory/ours.safetensors" || exit 1
"$python" - "$directory" <<'PYTHON' || exit 1
import sys
import numpy
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

directory = sys.argv[1]
types = {"bool": numpy.bool_, "uint8": numpy.uint8, "int8": numpy.int8, "int16": numpy.int16, "int32": numpy.int32, "int64": numpy.int64,
         "float16": numpy.float16, "float32": numpy.float32, "float64": numpy.float64, "complex64": numpy.complex64}
expected = {name: (numpy.arange(6) % 2 if name == "bool" else numpy.arange(6)).astype(dtype).reshape(2, 3) for name, dtype in types.items()}
expected["scalar"] = numpy.array(2.5)
expected["empty"] = numpy.zeros((0, 4), numpy.float32)
found = load_file(directory + "/ours.safetensors")
assert set(found) == set(expected), (set(found), set(expected))
for name, tensor in expected.items():
    assert found[name].dtype == tensor.dtype and found[name].shape == tensor.shape and (found[name] == tensor).all(), name
with safe_open(directory + "/ours.safetensors", "np") as file:
    assert file.metadata() == {"note": "from C++"}, file.metadata()
save_file(expected, directory + "/theirs.safetensors", {"note": "from Python"})
PYTHON
"$1" read "$directory/theirs.safetensors"
