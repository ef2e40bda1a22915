from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from kernelcup.cli.exit_codes import error_code
from kernelcup.engine import migrate
from kernelcup.engine.database import Database
from kernelcup.errors import OldDatabase


@pytest.fixture
def empty(empty_url):
    with Database.open(empty_url) as database:
        yield database


def test_an_upgrade_makes_the_partial_index_that_lets_one_run_count(empty) -> None:
    migrate.upgrade(empty)
    (index,) = [
        index for index in inspect(empty.engine).get_indexes("runs") if index["name"] == "uq_runs_counted_job"
    ]
    assert index["unique"]
    assert str(index["dialect_options"][f"{empty.engine.dialect.name}_where"]) == "counted"


def test_an_upgrade_of_the_newest_changes_nothing(empty) -> None:
    assert migrate.current_revision(empty) is None
    migrate.upgrade(empty)
    migrate.upgrade(empty)
    assert migrate.current_revision(empty) == migrate.newest_revision()


def test_an_upgrade_of_the_newest_waits_for_no_writer(db) -> None:
    with db.write() as session, ThreadPoolExecutor() as pool:
        session.execute(text("UPDATE alembic_version SET version_num = version_num"))
        pool.submit(migrate.upgrade, db).result(timeout=60)


def test_a_database_from_before_the_first_release_is_refused_in_one_sentence(db) -> None:
    with db.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '0018'"))
    with pytest.raises(OldDatabase, match=r"from before release 0.1.0 \(revision 0018\)") as refused:
        migrate.upgrade(db)
    assert "\n" not in str(refused.value)
    assert error_code(refused.value) == "old_database"


def test_there_is_one_newest_migration() -> None:
    assert ScriptDirectory(str(migrate.MIGRATIONS)).get_heads() == [migrate.newest_revision()]
