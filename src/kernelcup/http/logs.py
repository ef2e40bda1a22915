"""Logging of the service: one JSON object for each line, or lines for a person at a terminal."""

from __future__ import annotations

import logging
import sys

import structlog

_CHAIN: list[structlog.types.Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


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
