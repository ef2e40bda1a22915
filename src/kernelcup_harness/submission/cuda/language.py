"""CUDA C++ as a language of submissions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from kernelcup_harness.submission.cuda import compiling
from kernelcup_harness.submission.port import Kernel, NotCompiled


class Cuda:
    """Compiles a file into a library and calls it through its C interface."""

    name = "CUDA C++"
    runs_code = False

    def trouble(self, entry: Path, environ: Mapping[str, str]) -> str:
        """Return which compiler this machine lacks."""
        return compiling.trouble(entry, environ)

    def builds(self, _source: str) -> bool:
        """Always: nothing else can be called."""
        return True

    def build(self, entry: Path) -> None:
        """Compile it; what the compiler has to say about its faults is kept for :meth:`load`, and is a build too.

        Raise :class:`NotCompiled` if another attempt might compile it.
        """
        try:
            compiling.compiled(entry, os.environ)
        except NotCompiled as error:
            if compiling.MAY_PASS.search(str(error)):
                raise

    def load(self, entry: Path) -> Kernel:
        """Load the library."""
        # Needs torch, which a build does not.
        from kernelcup_harness.submission.cuda.library import CompiledKernel

        return CompiledKernel(compiling.compiled(entry, os.environ))

    def preparing(self, _entry: Path) -> None:
        """Return nothing: the interface has no such function."""
