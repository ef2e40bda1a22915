"""Which tests run in which lane: ``make test``, or ``make test-jobs`` after it.

Tests of these kinds wait for the second lane, unless they are marked as a ``sample``. They are marked when they are
collected, by what they reach:

``job``      starts the harness, by a function or a fixture of ``STARTS``
``browser``  has Chromium
``double``   repeats on PostgreSQL what runs on SQLite too

Properties (``fuzz``) are tried in both lanes: with an eighth of their examples in the first.

A test that starts the harness and is not marked fails, also where a copy of its process starts it. Threads are not
seen: one that an earlier test has left would make another fail.
"""

from __future__ import annotations

import functools
import mmap
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
from hypothesis import settings


class Lane(StrEnum):
    """Part of all tests."""

    TEST = "test"
    JOBS = "jobs"


TESTS = Path(__file__).parent
STARTS = {
    ("harness_runs", "run"): "job",
    ("harness_runs", "command"): "job",
    ("judging", "run_harness"): "job",
    ("warm_harness", "waiting"): "job",
    ("cup", "Cup"): "job",
    ("playwright.sync_api", "sync_playwright"): "browser",
}
"""What makes a test one of a kind, by module and name."""
JUDGE_NOTHING = frozenset({"--describe", "--counters", "--origins", "--lint", "--calibrate", "--compile"})
"""Options of the harness with which it runs no job."""
ON_POSTGRES = "postgresql"
EXAMPLES = 100
SHORTENED = 8


def set_length(lane: Lane | None) -> None:
    """Set how many examples a property is tried with. How long one takes depends on what else the machine does."""
    shortened = EXAMPLES // SHORTENED if lane is Lane.TEST else EXAMPLES
    settings.register_profile("kernelcup", deadline=None, max_examples=shortened)
    settings.load_profile("kernelcup")


def examples(count: int) -> int:
    """Return the number of examples for a property that wants ``count`` of them, in this lane."""
    return max(1, count * settings().max_examples // EXAMPLES)


def runs_in(lane: Lane, marks: frozenset[str]) -> bool:
    """Whether a test with these marks runs in a lane: each runs in one, properties in both."""
    waits = bool(marks & {"job", "browser", "double"}) and "sample" not in marks
    return not waits if lane is Lane.TEST else waits or "fuzz" in marks


def choose(items: list[pytest.Item], config: pytest.Config) -> None:
    """Mark tests by what they reach, and leave out those of the other lane."""
    mark(items)
    lane = config.getoption("lane")
    if lane is None:
        return
    marks = {item: frozenset(mark.name for mark in item.iter_markers()) for item in items}
    others = [item for item in items if not runs_in(lane, marks[item])]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if runs_in(lane, marks[item])]


def mark(items: Sequence[pytest.Item]) -> None:
    """Mark tests by what they reach."""
    names = {item.nodeid for item in items}
    for item in items:
        if item.path.parent == TESTS / "acceptance":  # commands, which judge in other processes
            item.add_marker("job")
        for kind in kinds_of(item):
            item.add_marker(kind)
        if ON_POSTGRES in item.nodeid and item.nodeid.replace(ON_POSTGRES, "sqlite") in names:
            item.add_marker("double")
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("fuzz")


def kinds_of(item: pytest.Item) -> frozenset[str]:
    """Return the kinds that a test's function and its fixtures make it."""
    if not isinstance(item, pytest.Function):
        return frozenset()
    definitions = item._fixtureinfo.name2fixturedefs.values()
    fixtures = (definition.func for found in definitions for definition in found)
    return frozenset().union(*map(reached, [item.function, *fixtures]))


@functools.cache
def reached(function: Any) -> frozenset[str]:
    """Return the kinds that a function of the tests makes what calls it."""
    kinds: set[str] = set()
    seen: set[Any] = set()
    waiting = [function]
    while waiting:
        each = waiting.pop()
        kind = STARTS.get((getattr(each, "__module__", ""), getattr(each, "__qualname__", "")))
        if kind is not None:
            kinds.add(kind)
        elif isinstance(each, FunctionType | type) and each not in seen and is_ours(each.__module__):
            seen.add(each)
            waiting += named_in(each) if isinstance(each, FunctionType) else parts_of(each)
    return frozenset(kinds)


@functools.cache
def is_ours(module: str) -> bool:
    """Whether a module is one of the tests'."""
    return TESTS in Path(getattr(sys.modules.get(module), "__file__", None) or "/").parents


def parts_of(kind: type) -> list[Any]:
    """Return the functions of a class."""
    return [getattr(part, "__wrapped__", part) for part in vars(kind).values()]


def named_in(function: FunctionType) -> Iterator[Any]:
    """Yield what the code of a function names: globals, and what those have by a name that stands there too."""
    function = getattr(function, "__wrapped__", function)
    names = set(code_names(function.__code__))
    for name in names & function.__globals__.keys():
        value = function.__globals__[name]
        yield getattr(value, "__wrapped__", value)
        if isinstance(value, ModuleType):
            yield from (getattr(value, part) for part in names if part in vars(value))


def code_names(code: CodeType) -> Iterator[str]:
    """Yield the names in a function's code, inner functions included."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from code_names(each)


class Watch:
    """Sees whether a test starts the harness, in a copy of its process too: the number of the test is shared."""

    def __init__(self) -> None:
        self._started = mmap.mmap(-1, 8)
        self._test = 1

    def begin(self, patch: pytest.MonkeyPatch) -> None:
        """Look at each process that is started from now on."""
        start = subprocess.Popen.__init__

        def seen(process: subprocess.Popen[Any], args: Any, *rest: Any, **options: Any) -> None:
            if is_a_job(args) and threading.current_thread() is threading.main_thread():
                # A copy that an earlier test has left knows its number.
                self._started[:] = self._test.to_bytes(8, "little")
            start(process, args, *rest, **options)

        patch.setattr(subprocess.Popen, "__init__", seen)

    def next(self) -> None:
        """Begin a test. What started the harness before is another's: tests of packages end without a check."""
        self._test += 1

    def check(self, item: Any) -> None:
        """Fail if a test has started the harness and is not marked."""
        started = int.from_bytes(self._started[:], "little") == self._test
        if started and item.get_closest_marker("job") is None:
            pytest.fail(
                f"{item.nodeid} starts the harness: mark it with `job`, or name what starts it in {__file__}"
            )


def is_a_job(args: Any) -> bool:
    """Whether a command line is the harness's, with something to judge."""
    if isinstance(args, str | bytes | Path):
        return False
    words = list(map(str, args))
    return "-m kernelcup_harness" in " ".join(words) and JUDGE_NOTHING.isdisjoint(words)
