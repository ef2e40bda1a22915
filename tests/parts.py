"""A part of all tests: ``--part 3/8`` keeps the fourth of eight, which together have each test once.

``--also WORD`` keeps the tests with this word in their names as well, whichever part they are in.
"""

from __future__ import annotations

from zlib import crc32

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the part."""
    parser.addoption("--part", metavar="K/N", type=part, help="run only tests of part K of N, from 0 on")
    parser.addoption("--also", action="append", default=[], help="run tests with this in their names, too")


def part(text: str) -> tuple[int, int]:
    """Read the number of a part and of all parts. Raise ``ValueError`` where there is no such part."""
    number, count = map(int, text.split("/"))
    if not 0 <= number < count:
        raise ValueError(text)
    return number, count


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    """Leave out the tests of other parts."""
    if config.getoption("part") is None:
        return
    (number, count), also = config.getoption("part"), config.getoption("also")
    chosen = {
        item
        for item in items
        if crc32(item.nodeid.encode()) % count == number or any(word in item.nodeid for word in also)
    }
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
