"""Processor time of each test with the processes that it has started: ``--dearest 10`` prints the ten dearest.

A test of `make test` that takes more than a second says why in a mark, ``dear("...")``, unless it is the first of its
worker that needs a process with torch, which all others share. Nothing fails for it: how long a processor takes depends
on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

MOST_S = 1.0
TICKS = os.sysconf("SC_CLK_TCK")
STARTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the number of tests to print."""
    parser.addoption(
        "--dearest", type=int, default=0, help="print so many tests with the most processor time"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what was spent before a test."""
    item.stash[STARTED] = spent_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Give each report what the test has spent so far: xdist carries it to the process that prints."""
    report = yield
    report.processor_s = spent_s() - item.stash[STARTED]
    return report


def spent_s() -> float:
    """Return the seconds of this process and of all that it has started, also of what still runs."""
    return sum(os.times()[:4]) + sum(map(running_s, children(os.getpid())))


def running_s(pid: int) -> float:
    """Return the seconds of a process and of all that it has started; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / TICKS + sum(map(running_s, children(pid)))


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that still run."""
    try:
        lists = [each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for each in lists for child in each.split()]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the dearest tests, all they took, and those above a second that do not say why."""
    reports = [each for found in terminalreporter.stats.values() for each in found]
    ended = [each for each in reports if getattr(each, "when", "") == "teardown"]
    if (most := config.getoption("dearest")) == 0 or not ended:
        return
    ended.sort(key=lambda each: each.processor_s, reverse=True)
    terminalreporter.section(
        f"{len(ended)} tests, {sum(each.processor_s for each in ended):.0f} s of processor"
    )
    for place, each in enumerate(ended):
        unsaid = each.processor_s > MOST_S and "dear" not in each.keywords
        if place < most or unsaid:
            note = "  (no mark `dear` says why)" if unsaid else ""
            terminalreporter.write_line(f"{each.processor_s:6.1f} s  {each.nodeid}{note}")
