"""Results of the audited clock of GPUs stand apart; boards that required audited times require replayed ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from kernelcup.storage.engine.columns import UtcDateTime

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

OLD = "gpu 1"
BEHIND = ("tied", "lost", "missed")

RUNS = sa.table("runs", *map(sa.column, ("id", "duel", "clock")))
WHOSE = ("leaderboard_id", "device", "user_id", "run_id", "submission_id")
KEPT = (*WHOSE, "score_s", "low_s", "high_s", "raw_s", "duel")
BESTS = sa.table("bests", *map(sa.column, KEPT))
FROZEN = sa.table("frozen_bests", *map(sa.column, KEPT))
OLDER = sa.table("older_bests", *map(sa.column, (*WHOSE, "ranked_s")))
BOARDS = sa.table(
    "leaderboards",
    *map(sa.column, ("id", "name", "trust")),
    *(sa.column(name, UtcDateTime()) for name in ("freeze_at", "frozen_at")),
)
AUDIT = sa.table(
    "audit",
    *map(sa.column, ("actor", "action", "target")),
    sa.column("at", UtcDateTime()),
    sa.column("detail", sa.JSON()),
)


def upgrade() -> None:
    """Apply."""
    for table in ("runs", "bests", "frozen_bests"):
        op.drop_column(table, "at_floor")
    change(op.get_bind(), datetime.now(UTC))


def change(connection: sa.Connection, now: datetime) -> None:
    """Set older results apart, let boards require replayed times, and tell each leaderboard's log."""
    moved = set_apart(connection, now)
    boards = sa.select(BOARDS.c.id, BOARDS.c.name, BOARDS.c.trust).order_by(BOARDS.c.id)
    for board_id, name, trust in connection.execute(boards).all():
        told: dict[str, object] = {"trust": ["audited", "replayed"]} if trust == "audited" else {}
        if board_id in moved:
            told |= {
                "set_apart": moved[board_id],
                "duels_ended": _duels(connection, moved[board_id], board_id),
                "rejudge": f"kernelcup admin rejudge {name} --only-best",
            }
        if told:
            entry = {"actor": "upgrade", "action": "board.older_clock", "target": f"board:{name}", "at": now}
            connection.execute(sa.insert(AUDIT).values(**entry, detail=told))
    connection.execute(sa.update(BOARDS).where(BOARDS.c.trust == "audited").values(trust="replayed"))


def set_apart(connection: sa.Connection, now: datetime) -> Mapping[int, dict[str, int]]:
    """Move bests that an older clock timed, and return how many each leaderboard had on each device."""
    old = sa.select(RUNS.c.id).where(RUNS.c.clock == OLD)
    count = sa.select(BESTS.c.leaderboard_id, BESTS.c.device, sa.func.count())
    groups = count.where(BESTS.c.run_id.in_(old)).group_by(BESTS.c.leaderboard_id, BESTS.c.device)
    moved: dict[int, dict[str, int]] = defaultdict(dict)
    for board_id, device, entries in connection.execute(groups.order_by(BESTS.c.device)):
        moved[board_id][device] = entries
    due = sa.select(BOARDS.c.id).where(BOARDS.c.freeze_at <= now, BOARDS.c.frozen_at.is_(None))
    for board_id in connection.execute(due.where(BOARDS.c.id.in_(list(moved)))).scalars().all():
        # What is frozen is shown as it stood: it is copied before it changes.
        stood = sa.select(*(BESTS.c[name] for name in KEPT)).where(BESTS.c.leaderboard_id == board_id)
        connection.execute(sa.delete(FROZEN).where(FROZEN.c.leaderboard_id == board_id))
        connection.execute(sa.insert(FROZEN).from_select(list(KEPT), stood))
        connection.execute(sa.update(BOARDS).where(BOARDS.c.id == board_id).values(frozen_at=now))
    # Of two older results of a user, from a device that had no GPU before, the newer clock's stays.
    same = sa.and_(*(BESTS.c[name] == OLDER.c[name] for name in ("leaderboard_id", "device", "user_id")))
    connection.execute(sa.delete(OLDER).where(sa.exists().where(same, BESTS.c.run_id.in_(old))))
    kept = sa.select(*(BESTS.c[name] for name in (*WHOSE, "score_s"))).where(BESTS.c.run_id.in_(old))
    connection.execute(sa.insert(OLDER).from_select([*WHOSE, "ranked_s"], kept))
    connection.execute(sa.delete(BESTS).where(BESTS.c.run_id.in_(old)))
    return moved


def _duels(connection: sa.Connection, devices: Mapping[str, int], board_id: int) -> int:
    """Return how many results of a leaderboard stood behind another by a duel under the older clock."""
    whose = (OLDER.c.leaderboard_id == board_id, OLDER.c.device.in_(list(devices)))
    stood = sa.select(OLDER.c.run_id).where(*whose)
    count = sa.select(sa.func.count()).select_from(RUNS)
    return connection.execute(count.where(RUNS.c.id.in_(stood), RUNS.c.duel.in_(BEHIND))).scalar() or 0
