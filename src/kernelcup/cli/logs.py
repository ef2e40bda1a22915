"""Log records of the lower layers as lines for people."""

from __future__ import annotations

import functools
import logging
import sys
from types import TracebackType

from kernelcup.cli.failures import write_crash
from kernelcup.cli.show.output import plain
from kernelcup.errors import KernelCupError


class OneLine(logging.Formatter):
    """One line for each record. Tracebacks go to a file, and only for bugs."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s: %(message)s")

    def formatException(  # noqa: N802 (the name is logging's)
        self,
        info: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        """Return an exception's type and message."""
        error = info[1]
        if error is None or isinstance(error, (KernelCupError, OSError)):
            return str(error)
        return f"{type(error).__name__}: {error} (details: {write_crash(error)})"

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None
        return plain(super().format(record)).replace("\n", ": ", 1)


@functools.cache
def warn_once(text: str) -> None:
    """Print a warning on standard error, unless this process has printed it before."""
    sys.stderr.write(plain(f"warning: {text}\n"))


def set_up() -> None:
    """Show warnings and errors on standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
