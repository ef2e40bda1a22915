from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench_node import FOLDER
from ray_cluster import RayCluster

TESTS = Path(__file__).parents[1]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if find_spec("ray") is None:
        reason = "Ray is not installed: `make fleet` installs it and runs these tests"
        for item in items:
            if item.path.parent == TESTS / "fleet":
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def bench_folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="kc-") as folder:  # short: sockets lie below it
        bench = Path(folder) / "bench"
        bench.mkdir()
        yield bench


@pytest.fixture(scope="session")
def cluster(bench_folder: Path) -> Iterator[RayCluster]:
    """A head that judges nothing, and three nodes with a slot each."""
    path = ":".join([str(TESTS), str(TESTS / "fleet"), *sys.path])
    found = RayCluster(
        folder=bench_folder.parent / "c",
        devices={"head": {}, "n1": {"H100": 1}, "n2": {"H100": 1}, "n3": {"H100": 1}},
        environ={FOLDER: str(bench_folder), "PYTHONPATH": path},
    )
    try:
        found.start()
        yield found
    finally:
        found.stop()
