"""Libraries that a task asks for by name: their headers and what to link, in its environment or the machine's."""

from __future__ import annotations

import importlib.util
import os
import shutil
import site
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelcup_harness.isolation import environments
from kernelcup_harness.protocol import JobSpec
from kernelcup_harness.submission.port import NotCompiled


def find_nvcc(environ: Mapping[str, str]) -> str | None:
    """Return the path of nvcc, None without one: of ``CUDA_HOME``, the path, or NVIDIA's Python packages."""
    return next((str(each) for each in _candidates(environ) if os.access(each, os.X_OK)), None)


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(name):
            yield Path(environ[name], "bin/nvcc")
    if found := shutil.which("nvcc", path=environ.get("PATH")):
        yield Path(found)
    packages = importlib.util.find_spec("nvidia")
    for folder in (packages.submodule_search_locations or ()) if packages is not None else ():
        yield from sorted(Path(folder).glob("cu[0-9]*/bin/nvcc"), reverse=True)
    yield Path("/usr/local/cuda/bin/nvcc")


VARIABLE = "KERNELCUP_LIBRARIES"
"""Names the libraries of a job to its build, with commas."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Library:
    """A header that it must have, the files to link, and what brings it."""

    header: str
    links: tuple[str, ...] = ()
    package: str


KNOWN = {
    "cublas": Library(header="cublas_v2.h", links=("cublas",), package="nvidia-cublas"),
    "cublaslt": Library(header="cublasLt.h", links=("cublasLt",), package="nvidia-cublas"),
    "cudnn": Library(header="cudnn.h", links=("cudnn",), package="nvidia-cudnn-cu13"),
    "curand": Library(header="curand.h", links=("curand",), package="nvidia-curand"),
    "cusparse": Library(header="cusparse.h", links=("cusparse",), package="nvidia-cusparse"),
    "cutlass": Library(header="cutlass/cutlass.h", package="nvidia-cutlass"),
    "thunderkittens": Library(header="kittens.cuh", package="the headers of ThunderKittens"),
}
BESIDE = ("../tools/util/include",)
"""Folders of further headers, from that of a library's headers."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CompilerArguments:
    """Arguments for nvcc."""

    compile: tuple[str, ...] = ()
    link: tuple[str, ...] = ()


def of_job(spec: JobSpec, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name a job's environment and libraries to its builds. Raise ``NoEnvironment``."""
    linked = {VARIABLE: ",".join(spec.libraries)} if spec.libraries else {}
    return environments.named(spec.environment, environ).variables | linked


def arguments(environ: Mapping[str, str]) -> CompilerArguments:
    """Return what a job's libraries and environment add to a command. Raise :class:`NotCompiled` if one is missing."""
    compiling: list[str] = []
    linking: list[str] = []
    for name in filter(None, environ.get(VARIABLE, "").split(",")):
        compiling += [f"-isystem={folder}" for folder in headers(name, environ)]
        for file in files(name, environ):
            # As an argument of its own, nvcc would compile the library behind `-x cu`: it never ends.
            linking += ["-Xlinker", str(file), "-Xlinker", f"-rpath,{file.parent}"]
    environment = environments.chosen(environ)
    own = environment.flags if environment is not None else ()
    return CompilerArguments(compile=(*dict.fromkeys(compiling), *own), link=tuple(linking))


def trouble(names: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return which of some libraries this machine lacks and what brings it, empty if none."""
    for name in names:
        try:
            headers(name, environ)
            files(name, environ)
        except NotCompiled as error:
            return str(error)
    return ""


def headers(name: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the folders of a library's headers. Raise :class:`NotCompiled` if there are none."""
    library = _known(name)
    folder = next((each for each in include_folders(environ) if (each / library.header).is_file()), None)
    if folder is None:
        raise NotCompiled(_lacking(name, library.header, environ))
    beside = [folder / each for each in BESIDE if library.header.startswith("cutlass/")]
    return [folder, *(each.resolve() for each in beside if each.is_dir())]


def files(name: str, environ: Mapping[str, str]) -> list[Path]:
    """Return the files of a library that are linked. Raise :class:`NotCompiled` if one is missing."""
    found = []
    for link in _known(name).links:
        folder = headers(name, environ)[0]
        places = [folder.parent / "lib", folder.parent / "lib64", *folder.parent.parent.glob("*/lib")]
        places += [Path(environ.get("CUDA_HOME") or "/usr/local/cuda", "lib64"), *SYSTEM_LIBRARIES]
        files = [file for place in places for file in sorted(place.glob(f"lib{link}.so*"))]
        if not files:
            raise NotCompiled(_lacking(name, f"lib{link}.so", environ))
        found.append(files[0])
    return found


SYSTEM_LIBRARIES = tuple(map(Path, ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64")))


def include_folders(environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders in which headers are looked for: the environment's, those that pip brought, the toolkit's."""
    environment = environments.chosen(environ)
    sites = [Path(each) for each in site.getsitepackages()]
    if environment is not None and environment.folder is not None:
        yield from (environment.folder / each for each in environment.include)
        sites.insert(0, environment.folder / environments.SITE)
    for each in sites:
        yield from sorted(each.glob("nvidia/*/include"), reverse=True)
        yield each / "cutlass_library/source/include"
    if nvcc := find_nvcc(environ):
        yield Path(nvcc).resolve().parent.parent / "include"
    yield from (Path("/usr/local/cuda/include"), Path("/usr/include"))


def _known(name: str) -> Library:
    if name not in KNOWN:
        raise NotCompiled(f"`libraries` names {name!r}; known are {', '.join(KNOWN)}")
    return KNOWN[name]


def _lacking(name: str, file: str, environ: Mapping[str, str]) -> str:
    environment = environments.chosen(environ)
    where = f"environment {environment.name!r}" if environment is not None else "default environment"
    return f"the {where} of this machine lacks the library {name!r} ({file}): {KNOWN[name].package} brings it"
