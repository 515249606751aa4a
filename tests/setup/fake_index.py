"""fake_index.py FOLDER: package indices in FOLDER, with wheels of a few bytes: cpu/ has LibTorch's CPU build, cuda/ the CUDA build and the wheels
of NVIDIA that it requires, both/ the CPU build beside these, plain/ a CPU build that is not called so, as on other machines than x86-64, and neither/ nothing."""

import pathlib
import shutil
import sys
import zipfile

VERSION = "2.13.0"
CONFIG = "torch/share/cmake/Torch/TorchConfig.cmake"


def add(index, name, version, files, requires=()):
    project = name.replace("_", "-")
    folder = index / project
    folder.mkdir(parents=True, exist_ok=True)
    wheel = f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = ["Metadata-Version: 2.1", f"Name: {project}", f"Version: {version}", *requires]
    with zipfile.ZipFile(folder / wheel, "w") as out:
        for file in files:
            out.writestr(file, "")
        out.writestr(f"{info}/METADATA", "\n".join(metadata) + "\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")
    with open(folder / "index.html", "a") as page:
        page.write(f'<a href="{wheel}">{wheel}</a>\n')


root = pathlib.Path(sys.argv[1])
for name in ("cpu", "cuda", "plain", "neither"):
    (root / name).mkdir(parents=True)
add(root / "cpu", "torch", VERSION + "+cpu", [CONFIG, "torch/cpu_build"])
add(root / "plain", "torch", VERSION, [CONFIG, "torch/plain_build"])
parts = {"cublas": "nvidia-cublas", "cudart": "nvidia-cuda-runtime", "cupti": "nvidia-cuda-cupti"}
add(
    root / "cuda",
    "torch",
    VERSION,
    [CONFIG, "torch/lib/libtorch_cuda.so"],
    [
        "Requires-Dist: sympy>=1.13.3",
        f'Requires-Dist: cuda-toolkit[{",".join(parts)}]==13.0.3; platform_system == "Linux"',
        'Requires-Dist: nvidia-cudnn-cu13==9.20.0.48; platform_system == "Linux"',
    ],
)
requires = [f"Provides-Extra: {part}" for part in parts]
requires += [f'Requires-Dist: {project}==13.0.96; extra == "{part}"' for part, project in parts.items()]
add(root / "cuda", "cuda_toolkit", "13.0.3", [], requires)
for part, project in parts.items():
    add(root / "cuda", project.replace("-", "_"), "13.0.96", [f"nvidia/cu13/lib/lib{part}.so.13"])
add(root / "cuda", "nvidia_cudnn_cu13", "9.20.0.48", ["nvidia/cudnn/lib/libcudnn.so.9"])
shutil.copytree(root / "cuda", root / "both")
add(root / "both", "torch", VERSION + "+cpu", [CONFIG, "torch/cpu_build"])
