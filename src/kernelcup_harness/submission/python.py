"""Submissions in Python: a module with ``custom_kernel``."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from kernelcup_harness.isolation.job_environment import CUDA_MARKS
from kernelcup_harness.submission.port import Kernel, NotCompiled

# A submission with one of these words probably compiles something at import.
BUILD_MARKS = (*CUDA_MARKS, "triton.compile(")

MOST_NAMED = 5
"""So many functions are named to an author whose file lacks the right one."""


class Python:
    """Imports a submission."""

    name = "Python"
    runs_code = True

    def trouble(self, _entry: Path, _environ: Mapping[str, str]) -> str:
        """Return nothing: it needs what every machine has."""
        return ""

    def builds(self, source: str) -> bool:
        """Return whether a submission seems to compile something at import."""
        return any(mark in source for mark in BUILD_MARKS)

    def build(self, entry: Path) -> None:
        """Import it: what it compiles then stays in the folders of builds."""
        import_file(entry)

    def load(self, entry: Path) -> Kernel:
        """Import it and return its function."""
        module = import_file(entry)
        kernel = getattr(module, "custom_kernel", None)
        if not callable(kernel):
            raise NotCompiled(f"{entry} defines no function custom_kernel{instead(module)}")
        found: Kernel = kernel
        return found

    def preparing(self, entry: Path) -> Callable[..., Any] | None:
        """Return the function of that name."""
        found = getattr(sys.modules.get(entry.stem), "prepare", None)
        return found if callable(found) else None


def instead(module: ModuleType) -> str:
    """Return which functions and classes a module defines itself, for its author."""
    found = [
        name
        for name, value in vars(module).items()
        if isinstance(value, (FunctionType, type))
        and value.__module__ == module.__name__
        and not name.startswith("_")
    ]
    more = ", ..." if len(found) > MOST_NAMED else ""
    return (
        f"; it defines {', '.join(found[:MOST_NAMED])}{more}" if found else "; it defines no function at all"
    )


def import_file(path: Path) -> ModuleType:
    """Import a file as the module of its name, as ``import`` would."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
