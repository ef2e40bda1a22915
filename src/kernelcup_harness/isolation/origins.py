"""Whose machine code a kernel is: the hashes of what the libraries of this machine hold, read by NVIDIA's cuobjdump.

A list counts only once it has recognised kernels of cuBLAS and ATen that ran on this machine's GPU, and as long as the
libraries are the same files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import re
import shutil
import site
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kernelcup_harness.isolation import environments
from kernelcup_harness.protocol import RanKernel

FILE = "origins.json"
"""In the machine's folder of environments."""
LIBRARIES = {
    "libcublas": "cuBLAS",
    "libcudnn": "cuDNN",
    "libcufft": "cuFFT",
    "libcurand": "cuRAND",
    "libcusolver": "cuSOLVER",
    "libcusparse": "cuSPARSE",
    "libnccl": "NCCL",
    "libtorch_cuda": "ATen",
}
"""Libraries whose kernels are nobody's own, by the beginning of their file names."""
NAMED = {
    "cuBLAS": r"nvjet_|_ZN7cutlass7Kernel2I\d+cutlass_\d",
    "cuDNN": r"cudnn_generated_",
    "cuFFT": r"_Z\d+(regular_fft|vector_fft|kernel_wrapper\w+packR2C|postprocess_kernel)",
}
"""How names of kernels begin whose machine code a library compiles while it runs, or keeps where cuobjdump does not
read it: found on an H100, with CUDA 13.0."""
PROBED = ("cuBLAS", "ATen")
"""Libraries whose kernels a list has to recognise before it counts."""
LEARN = "`kernelcup env origins` makes one on the machine"
SHOWN = 16
"""Digits of a hash, as reports have them."""


class NoOrigins(LookupError):
    """This machine cannot say whose a kernel is; the text says why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Origins:
    """The machine code of the libraries of a machine."""

    names: dict[str, str] = field(default_factory=dict)
    """The library of an image, by the beginning of the image's SHA-256."""
    files: dict[str, list[int]] = field(default_factory=dict)
    """Size and time of change (ns) of each library, by its path."""
    proven: list[str] = field(default_factory=list)
    """Libraries of which it has recognised a kernel that ran."""

    @property
    def missing(self) -> list[str]:
        """Libraries that it should have recognised and has not: with any of these it does not count."""
        return [each for each in PROBED if each not in self.proven]

    def of(self, kernel: RanKernel) -> str:
        """Return the library that a kernel comes from, empty if it is none of these.

        A name can only make a kernel a library's: no name makes one the submission's own.
        """
        named = next((library for library, name in NAMED.items() if re.match(name, kernel.name)), "")
        return self.names.get(kernel.image, named)


def read(environ: Mapping[str, str]) -> Origins:
    """Return this machine's list. Raise :class:`NoOrigins` if there is none that counts."""
    folder = environ.get(environments.VARIABLE)
    try:
        found = Origins(**json.loads(Path(folder or "/", FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise NoOrigins(f"this machine has no list of its libraries' machine code; {LEARN}") from error
    if found.missing:
        raise NoOrigins(
            f"this machine's list has not recognised kernels of {' and '.join(found.missing)}; {LEARN}"
        )
    changed = next((path for path, stamp in found.files.items() if stamp_of(Path(path)) != stamp), None)
    if changed is not None:
        raise NoOrigins(f"{Path(changed).name} has changed since this machine's list was made; {LEARN}")
    return found


def learn(
    tool: str, libraries: Iterable[Path], architectures: Sequence[str], ran: Mapping[str, Sequence[str]]
) -> Origins:
    """Return the list of some libraries.

    Args:
        tool: The path of cuobjdump.
        libraries: Their files.
        architectures: For example ``sm_90`` and ``sm_90a``.
        ran: Hashes of images that ran on the GPU while a library was called, by its name.
    """
    names, files = dict[str, str](), dict[str, list[int]]()
    for path in libraries:
        files[str(path)] = stamp_of(path)
        names |= dict.fromkeys(images(tool, path, architectures), library_of(path))
    proven = [name for name, seen in ran.items() if any(names.get(each) == name for each in seen)]
    return Origins(names=names, files=files, proven=proven)


def images(tool: str, library: Path, architectures: Sequence[str]) -> Iterator[str]:
    """Yield the hashes of the images in a library."""
    for architecture in architectures:
        with tempfile.TemporaryDirectory(prefix="kernelcup-origins-") as folder:
            argv = [tool, "-xelf", "all", "-arch", architecture, str(library.resolve())]
            # It fails where a library has nothing for an architecture.
            subprocess.run(
                argv, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
            )
            for made in Path(folder).iterdir():
                yield hashlib.sha256(made.read_bytes()).hexdigest()[:SHOWN]


def found_libraries(folders: Iterable[Path]) -> list[Path]:
    """Return the files of known libraries below some folders, each once."""
    found = {
        path.resolve()
        for folder in folders
        for path in folder.rglob("*.so*")
        if library_of(path) and path.is_file()
    }
    return sorted(found)


def library_of(path: Path) -> str:
    """Return the name of a known library by its file, empty for other files."""
    return next((name for begin, name in LIBRARIES.items() if path.name.startswith(begin)), "")


def architectures_of(major: int, minor: int) -> list[str]:
    """Return the architectures whose code a device runs."""
    return [*(f"sm_{major}{each}" for each in range(minor + 1)), f"sm_{major}{minor}a"]


def program() -> str:
    """Return the path of cuobjdump: the toolkit's, or the one in Triton's package. Raise :class:`NoOrigins`."""
    spec = importlib.util.find_spec("triton")
    bundled = Path(spec.origin).parent / "backends/nvidia/bin/cuobjdump" if spec and spec.origin else None
    found = shutil.which("cuobjdump") or shutil.which("/usr/local/cuda/bin/cuobjdump")
    if found is None and bundled is not None and os.access(bundled, os.X_OK):
        found = str(bundled)
    if found is None:
        raise NoOrigins("no cuobjdump here: NVIDIA's toolkit or `pip install triton` brings it")
    return found


def make(environ: Mapping[str, str], probe: Sequence[str]) -> Origins:
    """Make this machine's list and store it.

    Args:
        environ: Names the machine's folder of environments, whose libraries are listed beside this Python's.
        probe: The command that runs kernels of libraries: see ``device.nvidia.origins_probe``.

    Raise :class:`NoOrigins` if there can be none.
    """
    tool = program()
    done = subprocess.run(probe, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoOrigins(f"no kernels of libraries could be run: {done.stderr.strip()[-600:]}")
    told = json.loads(done.stdout)
    folders = [Path(environ.get(environments.VARIABLE) or os.devnull), *map(Path, site.getsitepackages())]
    folders.append(Path("/usr/local/cuda/lib64"))
    libraries = found_libraries(folders)
    found = learn(tool, libraries, architectures_of(*told["capability"]), told["images"])
    write(found, environ)
    return found


def write(found: Origins, environ: Mapping[str, str]) -> Path:
    """Store a list for :func:`read`. Raise :class:`NoOrigins` if the machine has no folder for it."""
    folder = environ.get(environments.VARIABLE)
    if not folder:
        raise NoOrigins(f"{environments.VARIABLE} names no folder")
    Path(folder).mkdir(parents=True, exist_ok=True)
    path = Path(folder, FILE)
    path.write_text(json.dumps(asdict(found)), encoding="utf-8")
    return path


def stamp_of(path: Path) -> list[int]:
    """Return size and time of change of a file; nothing if it is gone."""
    try:
        found = path.stat()
    except OSError:
        return []
    return [found.st_size, found.st_mtime_ns]
