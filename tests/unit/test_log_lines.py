"""Anybody can make the web server log something: few lines of a kind come through, and the others are counted."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kernelcup.http.logs import ALIKE_S, MOST_ALIKE, MOST_TRACEBACKS, Fold

WEB = logging.getLogger("kernelcup.http.middleware")


class Lines(logging.Handler):
    """Keeps the lines that come through."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.said: list[str] = []
        self.addFilter(Fold(lambda: self.now))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.said.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Return the lines of all loggers."""
    handler, root = Lines(), logging.getLogger()
    level, root.level = root.level, logging.INFO
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    root.setLevel(level)


def request(client: str, status: int = 200) -> None:
    """Log a request as the middleware does, by structlog."""
    WEB.info({"event": "request", "client": client, "status": status})


def test_lines_of_one_address_are_counted_and_the_others_come_through(lines: Lines) -> None:
    for _ in range(MOST_ALIKE + 7):
        request("192.0.2.1")
    request("192.0.2.2")
    request("192.0.2.1", status=503)
    assert len(lines.said) == MOST_ALIKE + 2
    lines.now = ALIKE_S
    request("192.0.2.1")
    assert lines.said[-2] == "7 more lines within 10 s: ('request', 2, '192.0.2.1')"
    assert len(lines.said) == MOST_ALIKE + 4


def test_addresses_of_one_network_are_one(lines: Lines) -> None:
    for number in range(MOST_ALIKE + 7):
        request(f"2001:db8::{number:x}")
    assert len(lines.said) == MOST_ALIKE


def test_few_tracebacks_of_a_kind_come_through(lines: Lines) -> None:
    for number in range(MOST_TRACEBACKS + 7):
        logging.getLogger("uvicorn.error").error("ended: %s", number, exc_info=ValueError())
    assert len(lines.said) == MOST_TRACEBACKS


def test_what_the_web_server_does_not_say_is_not_counted(lines: Lines) -> None:
    for _ in range(MOST_ALIKE + 7):
        logging.getLogger("kernelcup.app.queue").info("a job has ended")
    assert len(lines.said) == MOST_ALIKE + 7
