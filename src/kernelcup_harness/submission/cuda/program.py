"""Becomes a compiled harness of a task's own: it runs in the sandbox of the submission, which is part of it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

from kernelcup_harness.submission.cuda import compiling
from kernelcup_harness.submission.port import NotCompiled

NOT_COMPILED = 109
"""The exit code if it does not compile; standard error has the compiler's words."""


def main(entry: str, *arguments: str) -> NoReturn:
    """Run the program of which ``entry`` is the file with ``main``."""
    try:
        program = compiling.compiled(Path(entry), os.environ)
    except NotCompiled as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(NOT_COMPILED)
    os.execv(program, [str(Path(entry).with_suffix("")), *arguments])
