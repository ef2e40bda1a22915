"""CUDA C++ inside of Python, on the emulated device: compiled for the devices that are meant, and not run."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from kernelcup_harness.device.emulated import compilers
from kernelcup_harness.submission.cuda.compiling import MAX_TEXT
from kernelcup_harness.submission.cuda.libraries import find_nvcc
from kernelcup_harness.submission.port import NotCompiled

ONLY_COMPILED = "compiled, not run: no GPU here"
ARCHITECTURES = "9.0a;10.0a"
# A machine without a GPU may lack these: PyTorch's own for CUDA, the toolkit's libraries, and what builds on them.
LACKED = re.compile(
    r"fatal error: ((?:c10|ATen|torch|thrust|cub|cute|cutlass)/\S+|cu\w+\.h|nv\w+\.h): No such file"
)


def install() -> None:
    """Have the emulated device compile."""
    compilers.only_compile = only_compile


def only_compile(module: ModuleType, texts: Sequence[str], asked: Mapping[str, Any]) -> NoReturn:
    """Compile CUDA C++ for the devices that are meant. Raise what came of it, here and in later processes of the job.

    Raises:
        NotCompiled: A compiler refused it.
        ImportError: It was compiled, or this machine lacks what that needs.
    """
    nvcc = find_nvcc(os.environ)
    if nvcc is None:
        compilers.refuse(module, texts, asked)
    wanted = os.environ.get("TORCH_CUDA_ARCH_LIST") or ARCHITECTURES
    targets = [f"sm_{each.replace('.', '')}" for each in wanted.split(";")]
    flags = [
        *(asked.get("extra_cuda_cflags") or ()),
        *[f"-I{each}" for each in asked.get("extra_include_paths") or ()],
    ]
    folder = Path(os.environ.get("TORCH_EXTENSIONS_DIR") or tempfile.gettempdir(), "inline")
    folder.mkdir(parents=True, exist_ok=True)
    for text in texts:
        digest = hashlib.sha256(repr((text, targets, flags)).encode()).hexdigest()[:16]
        source = folder / f"cuda_{digest}.cu"
        said, done = source.with_suffix(".txt"), source.with_suffix(".done")
        if not done.exists():
            source.write_text(text, encoding="utf-8")
            said.write_text(compiled(module, nvcc, source, targets, flags), encoding="utf-8")
            done.touch()
        if errors := said.read_text(encoding="utf-8"):
            if lacked := LACKED.search(errors):
                where = "which this machine does not have, so nothing of it was checked"
                raise ImportError(f"the CUDA C++ could not be compiled here: it needs {lacked[1]}, {where}")
            raise NotCompiled(f"nvcc did not compile it:\n{errors}")
    raise ImportError(
        f"{ONLY_COMPILED} ({', '.join(targets)}); it was not linked, and its C++ sources were left out"
    )


def compiled(
    module: ModuleType, nvcc: str, source: Path, targets: Sequence[str], flags: Sequence[str]
) -> str:
    """Return what a compiler says of a file that it refuses, empty if it is compiled."""
    includes = [*module.include_paths(), sysconfig.get_paths()["include"]]
    argv = [
        os.environ.get("PYTORCH_NVCC") or nvcc,  # ours, with fewer headers, where the build step has put it
        *(word for each in includes for word in ("-isystem", each)),
        *vars(module)["COMMON_NVCC_FLAGS"],
    ]
    argv += [f"-gencode=arch={each.replace('sm_', 'compute_')},code={each}" for each in targets]
    argv += [
        "-DTORCH_EXTENSION_NAME=inline",
        "-DTORCH_API_INCLUDE_EXTENSION_H",
        "-std=c++20",
        "-Xcompiler",
        "-fPIC",
    ]
    argv += [*flags, "-c", str(source), "-o", str(source.with_suffix(".o"))]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    source.with_suffix(".o").unlink(missing_ok=True)
    text = (done.stdout + done.stderr).replace(str(source), "cuda.cu")[:MAX_TEXT]
    return (text or f"nvcc ended with {done.returncode}") if done.returncode else ""
