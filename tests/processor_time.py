"""Processor time of each test with the processes that ended in it: ``--dearest 10`` prints the ten dearest.

A test of `make test` that takes more than a second says why in a mark, ``dear("...")``. Nothing fails for it: how
long a processor takes depends on the machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

MOST_S = 1.0
STARTED = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the number of tests to print."""
    parser.addoption("--dearest", type=int, default=0, help="print so many tests with the most processor time")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Note what was spent before a test."""
    item.stash[STARTED] = sum(os.times()[:4])
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Give each report what the test has spent so far: xdist carries it to the process that prints."""
    report = yield
    report.processor_s = sum(os.times()[:4]) - item.stash[STARTED]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the dearest tests, all they took, and those above a second that do not say why."""
    reports = [each for found in terminalreporter.stats.values() for each in found]
    ended = [each for each in reports if getattr(each, "when", "") == "teardown"]
    if (most := config.getoption("dearest")) == 0 or not ended:
        return
    ended.sort(key=lambda each: each.processor_s, reverse=True)
    terminalreporter.section(f"{len(ended)} tests, {sum(each.processor_s for each in ended):.0f} s of processor")
    for place, each in enumerate(ended):
        unsaid = each.processor_s > MOST_S and "dear" not in each.keywords
        if place < most or unsaid:
            note = "  (no mark `dear` says why)" if unsaid else ""
            terminalreporter.write_line(f"{each.processor_s:6.1f} s  {each.nodeid}{note}")
