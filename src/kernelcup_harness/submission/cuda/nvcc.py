"""Finds NVIDIA's compiler."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path


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
