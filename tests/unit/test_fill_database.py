"""The database that speeds are measured with is one in which results rank."""

from __future__ import annotations

import sys
from pathlib import Path

from kernelcup.app.results.standings import standings
from kernelcup.engine.database import Database

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_a_filled_database_has_rankings_and_a_queue(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)
    import fill_database

    with Database.open(f"sqlite:///{tmp_path / 'filled.db'}") as db:
        fill_database.fill(db, submissions=300, queued=20, boards=2, users=40)
        for board in ("board-0", "board-1"):
            assert {place.rank for place in standings(db, board, "H100")} > {1, 2}
    sys.modules.pop("fill_database")
