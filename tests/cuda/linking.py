#!/usr/bin/env python3
"""linking.py PROGRAM...: fails if a program could not start where neither CUDA nor NCCL is installed, or would take the
driver's library from the toolkit's folder stubs/, which has only its names, or if it has a C++ library of its own
beside that of LibTorch (cmake/torch.cmake). CUDA's runtime is linked statically, and the rest opened at run time. What
LibTorch needs for itself is its own affair."""

import re
import subprocess
import sys

OPENED_LATER = ("libcuda.so", "libcudart.so", "libnccl.so", "libnvidia-ml.so")


def problems(program: str) -> list[str]:
    shown = subprocess.run(["readelf", "-d", program], capture_output=True, text=True, check=True).stdout
    found = []
    if "[libtorch" in shown and "[libstdc++.so" not in shown:
        found.append(f"{program} has a C++ library of its own beside that of LibTorch")
    for kind, value in re.findall(r"\((NEEDED|RPATH|RUNPATH)\).*\[(.*)\]", shown):
        if kind == "NEEDED" and value.startswith(OPENED_LATER):
            found.append(f"{program} needs {value} to start")
        if kind != "NEEDED" and any("/stubs/" in folder + "/" for folder in value.split(":")):
            found.append(f"{program} looks for libraries in {value}")
    return found


def main() -> int:
    found = [problem for program in sys.argv[1:] for problem in problems(program)]
    print("\n".join(found) or f"{len(sys.argv) - 1} programs are linked as they should be")
    return 1 if found or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
