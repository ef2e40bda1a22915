"""Logging of the service: one JSON object for each line, or lines for a person at a terminal."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable
from itertools import takewhile

import structlog

from kernelcup.http.capacity import network_of

ALIKE_S = 10.0
MOST_ALIKE = 50
MOST_TRACEBACKS = 5
"""Lines of one kind in these seconds."""

logger = logging.getLogger(__name__)

_CHAIN: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


class Fold(logging.Filter):
    """Lets few lines of a kind through in some seconds, then one that counts the others.

    Of what the web server says only: anybody can make it say something, as often as connections allow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._lock = threading.RLock()
        self._kinds: dict[Hashable, tuple[float, int, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a line is one of the first of its kind."""
        if not record.name.startswith(("kernelcup.http", "uvicorn")):
            return True
        kind: Hashable = record.name, str(record.msg)
        if isinstance(record.msg, dict):
            said = record.msg
            kind = said.get("event"), said.get("status", 0) // 100, network_of(said.get("client") or "")
        with self._lock:
            now = self._clock()
            old = list(takewhile(lambda kind: now - self._kinds[kind][0] >= ALIKE_S, self._kinds))
            for was, more in [(was, self._kinds.pop(was)[2]) for was in old]:
                if more:
                    logger.info("%d more lines within %g s: %s", more, ALIKE_S, was)
            since, times, more = self._kinds.get(kind, (now, 0, 0))
            is_shown = times < (MOST_TRACEBACKS if record.exc_info else MOST_ALIKE)
            self._kinds[kind] = since, times + 1, more + (not is_shown)
        return is_shown


def set_up(*, as_json: bool, level: int = logging.INFO) -> None:
    """Send structlog's and the standard library's records through one form to standard error."""
    # structlog's own pretty tracebacks show local variables, secrets among them, and take seconds each.
    plain = structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    renderer: structlog.types.Processor = structlog.processors.JSONRenderer() if as_json else plain
    last: list[structlog.types.Processor] = [structlog.stdlib.ProcessorFormatter.remove_processors_meta]
    if as_json:
        last.append(structlog.processors.format_exc_info)
    formatter = structlog.stdlib.ProcessorFormatter(foreign_pre_chain=_CHAIN, processors=[*last, renderer])
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(formatter)
    handler.addFilter(Fold())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    for noisy in ("httpx", "alembic", "sse_starlette"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*_CHAIN, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
