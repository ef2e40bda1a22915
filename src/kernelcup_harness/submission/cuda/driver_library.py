"""CUDA's driver as a library to link: the machine's own, or a stand-in with its name and functions.

A kernel that calls the driver, for a tensor map for example, needs ``libcuda.so.1`` when it is linked. A machine
without a GPU has none, and in the toolkit's packages there is no stub. The stand-in is made of what ``cuda.h``
declares: what is linked with it finds the real library where it is loaded. Standard library only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from kernelcup_harness.submission.cuda import libraries
from kernelcup_harness.submission.port import NotCompiled

NAME = "libcuda.so.1"
FOLDERS = (*map(str, libraries.SYSTEM_LIBRARIES), "/usr/local/nvidia/lib64", "/usr/lib/wsl/lib")
CALL = re.compile(rb"\bcu[A-Z]\w*\s*\(|<cuda(Typedefs)?\.h>|\"cuda(Typedefs)?\.h\"")
FUNCTION = re.compile(r"\bcu[A-Z]\w*")
PER_THREAD = re.compile(r"__CUDA_API_(PTDS|PTSZ)\((cu\w+)\)")
NO_DEVICE = 100
"""``CUDA_ERROR_NO_DEVICE``, which each function of the stand-in returns."""


def is_called(files: Iterable[Path], environ: Mapping[str, str]) -> bool:
    """Return whether files may call the driver: by themselves, or in the headers of a library."""
    return bool(environ.get(libraries.VARIABLE)) or any(CALL.search(each.read_bytes()) for each in files)


def find(environ: Mapping[str, str]) -> Path | None:
    """Return the driver's library of this machine, None if it has none."""
    folders = [*filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")), *FOLDERS]
    return next((file for each in folders if (file := Path(each, NAME)).is_file()), None)


def kind(environ: Mapping[str, str]) -> str:
    """Return which library is linked, for the key of what is kept."""
    return str(find(environ) or "stub")


def to_link(folder: Path, environ: Mapping[str, str]) -> Path:
    """Return the library to link, made in ``folder`` if this machine has none. Raise :class:`NotCompiled`."""
    found, stub = find(environ), folder / NAME
    if found is None and not stub.exists():
        make_stub(stub, environ)
    return found or stub


def make_stub(library: Path, environ: Mapping[str, str]) -> None:
    """Make the stand-in. Raise :class:`NotCompiled` without ``cuda.h`` or a compiler."""
    places = (each / "cuda.h" for each in libraries.include_folders(environ))
    header = next((each for each in places if each.is_file()), None)
    compiler = shutil.which("g++", path=environ.get("PATH"))
    if header is None or compiler is None:
        raise NotCompiled(
            f"{NAME} is not here, and {'g++' if header else 'cuda.h'}, which stands in for it, is not"
        )
    names = functions(header.read_text(encoding="utf-8", errors="replace"))
    code = "".join(f"int {name}(void) {{ return {NO_DEVICE}; }}\n" for name in names)
    options = [
        "-x",
        "c",
        "-",
        "-w",
        "-fno-builtin",
        "-shared",
        "-fPIC",
        f"-Wl,-soname,{NAME}",
        "-o",
        str(library),
    ]
    done = subprocess.run([compiler, *options], input=code, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotCompiled(f"{NAME} is not here, and its stand-in does not compile:\n{done.stderr}")


def functions(header: str) -> list[str]:
    """Return the names of functions that ``cuda.h`` declares, with those of the stream of each thread."""
    per_thread = {f"{name}_{kind.lower()}" for kind, name in PER_THREAD.findall(header)}
    return sorted({*FUNCTION.findall(header), *per_thread})
