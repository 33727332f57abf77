#!/usr/bin/env python3
"""`make gpu-kit`: packs what `make gpu-test` needs on a machine without network into build/gpu-kit, from this machine's
packages: headers, compiled libraries of C, sources of what is written in C++, and Fashion-MNIST."""

import io
import json
import lzma
import shutil
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KIT = ROOT / "build" / "gpu-kit"
PACKED = "libraries.tar.xz"
BYTES_MAX = 64 << 20  # what is taken along beside the repository's own files must stay well below
# Large parts of Boost that nothing here includes.
BOOST_LEFT_OUT = frozenset({"compute", "geometry", "gil", "graph", "hana", "log", "math", "msm", "multiprecision",
                            "phoenix", "polygon", "qvm", "spirit", "units", "wave", "xpressive"})


@dataclass
class Part:
    """Where a file or a folder lies here, and where in the kit: the first folder is the library's."""
    source: Path
    target: str
    left_out: frozenset[str] = frozenset()


def parts() -> list[Part]:
    asked = subprocess.run(["gcc", "-print-multiarch"], capture_output=True, text=True, check=True)
    architecture = asked.stdout.strip()
    include, libraries, share = Path("/usr/include"), Path("/usr/lib") / architecture, Path("/usr/share")

    def c_library(name: str, headers: list[str], archives: list[str]) -> list[Part]:
        return [*(Part(include / header, f"{name}/include/{header}") for header in headers),
                *(Part(libraries / archive, f"{name}/lib/{archive}") for archive in archives)]

    return [
        Part(include / "boost", "boost/include/boost", BOOST_LEFT_OUT),
        *c_library("openssl", ["openssl"], ["libcrypto.a", "libssl.a"]),
        Part(include / architecture / "openssl", "openssl/include/openssl"),
        *c_library("sqlite", ["sqlite3.h", "sqlite3ext.h"], ["libsqlite3.a"]),
        *c_library("zlib", ["zlib.h", "zconf.h"], ["libz.a"]),
        # Debian's archive lacks the loops for newer processors. Programs find the library where it was linked.
        *c_library("xxhash", ["xxhash.h", "xxh3.h", "xxh_x86dispatch.h"], ["libxxhash.so", "libxxhash.so.0"]),
        Part(include / "nlohmann", "nlohmann_json/include/nlohmann"),
        Part(share / "cmake" / "nlohmann_json", "nlohmann_json/share/cmake/nlohmann_json"),
        Part(include / "CLI", "cli11/include/CLI"),
        Part(share / "cmake" / "CLI11", "cli11/share/cmake/CLI11"),
        Part(include / "spdlog", "spdlog/include/spdlog"),
        Part(include / "fmt", "spdlog/include/fmt"),
        Part(Path("/usr/src/googletest"), "googletest/src", frozenset({"googletest/test", "googlemock/test",
                                                                       "googletest/samples"})),
    ]


def version(of: Path) -> str:
    """The Debian package that a file or folder is from."""
    owners = subprocess.run(["dpkg-query", "-S", str(of)], capture_output=True, text=True).stdout.split(": ")[0]
    names = [name.strip() for name in owners.split(",") if name.strip()]
    shown = subprocess.run(["dpkg-query", "-W", "-f=${Package} ${Version}\n", *names], capture_output=True,
                           text=True).stdout if names else ""
    return shown.splitlines()[-1] if shown else f"{of} (of no package)"


def add(archive: tarfile.TarFile, part: Part) -> None:
    def keep(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
        inside = info.name.removeprefix(part.target).lstrip("/")
        if inside in part.left_out:
            return None
        info.uid = info.gid = 0
        info.uname = info.gname = ""
        return info

    archive.add(part.source.resolve(), part.target, filter=keep)


def pack() -> dict[str, str]:
    versions: dict[str, str] = {}
    with lzma.open(KIT / PACKED, "wb", preset=6) as packed, tarfile.open(fileobj=packed, mode="w") as archive:
        for part in parts():
            if not part.source.exists():
                raise FileNotFoundError(f"{part.source} is missing: `make deps` installs it")
            add(archive, part)
            versions.setdefault(version(part.source).split()[0], version(part.source))
        text = json.dumps(sorted(versions.values()), indent=2).encode()
        about = tarfile.TarInfo("versions.json")
        about.size, about.mtime = len(text), int(time.time())
        archive.addfile(about, io.BytesIO(text))
    return versions


def take_images() -> bool:
    """Fashion-MNIST as Debian packages it; Ubuntu has no such package."""
    installed = Path("/usr/share/datasets/fashion-mnist")
    if not installed.is_dir():
        return False
    shutil.copytree(installed, KIT / "fashion-mnist", dirs_exist_ok=True)
    return True


def main() -> int:
    shutil.rmtree(KIT, ignore_errors=True)
    KIT.mkdir(parents=True)
    try:
        versions = pack()
    except FileNotFoundError as error:
        print(f"make gpu-kit: {error}", file=sys.stderr)
        return 1
    images = take_images()
    sizes = {path: path.stat().st_size for path in sorted(KIT.rglob("*")) if path.is_file()}
    for text in sorted(versions.values()):
        print(f"  {text}")
    if not images:
        print("  no Fashion-MNIST, since there is no package of it here: the jobs will train on made-up images")
    for path, size in sizes.items():
        print(f"{size / (1 << 20):7.2f} MiB  {path.relative_to(ROOT)}")
    total = sum(sizes.values())
    print(f"{total / (1 << 20):7.2f} MiB  in all: take the folder {KIT.relative_to(ROOT)} along, in the repository's "
          f"place there, and run `make gpu-test`")
    if total > BYTES_MAX:
        print(f"make gpu-kit: that is more than {BYTES_MAX >> 20} MiB", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
