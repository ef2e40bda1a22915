"""A database is copied row by row, to the other kind and back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from builders import NOW, SUBMISSION, make_board, make_submission
from kernelcup.app.boards.boards import list_boards
from kernelcup.app.submissions.submissions import get_code, list_views
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR
from kernelcup.engine import copying
from kernelcup.engine.columns import UtcDateTime
from kernelcup.engine.copying import copy
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict, InvalidValue
from kernelcup.tables import Base, SubmissionRow, table_of

TABLES = Base.metadata.sorted_tables
LAST_MICROSECOND = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
LONG = f"{SUBMISSION}# {'x' * 1000}"
ODD_TEXTS = ("ä é \u202e 名 🚀 '\"\\ %s :x", "", "z", "Z", "ß", "-")
ODD_JSON = {
    "": None,
    "big": 2**70,
    "small": 5e-324,
    "tiny": 0.1 + 0.2,
    "🚀": ["\u2028", True, {}],
    "same": "1e5",
}


@pytest.fixture
def target(empty_url: str, tmp_path: Path) -> Iterator[Database]:
    """A database without tables, of each kind."""
    if empty_url.startswith("sqlite"):
        empty_url = f"sqlite:///{tmp_path / 'target.db'}"
    with Database.open(empty_url) as database:
        yield database


def fill(db: Database) -> None:
    """Write at least two odd rows into every table."""
    values: dict[tuple[str, str], list[Any]] = {}
    with db.write() as session:
        for table in TABLES:
            rows = [odd_row(table, number, values) for number in range(2)]
            session.execute(table.insert(), rows)
            for column in table.c:
                values[table.name, column.name] = [row[column.name] for row in rows]
        # Beside Python's None, which SQLAlchemy stores as JSON: no value at all, and JSON in another spelling.
        session.execute(sa.text("UPDATE submissions SET profile = NULL WHERE id = 2"))
        session.execute(sa.text("""UPDATE code SET files = '{"a" : 1.50,  "b" : "\\u00e9"}'"""))


def odd_row(table: sa.Table, number: int, values: dict[tuple[str, str], list[Any]]) -> dict[str, Any]:
    return {column.name: odd_value(column, number, values) for column in table.c}


def odd_value(column: sa.Column[Any], number: int, values: dict[tuple[str, str], list[Any]]) -> Any:
    """Return a value at the edge of what a column holds, another one for each row."""
    (target, *_) = [each.column for each in column.foreign_keys] or [None]
    if target is not None and target.table is column.table:
        return number or None  # the second row refers to the first
    if target is not None:
        return values[target.table.name, target.name][number]
    if column.nullable and number:
        return None
    kind = column.type
    if isinstance(kind, sa.JSON):
        return ODD_JSON if number else {"large": "x" * 2_000_000} if column.name == "report" else None
    if isinstance(kind, sa.Boolean):
        return bool(number)
    if isinstance(kind, sa.BigInteger):
        return (2**63 - 1, -(2**63))[number]
    if isinstance(kind, sa.Integer):
        return number + 1 if column.primary_key else (2**31 - 1, -(2**31))[number]
    if isinstance(kind, sa.Float):
        return (0.1 + 0.2, 5e-324)[number]
    if isinstance(kind, UtcDateTime):
        return (LAST_MICROSECOND, datetime(1, 1, 1, microsecond=1, tzinfo=UTC))[number]
    return f"{ODD_TEXTS[number]}{column.name}"


def test_odd_rows_of_all_tables_are_equal_on_both_sides(db: Database, target: Database) -> None:
    fill(db)
    found = copy(db, target, TABLES)
    assert {each.table: each.rows for each in found} == {table.name: 2 for table in TABLES}
    assert written(target) == written(db)


@pytest.mark.jobs
def test_a_copy_of_the_copy_has_the_same_hashes(db: Database, target: Database, tmp_path: Path) -> None:
    fill(db)
    there = copy(db, target, TABLES)
    with Database.open(f"sqlite:///{tmp_path / 'back.db'}") as back:
        assert copy(target, back, TABLES) == there
        assert written(back) == written(db)


def written(db: Database) -> dict[str, Any]:
    """Return what stands in the columns that one kind of database could change, as it is written."""
    profile, files = "CAST(profile AS TEXT)", "CAST(files AS TEXT)"
    with db.read() as session:
        return {
            "profile": session.scalars(sa.text(f"SELECT {profile} FROM submissions ORDER BY id")).all(),
            "files": session.scalars(sa.text(f"SELECT {files} FROM code ORDER BY hash")).all(),
            "large": session.scalar(sa.text("SELECT LENGTH(CAST(report AS TEXT)) FROM runs WHERE id = 1")),
        }


def test_a_copied_competition_goes_on(db: Database, target: Database) -> None:
    make_board(db)
    for _ in range(3):
        make_submission(db)
    delete_submission(db, 3, by=OPERATOR, now=NOW)
    copy(db, target, TABLES)
    assert [board.name for board in list_boards(target)] == ["double"]
    assert [each.id for each in list_views(target)] == [2, 1]
    assert get_code(target, 1) == get_code(db, 1)
    assert make_submission(target).id == 4  # the number of a deleted submission is not given again
    assert make_board(target, name="second").id == 2


def test_a_target_with_rows_is_refused(db: Database, target: Database) -> None:
    make_board(db)
    copy(db, target, TABLES)
    with pytest.raises(Conflict, match=r"is not empty: table \w+ has rows"):
        copy(db, target, TABLES)
    with pytest.raises(Conflict, match="is not empty"):
        copy(db, db, TABLES)


def test_a_target_that_is_somebody_elses_is_refused(db: Database, target: Database) -> None:
    with target.write() as session:
        session.execute(sa.text("CREATE TABLE theirs (x INTEGER)"))
        session.execute(sa.text("INSERT INTO theirs VALUES (1)"))
    with pytest.raises(Conflict, match="table theirs has rows"):
        copy(db, target, TABLES)
    with target.read() as session:
        assert sa.inspect(session.connection()).get_table_names() == ["theirs"]


def test_a_row_that_differs_undoes_the_copy(
    db: Database, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_board(db)
    make_submission(db, content=LONG.encode())
    usual = copying._fill

    def spoil(origin: Any, session: Any, table: sa.Table) -> None:
        usual(origin, session, table)
        if table.name == "code":
            session.execute(sa.update(table).values(files={"": f"{LONG}!"}))

    monkeypatch.setattr(copying, "_fill", spoil)
    with pytest.raises(
        Conflict, match=r"Table code: the row with \{'hash': '\w+'\} differs; nothing was copied"
    ):
        copy(db, target, TABLES)
    assert count(target, "users") == 0


def test_a_value_that_the_target_cannot_hold_names_its_table(db: Database, target: Database) -> None:
    if (db.engine.dialect.name, target.engine.dialect.name) != ("sqlite", "postgresql"):
        pytest.skip("SQLite holds what PostgreSQL refuses")
    make_board(db, max_file_bytes=1000)
    with db.write() as session:
        session.execute(sa.text("UPDATE leaderboards SET max_file_bytes = 3000000000"))
    with pytest.raises(
        InvalidValue, match=r"Table leaderboards: (?s:.*)out of range(?s:.*); nothing was copied"
    ):
        copy(db, target, TABLES)
    assert count(target, "users") == 0


def test_numbers_of_tables_that_are_empty_by_now_are_not_given_again(db: Database, target: Database) -> None:
    make_board(db)
    make_submission(db)
    delete_submission(db, 1, by=OPERATOR, now=NOW)
    copy(db, target, TABLES)
    assert count(target, "submissions") == 0
    assert make_submission(target).id == 2


def test_each_table_that_counts_its_rows_never_reuses_a_number() -> None:
    """Otherwise SQLite would not know the highest number of such a table."""
    counting = [table for table in TABLES if table.autoincrement_column is not None]
    assert table_of(SubmissionRow) in counting
    assert all(table.dialect_options["sqlite"]["autoincrement"] for table in counting)


def count(db: Database, table: str) -> int:
    with db.read() as session:
        return session.scalar(sa.text(f"SELECT count(*) FROM {table}")) or 0
