"""Results of a clock that is out of use stand apart, and boards require no level that no clock gives any more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime

import sqlalchemy as sa
from alembic import op

from kernelcup.storage.engine.columns import UtcDateTime

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

OLD, NEW, GPU, OWN = "no gpu 1", "no gpu 2", "gpu 1", "own"
SHIPPED = ("cpu", "emulated")
"""Devices without a GPU that every machine has: they need no run to be known as such."""

RUNS = sa.table(
    "runs",
    *map(sa.column, ("id", "job_id", "counted", "score_s", "trust", "duel", "clock")),
    sa.column("report", sa.JSON()),
)
JOBS = sa.table("jobs", *map(sa.column, ("id", "submission_id", "device")))
WHOSE = ("leaderboard_id", "device", "user_id", "run_id", "submission_id")
KEPT = (*WHOSE, "score_s", "low_s", "high_s", "raw_s", "at_floor", "duel")
BESTS = sa.table("bests", *map(sa.column, KEPT))
FROZEN = sa.table("frozen_bests", *map(sa.column, KEPT))
OLDER = sa.table("older_bests", *map(sa.column, (*WHOSE, "ranked_s")))
BOARDS = sa.table(
    "leaderboards",
    *map(sa.column, ("id", "name", "trust", "notice")),
    *(sa.column(name, UtcDateTime()) for name in ("freeze_at", "frozen_at")),
)
DEVICES = sa.table("leaderboard_devices", *map(sa.column, ("leaderboard_id", "device", "position")))
AUDIT = sa.table(
    "audit",
    *map(sa.column, ("actor", "action", "target")),
    sa.column("at", UtcDateTime()),
    sa.column("detail", sa.JSON()),
)
BEHIND = ("tied", "lost", "missed")


def upgrade() -> None:
    """Apply."""
    op.add_column("runs", sa.Column("clock", sa.String(), nullable=False, server_default=""))
    op.create_table(
        "older_bests",
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("run_id", sa.Integer(), nullable=False),
        sa.Column("submission_id", sa.Integer(), nullable=False),
        sa.Column("ranked_s", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["leaderboard_id"],
            ["leaderboards.id"],
            name="fk_older_bests_leaderboard_id_leaderboards",
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name="fk_older_bests_run_id_runs", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name="fk_older_bests_user_id_users"),
        sa.PrimaryKeyConstraint("leaderboard_id", "device", "user_id", name="pk_older_bests"),
    )
    key = ["leaderboard_id", "device", "ranked_s", "submission_id"]
    op.create_index(f"ix_older_bests_{'_'.join(key)}", "older_bests", key)
    for column in ("run_id", "user_id"):
        op.create_index(f"ix_older_bests_{column}", "older_bests", [column])
    fill(op.get_bind(), datetime.now(UTC))


def fill(connection: sa.Connection, now: datetime) -> None:
    """Say of each run by which clock it was timed, set older results apart, and tell each leaderboard's log."""
    its = RUNS.c.report
    clock = sa.case(
        (its["harness"].as_string() == "own", OWN),
        (its["backend"].as_string() == "cuda", GPU),
        (RUNS.c.trust == "wall clock", NEW),
        else_=OLD,
    )
    connection.execute(sa.update(RUNS).values(clock=clock))
    without_gpu = _without_gpu(connection)
    moved = set_apart(connection, now)
    boards = sa.select(BOARDS.c.id, BOARDS.c.name, BOARDS.c.trust).order_by(BOARDS.c.id)
    for board_id, name, trust in connection.execute(boards).all():
        told = _mapped(connection, board_id, without_gpu, now) if trust == "audited" else {}
        if board_id in moved:
            told |= {
                "set_apart": moved[board_id],
                "duels_ended": _duels(connection, board_id),
                "rejudge": f"kernelcup admin rejudge {name} --only-best",
            }
        if told:
            entry = {"actor": "upgrade", "action": "board.older_clock", "target": f"board:{name}", "at": now}
            connection.execute(sa.insert(AUDIT).values(**entry, detail=told))


def _without_gpu(connection: sa.Connection) -> Mapping[int, list[str]]:
    """Return the devices without a GPU of each leaderboard, as runs and their names tell."""
    seen = sa.select(JOBS.c.device, RUNS.c.clock).join(RUNS, RUNS.c.job_id == JOBS.c.id).distinct()
    clocks = defaultdict(set)
    for device, clock in connection.execute(seen):
        clocks[device].add(clock)
    found = defaultdict(list)
    for board_id, device in connection.execute(
        sa.select(DEVICES.c.leaderboard_id, DEVICES.c.device).order_by(DEVICES.c.position)
    ):
        its = clocks[device] or ({OLD} if device.lower() in SHIPPED else set())
        if its & {OLD, NEW} and GPU not in its:
            found[board_id].append(device)
    return found


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
    kept = sa.select(*(BESTS.c[name] for name in (*WHOSE, "score_s"))).where(BESTS.c.run_id.in_(old))
    connection.execute(sa.insert(OLDER).from_select([*WHOSE, "ranked_s"], kept))
    connection.execute(sa.delete(BESTS).where(BESTS.c.run_id.in_(old)))
    return moved


def _mapped(
    connection: sa.Connection, board_id: int, without_gpu: Mapping[int, list[str]], now: datetime
) -> dict[str, object]:
    """Let a leaderboard rank all times where none of its devices has audited ones any more; say so.

    With a GPU beside them it keeps what it requires there, and its log tells what ranks no more.
    """
    names = without_gpu.get(board_id, [])
    if not names:
        return {}
    devices = sa.select(sa.func.count()).select_from(DEVICES).where(DEVICES.c.leaderboard_id == board_id)
    if len(names) < (connection.execute(devices).scalar() or 0):
        return {
            "trust": ["audited", "audited"],
            "unranked": f"times on {', '.join(names)} are by the wall clock, and only audited ones rank here; "
            "take these devices out, or let all times rank: kernelcup board update",
        }
    notice = (
        f"Until {now:%Y-%m-%d} only audited times ranked here. Times on {', '.join(names)} are by the wall clock "
        "since, and all of them rank."
    )
    told = sa.func.trim(BOARDS.c.notice + " " + notice)
    connection.execute(sa.update(BOARDS).where(BOARDS.c.id == board_id).values(trust="any", notice=told))
    return {"trust": ["audited", "any"]}


def _duels(connection: sa.Connection, board_id: int) -> int:
    """Return how many results of a leaderboard stood behind another by a duel under the older clock."""
    stood = sa.select(OLDER.c.run_id).where(OLDER.c.leaderboard_id == board_id)
    count = sa.select(sa.func.count()).select_from(RUNS)
    return connection.execute(count.where(RUNS.c.id.in_(stood), RUNS.c.duel.in_(BEHIND))).scalar() or 0
