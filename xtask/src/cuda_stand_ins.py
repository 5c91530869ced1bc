"""Makes stand-ins for the CUDA libraries that torch's wheel links against, so that it imports on a machine without a GPU.

Goal: `import torch` without the gigabytes of CUDA packages that the wheel for Linux asks for.
Method: for each library that torch's own files need and no one has, an empty one is compiled that exports the symbols asked for
under the versions asked for. Every function answers 100, CUDA's "no device"; none is ever called on a CPU but at start-up.

usage: python cuda_stand_ins.py    (by the interpreter that torch is installed for)
"""

from __future__ import annotations

import re
import subprocess
import sysconfig
import tempfile
from collections import defaultdict
from pathlib import Path

PACKAGES = Path(sysconfig.get_paths()["purelib"])
TORCH = PACKAGES / "torch" / "lib"
OUT = PACKAGES / "nvidia" / "cu13" / "lib"
"""Torch looks for its libraries here."""

PREFIXES = {
    "libcublas": ("cublas",),
    "libcublasLt": ("cublasLt",),
    "libcudnn": ("cudnn",),
    "libcufft": ("cufft",),
    "libcufile": ("cuFile", "cufile"),
    "libcupti": ("cupti",),
    "libcurand": ("curand",),
    "libcusolver": ("cusolver",),
    "libcusparse": ("cusparse",),
    "libcusparseLt": ("cusparseLt",),
    "libnccl": ("nccl", "pnccl"),
    "libnvJitLink": ("nvJitLink",),
    "libnvrtc": ("nvrtc",),
    "libnvshmem_host": ("nvshmem",),
}
"""What the functions of each library begin with: symbols without a version tell in no other way whose they are. libcudart is
missing on purpose: torch calls it, and takes a stand-in's answers for true. libcuda is the driver's, and loaded by name."""

ALSO = ("libcublasLt.so.13", "libnvJitLink.so.13", "libnvrtc-builtins.so.13.2", "libnvshmem_host.so.3")
"""Libraries that torch loads by name."""

DATA_BYTES = 4096
"""Room for a symbol that is data, whatever its type."""


def readelf(option: str, library: Path) -> list[str]:
    """The lines of a table of a library."""
    run = subprocess.run(["readelf", option, "--wide", str(library)], check=True, capture_output=True, text=True)
    return run.stdout.splitlines()


def needed_by(library: Path) -> set[str]:
    """The names of the libraries that one is linked against."""
    found = (re.search(r"\(NEEDED\).*\[(.+)\]", line) for line in readelf("--dynamic", library))
    return {match[1] for match in found if match}


def providers(library: Path) -> dict[str, str]:
    """Which library each symbol version must come from."""
    of, file = {}, ""
    for line in readelf("--version-info", library):
        if match := re.search(r"File: (\S+)", line):
            file = match[1]
        elif match := re.search(r"Name: (\S+)\s+Flags", line):
            of[match[1]] = file
    return of


def owner(name: str, wanted: set[str]) -> str | None:
    """The library whose prefix a symbol has; the longest counts, since cublasLt's begin with cublas too."""
    fits = [
        (len(prefix), library)
        for library in wanted
        for prefix in PREFIXES[library.split(".so")[0]]
        if name.startswith(prefix)
    ]
    return max(fits)[1] if fits else None


def symbols(libraries: list[Path], wanted: set[str]) -> dict[str, dict[str, dict[str, bool]]]:
    """By library and version, what it must export, and whether that is data."""
    undefined: dict[tuple[str, str], tuple[bool, str | None]] = {}
    defined: set[str] = set()
    for library in libraries:
        of = providers(library)
        for line in readelf("--dyn-syms", library):
            fields = line.split()
            if len(fields) < 8 or not fields[0].rstrip(":").isdigit():
                continue
            name, _, version = fields[7].replace("@@", "@").partition("@")
            if fields[6] == "UND":
                undefined[name, version] = (fields[3] == "OBJECT", of.get(version))
            else:
                defined.add(name)
    exports: dict[str, dict[str, dict[str, bool]]] = defaultdict(lambda: defaultdict(dict))
    for (name, version), (is_data, library) in undefined.items():
        library = library or owner(name, wanted)
        if name not in defined and library in wanted:
            exports[library][version][name] = is_data
    return exports


def compile_one(name: str, exports: dict[str, dict[str, bool]]) -> None:
    """Compiles the stand-in of one library."""
    source, versions = [], []
    for version, names in exports.items():
        for symbol, is_data in names.items():
            source.append(f"char {symbol}[{DATA_BYTES}];" if is_data else f"long {symbol}(void) {{ return 100; }}")
        if version:
            versions.append(f"{version} {{ global: {'; '.join(names)}; }};")
    with tempfile.TemporaryDirectory() as folder:
        code, script = Path(folder) / "stand_in.c", Path(folder) / "versions"
        code.write_text("\n".join(source))
        command = ["gcc", "-shared", "-fPIC", "-w", "-fno-builtin", str(code), "-o", str(OUT / name), f"-Wl,-soname,{name}"]
        if versions:
            script.write_text("\n".join(versions))
            command.append(f"-Wl,--version-script={script}")
        subprocess.run(command, check=True)


def main() -> None:
    libraries = sorted(TORCH.glob("*.so"))
    have = {library.name for library in libraries} | {library.name for library in OUT.glob("*.so*")}
    needed = set().union(*map(needed_by, libraries), ALSO)
    wanted = {name for name in needed - have if name.split(".so")[0] in {*PREFIXES, "libnvrtc-builtins"}}
    OUT.mkdir(parents=True, exist_ok=True)
    exports = symbols(libraries, wanted - {"libnvrtc-builtins.so.13.2"})
    for name in sorted(wanted):
        compile_one(name, exports[name])
    print(f"made {len(wanted)} stand-ins in {OUT}")


if __name__ == "__main__":
    main()
