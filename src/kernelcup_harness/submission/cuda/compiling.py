"""Compiles C++ and CUDA C++ files into a library. Standard library only: no code of the submission runs."""

from __future__ import annotations

import hashlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from kernelcup_harness.isolation.job_environment import CUDA_FOLDER
from kernelcup_harness.protocol import first_errors
from kernelcup_harness.protocol.variables import CHECKED
from kernelcup_harness.submission.cuda import driver_library, libraries, options
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from kernelcup_harness.submission.port import NotCompiled

NOT_COMPILED = 109
"""The exit code if it does not compile; standard error has the compiler's words."""
HEADER = "kernelcup.h"
HEADERS = (".cu", ".cuh", ".h", ".hpp", ".cpp")
MAX_TEXT = 8 << 10
WITHOUT_GPU = "sm_90a"
"""What is compiled for where there is no GPU to ask."""
OWN_ARCHITECTURES = ("90", "100", "101", "103", "110", "120", "121")
"""Chips whose fastest instructions need a target of their own, with an ``a``."""
# gcc's own extensions stay on; what it prints is for a text without colours.
TO_GCC = ("-fPIC", "-fvisibility=hidden", "-fdiagnostics-color=never")
# All names are resolved when the library is linked, and none of the toolkit's can stand in for another library's.
TO_LINKER = ("-z", "defs", "-z", "now", "--exclude-libs", "ALL")
# `[=] __device__ (int i)`, or with a macro's name in capitals.
LAMBDA = re.compile(rb"\]\s*(?:__(?:host|device)__|[A-Z][A-Z_]+\s*\()")
HOST_FUNCTION = re.compile(r'^(?:extern\s+"C"\s+)?(?:void|int)\s+(\w+)\s*\(', re.MULTILINE)
MAY_PASS = re.compile(
    r"Killed|died due to signal|ran out of memory|out of memory|virtual memory exhausted|No space left|"
    r"Resource temporarily unavailable|internal compiler error|needs (nvcc|g\+\+), which this machine"
)
"""What a compiler says that failed for a reason that may not be there the next time: memory, room, a signal."""


def compiled(entry: Path, environ: Mapping[str, str]) -> Path:
    """Return the library of a file in the working folder, compiled now unless that was done.

    Raise :class:`NotCompiled`, also if it did not compile before.
    """
    folder = Path(environ[CUDA_FOLDER])
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / key(entry, environ)
    library, failure = place.with_suffix(".so"), place.with_suffix(".txt")
    if failure.exists():
        raise NotCompiled(failure.read_text(encoding="utf-8"))
    if not library.exists():
        try:
            compile_to(library, entry, environ)
        except NotCompiled as error:
            failure.write_text(str(error), encoding="utf-8")
            raise
    return library


def key(entry: Path, environ: Mapping[str, str]) -> str:
    """Return a name for the result: two submissions of a job may share the folder."""
    named = (CHECKED, options.OPTIONS, options.LEADERBOARD, options.PROGRAM, "TORCH_CUDA_ARCH_LIST")
    driver = driver_library.kind(environ)
    digest = hashlib.sha256(repr((str(entry), driver, *map(environ.get, named))).encode())
    for file in sources():
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def sources() -> list[Path]:
    """Return the files of the working folder that may be compiled."""
    return sorted(each for each in Path.cwd().rglob("*") if each.suffix in HEADERS and each.is_file())


def compile_to(library: Path, entry: Path, environ: Mapping[str, str]) -> None:
    """Compile and link. Raise :class:`NotCompiled` with the compiler's own words."""
    header = library.with_name(HEADER)
    write_header(header)
    made = library.with_suffix(".new")
    argv = command(entry, made, header, environ)
    done = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    # Only the linker needs it.
    header.with_name(driver_library.NAME).unlink(missing_ok=True)
    if done.returncode:
        raise NotCompiled(explained(done.stdout.decode(errors="replace"), entry, header, argv[0]))
    os.replace(made, library)


def write_header(header: Path) -> None:
    """Write the header of the C interface."""
    header.write_bytes(pkgutil.get_data(__package__, HEADER) or b"")


def command(entry: Path, library: Path, header: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the compiler's command line. Raise :class:`NotCompiled` without a compiler."""
    nvcc = find_nvcc(environ) if wants_nvcc(entry, environ) else None
    compiler = nvcc or host_compiler(environ)
    if compiler is None or (nvcc is None and wants_nvcc(entry, environ)):
        raise NotCompiled(trouble(entry, environ))
    asked = options.arguments(environ, nvcc=nvcc is not None)
    common = [*common_arguments(header, environ), *asked]
    files = [str(entry), *options.read(environ).sources]
    is_program = bool(environ.get(options.PROGRAM))
    if nvcc is None:
        shared = [] if is_program else ["-shared", *TO_GCC, "-Wl," + ",".join(TO_LINKER)]
        # A file that ends in .cuh is a header to g++.
        language = ["-x", "c++"] if entry.suffix in (".cu", ".cuh") else []
        return [compiler, *common, *shared, "-o", str(library), *language, *files]
    ours = ["-Xcompiler", ",".join(TO_GCC), "-Xlinker", ",".join(TO_LINKER)]
    shared = [] if is_program else ["-shared", *ours]
    named = libraries.arguments(environ)
    before = [
        *common,
        *named.compile,
        *relaxed(always=is_program),
        *for_target(architecture(environ)),
        *shared,
    ]
    link = [*named.link]
    if driver_library.is_called(sources(), environ):
        link += ["-Xlinker", str(driver_library.to_link(header.parent, environ))]
    return [compiler, *before, "-o", str(library), *language_of(entry), *files, *link]


def device_command(
    entry: Path, kind: list[str], target: str, made: Path, header: Path, environ: Mapping[str, str]
) -> list[str]:
    """Return the command that makes device code of a file. Raise :class:`NotCompiled` without nvcc."""
    nvcc = find_nvcc(environ)
    if nvcc is None:
        raise NotCompiled(trouble(entry, environ))
    asked = [*options.arguments(environ, nvcc=True), *libraries.arguments(environ).compile]
    before = [*kind, *common_arguments(header, environ), *asked, *relaxed(), *for_target(target)]
    return [nvcc, *before, "-o", str(made), *language_of(entry), str(entry)]


def common_arguments(header: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the arguments for each compiler."""
    return ["-std=c++20", "-O3", "-I", str(header.parent), "-I.", *interface(header, environ)]


def language_of(entry: Path) -> list[str]:
    """Return the arguments that name a file's language to nvcc."""
    return ["-x", "cu"] if entry.suffix in (".cu", ".cuh") else []


def for_target(target: str) -> list[str]:
    """Return nvcc's argument for one architecture: ``-arch=sm_90a`` would compile for ``compute_90`` as well."""
    return [f"-gencode=arch={target.replace('sm_', 'compute_')},code={target}"]


def relaxed(*, always: bool = False) -> list[str]:
    """Return nvcc's arguments for more of C++ on the device.

    Lambdas of the device cost as much time as the rest of a small file, so only files that have any pay for them.
    """
    lambdas = always or any(LAMBDA.search(file.read_bytes()) for file in sources())
    return ["--expt-relaxed-constexpr", *(["--extended-lambda"] if lambdas else [])]


def interface(header: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the arguments that bring the C interface in, on the side that the file is on; none for a program."""
    if environ.get(options.PROGRAM):
        return []
    side = environ.get(options.LEADERBOARD, "KC_SUBMISSION").split()
    launches = any(b"__global__" in file.read_bytes() for file in sources())
    wanted = {"KC_CHECKED": environ.get(CHECKED) and "KC_SUBMISSION" in side, "KC_LAUNCHES": launches}
    defines = [*side, *(name for name, is_wanted in wanted.items() if is_wanted)]
    return ["-include", str(header), *(f"-D{name}=1" for name in defines)]


def wants_nvcc(entry: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a file is compiled by nvcc: C++ for a machine without a GPU needs none."""
    return entry.suffix in (".cu", ".cuh") or environ.get("KERNELCUP_BACKEND") == "cuda"


def host_compiler(environ: Mapping[str, str]) -> str | None:
    """Return the C++ compiler, None without one."""
    return shutil.which("g++", path=environ.get("PATH"))


def trouble(entry: Path, environ: Mapping[str, str]) -> str:
    """Return why this machine cannot compile a file, empty if it can."""
    if wants_nvcc(entry, environ) and find_nvcc(environ) is None:
        how = "`pip install '.[cuda]'` in a copy of the project brings it"
        return f"{entry.name} needs nvcc, which this machine does not have; {how}"
    if host_compiler(environ) is None:
        return f"{entry.name} needs g++, which this machine does not have"
    return ""


def architecture(environ: Mapping[str, str]) -> str:
    """Return the real architecture to compile for: the device's, by the list that torch's compilers are given."""
    found = re.match(r"(\d+)\.(\d+)", environ.get("TORCH_CUDA_ARCH_LIST", ""))
    if found is None:
        return WITHOUT_GPU
    number = found[1] + found[2]
    return f"sm_{number}a" if number in OWN_ARCHITECTURES else f"sm_{number}"


def explained(text: str, entry: Path, header: Path, compiler: str) -> str:
    """Return a compiler's output for the author of a file: without our folders, one sentence where that says all."""
    text = text.replace(str(header), HEADER).replace(os.getcwd() + os.sep, "")
    text = re.sub(r"(?<![\w.])/tmp/[^\s:\"']*/", "", text)
    known = first_errors.find(text)
    if known is not None and known.is_all:
        return f"{entry.name} defines no function `{first_errors.C_FUNCTION}`{instead(entry)}"
    whole = f"{Path(compiler).name} did not compile {entry.name}:\n{text.strip()}"
    return whole if len(whole) <= MAX_TEXT else whole[: MAX_TEXT // 2] + "\n[...]\n" + whole[-MAX_TEXT // 2 :]


def instead(entry: Path) -> str:
    """Return which functions of the host a file defines, for its author."""
    found = HOST_FUNCTION.findall(entry.read_text(encoding="utf-8", errors="replace"))
    return f"; it defines {', '.join(found)}" if found else ""


def run_program(entry: str, *arguments: str) -> NoReturn:
    """Run the program of which ``entry`` is the file with ``main``."""
    try:
        program = compiled(Path(entry), os.environ)
    except NotCompiled as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NOT_COMPILED)
    os.execv(program, [str(Path(entry).with_suffix("")), *arguments])
