"""The first schema, that of release 0.1.0: the SQL files beside this one, for each kind of database."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0100"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    connection = op.get_bind()
    schema = Path(__file__).with_suffix(f".{connection.dialect.name}.sql").read_text(encoding="utf-8")
    for statement in schema.split(";\n"):
        if statement:
            connection.exec_driver_sql(statement)
