"""Fill a database with the code of 7def2fc, which `scripts/old-database` puts on the path.

What needs no GPU is judged for real; what one would say of a GPU, and duels, are told by hand.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from builders import NOW, make_board, make_report, make_submission, make_task
from fakes import FakeClock
from kernelcup.domain import OPERATOR, Leaderboard, TrustRule
from kernelcup.services.queue import lifecycle
from kernelcup.services.results import duels
from kernelcup.services.results.standings import freeze
from kernelcup.storage.engine import migrate
from kernelcup.storage.engine.database import Database
from kernelcup_harness.protocol import Backend, DuelResult, HarnessKind, TrustLevel

REFERENCE = """\
import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data * 2


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> str:
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""
SUBMISSION = "def custom_kernel(data):\n    return data * 2\n"
TIED = DuelResult(ratio=1.0, low=0.99, high=1.01, verdict="tied", blocks=20)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
"""A freeze that began then is in force whenever the upgrade comes, and nothing was copied for it yet."""
BACKENDS = {"cpu": Backend.CPU, "box": Backend.CPU, "emulated": Backend.EMULATED, "H100": Backend.CUDA}


class Old:
    """A database of the older version, and what happens in it."""

    def __init__(self, db: Database) -> None:
        self._db, self._clock = db, FakeClock()

    def enter(self, board: Leaderboard, device: str, user: str, time_ns: float, **facts: Any) -> None:
        """Submit to a leaderboard and judge it, against whom it wants it to meet."""
        self._clock.advance(60)
        values = {"board": board.name, "devices": [device], "user": user, "now": self._clock()}
        submission = make_submission(self._db, **values)
        lease = lifecycle.claim_next(self._db, owner="me", lease_s=60.0, devices=[device], now=self._clock())
        assert lease is not None
        with self._db.read() as session:
            rival = duels.find_rival(session, lease.job, submission, board)
        duel = TIED if rival is not None else None
        report = make_report([time_ns], backend=BACKENDS[device], duel=duel, **facts)
        self._clock.advance(3)
        lifecycle.finish(
            self._db,
            lease,
            report=report,
            harness_hash="",
            machine="box",
            now=self._clock(),
            rival=None if rival is None else rival.submission_id,
        )


def fill(db: Database) -> None:
    """Make leaderboards and their results."""
    old = Old(db)
    strict = make_board(db, name="strict", devices=["cpu"], trust=TrustRule.AUDITED, duel=True)
    old.enter(strict, "cpu", "ada", 1000.0)
    old.enter(strict, "cpu", "bob", 900.0)
    old.enter(strict, "cpu", "cyd", 100.0, trust=TrustLevel.BOUNDED)
    make_board(db, name="empty", devices=["cpu"], trust=TrustRule.AUDITED)
    named = make_board(db, name="named", devices=["box"], trust=TrustRule.AUDITED)
    old.enter(named, "box", "ada", 1000.0)
    mixed = make_board(db, name="mixed", devices=["H100", "cpu"], trust=TrustRule.AUDITED)
    for device, time_ns in (("H100", 1000.0), ("cpu", 5000.0)):
        old.enter(mixed, device, "ada", time_ns)
    loose = make_board(db, name="loose", devices=["H100", "cpu", "emulated"])
    for device in loose.devices:
        old.enter(loose, device, "ada", 1000.0)
        old.enter(loose, device, "bob", 2000.0)
        old.enter(loose, device, "bob", 500.0, trust=TrustLevel.BOUNDED)
    main = make_task(main="eval.py")
    own = make_board(db, name="own", devices=["cpu"], task=main, harness=HarnessKind.OWN)
    old.enter(own, "cpu", "ada", 1000.0, harness=HarnessKind.OWN, trust=TrustLevel.SELF_MEASURED)
    frozen = make_board(db, name="frozen", devices=["cpu"])
    old.enter(frozen, "cpu", "ada", 1000.0)
    freeze(db, OPERATOR, "frozen", LONG_AGO + timedelta(days=1), LONG_AGO)
    task = make_task(name="real", sources={"reference.py": REFERENCE})
    make_board(db, name="real", devices=["cpu", "emulated"], task=task)
    waits = make_board(db, name="waits", devices=["box"], duel=True)
    old.enter(waits, "box", "ada", 1000.0)


def judge(url: str) -> None:
    """Have the older version judge two submissions on the processor."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "kernel.py")
        file.write_text(SUBMISSION, encoding="utf-8")
        environ = os.environ | {"KERNELCUP_DATABASE": url, "KERNELCUP_HOME": folder}
        Path(folder, "kernelcup.toml").write_text("[sandbox]\nrequired = false\n", encoding="utf-8")
        command = [sys.executable, "-m", "kernelcup", "submit", str(file), "--local", "--board", "real"]
        for user in ("ada", "bob"):
            options = ["--device", "cpu", "--device", "emulated", "--user", user]
            subprocess.run([*command, *options], env=environ, check=True)


def main(url: str) -> None:
    """Make the tables and fill them."""
    with Database.open(url) as db:
        migrate.upgrade(db)
        fill(db)
    judge(url)  # all that waits
    with Database.open(url) as db:
        make_submission(db, board="waits", devices=["box"], user="bob", now=NOW)


if __name__ == "__main__":
    main(sys.argv[1])
