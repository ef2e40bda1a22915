"""Notices of leaderboards; tokens that manage go on seeing all of their boards; what deleted submissions used."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0008"
branch_labels = None
depends_on = None

OLD_TARGET = "deleted submissions"
"""Of the entries of the audit log that said until now what deleted submissions had used."""


def upgrade() -> None:
    """Apply."""
    op.add_column("leaderboards", sa.Column("notice", sa.String(), server_default="", nullable=False))
    op.execute("UPDATE tokens SET scopes = scopes || ' inspect' WHERE scopes LIKE '%manage%'")
    uses = op.create_table(
        "deleted_uses",
        sa.Column("submission_id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("device", sa.String(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.Column("user_id", sa.Integer(), nullable=False),
        sa.Column("leaderboard_id", sa.Integer(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("submission_id", "device", name="pk_deleted_uses"),
    )
    counted = ["created_at", "is_first", "mode"]
    for columns in (["user_id", *counted], ["leaderboard_id", *counted], counted):
        op.create_index(f"ix_deleted_uses_{'_'.join(columns)}", "deleted_uses", columns, unique=False)
    found = op.get_bind().execute(
        sa.text("SELECT detail FROM audit WHERE target = :target"), {"target": OLD_TARGET}
    )
    rows = [row for (detail,) in found.all() for row in _rows(detail)]
    if rows:
        op.bulk_insert(uses, rows)


def _rows(detail: Any) -> list[dict[str, Any]]:
    spent = json.loads(detail) if isinstance(detail, str) else detail
    used = {each["device"]: each for each in spent["gpu"]}
    return [
        {
            "submission_id": spent["id"],
            "device": device,
            "is_first": number == 0,
            "user_id": spent["user_id"],
            "leaderboard_id": spent["board_id"],
            "mode": spent["mode"],
            "created_at": _moment(spent["created_at"]),
            "used_at": _moment(used[device]["at"]) if device in used else None,
            "seconds": used[device]["seconds"] if device in used else 0.0,
        }
        for number, device in enumerate(spent["devices"])
    ]


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text).astimezone(UTC)
    return moment if op.get_bind().dialect.name == "postgresql" else moment.replace(tzinfo=None)
