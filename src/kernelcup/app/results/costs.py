"""What leaderboards have cost."""

from __future__ import annotations

from collections.abc import Iterable

from kernelcup.app import access
from kernelcup.app.results.queries import run_costs
from kernelcup.domain import Actor, Leaderboard
from kernelcup.engine import Database


def costs(db: Database, boards: Iterable[Leaderboard], actor: Actor) -> dict[str, float]:
    """Return what the runs of those leaderboards cost that the actor manages, by their names."""
    with db.read() as session:
        mine = [each for each in boards if access.manages_board(actor, each)]
        return {each.name: run_costs.of_board(session, each.id) for each in mine}
