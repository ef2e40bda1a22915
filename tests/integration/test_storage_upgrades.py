"""Databases of earlier versions, kept below tests/data/databases by scripts/kept-database, are upgraded."""

from __future__ import annotations

import json
import lzma
import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import IntegrityError

from builders import make_submission
from database_kinds import postgres_database
from kernelcup import __version__
from kernelcup.app.boards.boards import list_boards
from kernelcup.app.results.standings import standings
from kernelcup.cli import logs
from kernelcup.cli.entry import execute
from kernelcup.engine import backups, migrate
from kernelcup.engine.database import Database
from kernelcup.errors import Conflict
from kernelcup.tables import Base

FILES = Path(__file__).parents[1] / "data" / "databases"
KEPT = sorted({path.name.partition(".")[0] for path in FILES.iterdir()})
OLDER = [revision for revision in KEPT if revision < migrate.newest_revision()]
LARGEST = 200_000
HALF = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9000", "{before}"


def upgrade():
    op.create_table("halves", sa.Column("id", sa.Integer))
    op.drop_column("audit", "actor_id")
    op.execute("UPDATE users SET name_key = 'the same'")
"""
"""A migration that fails at its last step, since names are unique."""
REBUILD = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "9000", "{before}"


def upgrade():
    on_sqlite = op.get_bind().dialect.name == "sqlite"
    with op.batch_alter_table("users", recreate="always" if on_sqlite else "never") as users:
        users.add_column(sa.Column("pronouns", sa.String, server_default="", nullable=False))
"""
"""A migration that on SQLite makes a table again, to which others refer."""


@pytest.fixture(params=OLDER)
def kept(request: pytest.FixtureRequest, empty_url: str, tmp_path: Path) -> Iterator[Database]:
    """A database as an earlier version left it, on each kind of database."""
    with Database.open(empty_url) as database:
        restore(database, request.param, tmp_path)
        yield database


def restore(database: Database, revision: str, folder: Path) -> None:
    """Fill a database from a kept file."""
    if database.engine.dialect.name == "sqlite":
        copy = folder / "kept"
        copy.write_bytes(lzma.decompress((FILES / f"{revision}.sqlite.xz").read_bytes()))
    elif shutil.which("pg_restore") is None:
        pytest.skip("needs pg_restore")
    else:
        copy = FILES / f"{revision}.postgresql"
    backups.restore(database, copy, replace=False, check=migrate.check_revision)


@contextmanager
def another(database: Database, folder: Path) -> Iterator[Database]:
    """Make an empty database of the same kind."""
    with ExitStack() as stack:
        is_file = database.engine.dialect.name == "sqlite"
        url = f"sqlite:///{folder / 'other.db'}" if is_file else stack.enter_context(postgres_database())
        yield stack.enter_context(Database.open(url))


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    """Where copies from before an upgrade go."""
    folder = tmp_path / "copies"
    folder.mkdir()
    return folder


@pytest.fixture
def next_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Add a migration behind ours."""

    def add(text: str) -> None:
        folder = tmp_path / "migrations"
        shutil.copytree(migrate.MIGRATIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
        file = folder / "versions" / "9000_next.py"
        file.write_text(text.format(before=migrate.newest_revision()))
        monkeypatch.setattr(migrate, "MIGRATIONS", folder)

    return add


@pytest.fixture
def command(
    kept: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Ended]:
    """Run a command on the kept database."""
    for name in [name for name in os.environ if name.startswith("KERNELCUP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("KERNELCUP_DATABASE", kept.engine.url.render_as_string(hide_password=False))
    monkeypatch.setattr(logs, "set_up", lambda: None)

    def run(*args: str) -> Ended:
        code = execute(args)
        return Ended(code, *capsys.readouterr())

    return run


class Ended(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str


def schema_of(database: Database) -> dict[str, Any]:
    """Return all that decides what the tables take, without the order of columns."""
    with database.engine.connect() as connection:
        inspector = sa.inspect(connection)
        kinds = ("columns", "pk_constraint", "foreign_keys", "unique_constraints", "indexes")
        found: dict[str, Any] = {
            kind: {
                name: written(each) if isinstance(each, dict) else sorted(map(written, each))
                for (_, name), each in getattr(inspector, f"get_multi_{kind}")().items()
                if name != "alembic_version"
            }
            for kind in kinds
        }
        if database.engine.dialect.name == "sqlite":
            query = "SELECT name FROM sqlite_master WHERE sql LIKE '%AUTOINCREMENT%' ORDER BY name"
            found["autoincrement"] = connection.scalars(sa.text(query)).all()
    return found


def written(found: Any) -> str:
    return json.dumps(found, default=str, sort_keys=True)


def rows_of(database: Database) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables, as they are stored."""
    metadata = sa.MetaData()
    with database.engine.connect() as connection:
        metadata.reflect(connection)
        return {
            table.name: sorted((dict(row._mapping) for row in connection.execute(sa.select(table))), key=repr)
            for table in metadata.sorted_tables
            if table.name != "alembic_version"
        }


def set_revision(database: Database, revision: str) -> None:
    """Have a database say that another version made it."""
    with database.write() as session:
        session.execute(sa.text("UPDATE alembic_version SET version_num = :new"), {"new": revision})


# ------------------------------------------------------------------------------------- what an upgrade makes


@pytest.mark.parametrize("kept", KEPT, indirect=True)
def test_a_released_migration_still_makes_what_the_kept_database_has(kept, tmp_path) -> None:
    revision = migrate.current_revision(kept)
    with another(kept, tmp_path) as fresh:
        migrate.upgrade(fresh, revision)
        assert schema_of(fresh) == schema_of(kept)


def test_an_upgraded_database_has_exactly_the_tables_of_the_code(kept, tmp_path) -> None:
    migrate.upgrade(kept)
    with kept.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []
    with another(kept, tmp_path) as fresh:
        with fresh.engine.execution_options(kernelcup_writes=True).begin() as connection:
            Base.metadata.create_all(connection)
        assert schema_of(kept) == schema_of(fresh)


def test_an_upgrade_keeps_all_that_is_stored(kept) -> None:
    before = rows_of(kept)
    assert sum(map(len, before.values())) > 150
    migrate.upgrade(kept)
    after = rows_of(kept)
    columns = {table: after[table][0].keys() for table in before if before[table]}
    for table, rows in before.items():
        shared = [{name: row[name] for name in row if name in columns[table]} for row in rows]
        assert sorted(shared, key=repr) == after[table]


def test_an_upgraded_competition_goes_on(kept) -> None:
    migrate.upgrade(kept)
    assert [board.name for board in list_boards(kept)] == ["double", "over", "lab"]
    assert [place.user for place in standings(kept, "over", "H100")] == ["ada", "ken"]
    made = make_submission(kept, board="lab", user="ada")
    assert made.id == 13


# ------------------------------------------------------------------------------------- the copy from before


def test_a_copy_from_before_leads_back(kept, copies) -> None:
    revision, before, schema = migrate.current_revision(kept), rows_of(kept), schema_of(kept)
    copy = migrate.upgrade(kept, copy_to=lambda: copies / "before")
    assert copy == copies / "before"
    backups.restore(kept, copy, replace=True, check=migrate.check_revision)
    assert (migrate.current_revision(kept), rows_of(kept), schema_of(kept)) == (revision, before, schema)


def test_an_up_to_date_or_an_empty_database_is_not_copied(kept, tmp_path, copies) -> None:
    with another(kept, tmp_path) as empty:
        assert migrate.upgrade(empty, copy_to=lambda: copies / "empty") is None
    migrate.upgrade(kept)
    assert migrate.upgrade(kept, copy_to=lambda: copies / "current") is None
    assert list(copies.iterdir()) == []


def test_processes_that_upgrade_at_once_make_one_copy(kept, copies) -> None:
    names = iter(copies / str(number) for number in range(4))
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda _: migrate.upgrade(kept, copy_to=lambda: next(names)), range(4)))
    assert [copy for copy in made if copy] == [*copies.iterdir()] == [copies / "0"]


def test_without_room_for_a_copy_nothing_is_upgraded(kept, copies) -> None:
    revision = migrate.current_revision(kept)
    (copies / "taken").write_text("mine")
    with pytest.raises(Conflict):
        migrate.upgrade(kept, copy_to=lambda: copies / "taken")
    assert migrate.current_revision(kept) == revision
    assert (copies / "taken").read_text() == "mine"


def test_an_upgrade_that_fails_half_way_leaves_the_database_as_it_was(kept, copies, next_migration) -> None:
    revision, before, schema = migrate.current_revision(kept), rows_of(kept), schema_of(kept)
    next_migration(HALF)
    with pytest.raises(IntegrityError):
        migrate.upgrade(kept, copy_to=lambda: copies / "before")
    assert (migrate.current_revision(kept), rows_of(kept), schema_of(kept)) == (revision, before, schema)
    assert list(copies.iterdir()) == []


@pytest.mark.jobs
def test_a_table_that_is_made_again_keeps_the_rows_that_refer_to_it(kept, next_migration) -> None:
    before = {table: len(rows) for table, rows in rows_of(kept).items()}
    next_migration(REBUILD)
    migrate.upgrade(kept)
    assert {table: len(rows) for table, rows in rows_of(kept).items()} == before
    assert rows_of(kept)["users"][0]["pronouns"] == ""
    if kept.engine.dialect.name == "sqlite":
        with kept.read() as session:
            assert session.execute(sa.text("PRAGMA foreign_key_check")).all() == []
            assert session.scalar(sa.text("PRAGMA foreign_keys")) == 1


# ------------------------------------------------------------------------------------- what operators see


def test_an_operator_upgrades_and_is_told_the_way_back(command, kept, tmp_path) -> None:
    before = migrate.current_revision(kept)
    body = json.loads(command("db", "upgrade", "--json").out)
    assert (body["before"], body["after"]) == (before, migrate.newest_revision())
    assert Path(body["backup"]).parent == tmp_path / "home" / "backups"
    assert f"restored from {body['backup']}" in command("db", "restore", body["backup"], "--yes").out
    assert migrate.current_revision(kept) == migrate.newest_revision()


def test_an_operator_who_has_a_copy_needs_no_other(command, kept, tmp_path) -> None:
    before = migrate.current_revision(kept)
    assert f"went from revision {before} to" in command("db", "upgrade", "--no-backup").out
    assert not (tmp_path / "home" / "backups").exists()


def test_a_command_upgrades_a_file_and_says_so_and_leaves_a_server_to_the_operator(command, kept) -> None:
    before = migrate.current_revision(kept)
    ended = command("board", "list")
    if kept.engine.dialect.name == "sqlite":
        assert (ended.code, "double" in ended.out) == (0, True)
        assert "was upgraded to revision" in ended.err
        assert "as it was before: kernelcup db restore" in ended.err
        assert command("board", "list").err == ""
    else:
        assert (ended.code, migrate.current_revision(kept)) == (4, before)
        assert "run: kernelcup db upgrade" in ended.err


@pytest.mark.parametrize("revision", ["9999", pytest.param("0100a", marks=pytest.mark.jobs)])
def test_a_database_of_an_unknown_revision_is_refused_unchanged(command, kept, revision) -> None:
    set_revision(kept, revision)
    before = rows_of(kept)
    for words in (["board", "list"], ["db", "upgrade"], ["config", "check"], ["serve"]):
        refused = command(*words)
        assert (refused.code, "newer_database" in refused.err) == (4, True), words
        assert f"is at revision {revision}, and kernelcup {__version__} knows none above" in refused.err
        assert "Install that version, or restore the copy from before the upgrade" in refused.err
    assert (migrate.stored_revision(kept), rows_of(kept)) == (revision, before)


def test_a_copy_replaces_a_database_that_a_newer_version_upgraded(command, kept) -> None:
    copy = json.loads(command("db", "upgrade", "--json").out)["backup"]
    set_revision(kept, "9999")
    assert command("db", "restore", copy, "--yes").code == 0
    assert migrate.current_revision(kept) == migrate.newest_revision()


@pytest.mark.parametrize(
    ("revision", "code"),
    [pytest.param("9999", "newer_database", marks=pytest.mark.jobs), ("0099", "old_database")],
)
def test_a_copy_of_an_unknown_revision_is_refused_before_it_replaces_anything(
    command, kept, tmp_path, revision, code
) -> None:
    before = migrate.stored_revision(kept)
    set_revision(kept, revision)
    backups.back_up(kept, tmp_path / "copy")
    set_revision(kept, before)
    stored = rows_of(kept)
    refused = command("db", "restore", str(tmp_path / "copy"), "--yes")
    assert (refused.code, code in refused.err) == (4, True)
    assert f"{tmp_path / 'copy'}: the database is" in refused.err
    assert (migrate.stored_revision(kept), rows_of(kept)) == (before, stored)


def test_kept_files_are_small() -> None:
    assert {"0100", "0101"} <= set(KEPT)
    for revision in KEPT:
        for kind in ("sqlite.xz", "postgresql"):
            assert (FILES / f"{revision}.{kind}").stat().st_size < LARGEST
