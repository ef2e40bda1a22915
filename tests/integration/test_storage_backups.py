from __future__ import annotations

import contextlib
import shutil
import sqlite3
import stat
from datetime import timedelta

import pytest
from sqlalchemy import text

from builders import NOW, make_board, make_submission
from kernelcup.app.boards.boards import list_boards
from kernelcup.app.people.audit_log import entries
from kernelcup.app.submissions.submissions import list_views
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.app.upkeep import back_up
from kernelcup.domain import OPERATOR
from kernelcup.engine import backups, migrate
from kernelcup.errors import Conflict, InvalidValue, NotFound


@pytest.fixture
def filled(db):
    """A database with one submission."""
    if db.engine.dialect.name == "postgresql" and shutil.which("pg_dump") is None:
        pytest.skip("needs pg_dump")
    make_board(db)
    make_submission(db)
    return db


def test_a_database_is_brought_back_to_its_copy(filled, tmp_path) -> None:
    copy = tmp_path / "copy"
    assert backups.back_up(filled, copy) == copy.stat().st_size
    delete_submission(filled, 1, by=OPERATOR, now=NOW)
    backups.restore(filled, copy, replace=True, check=migrate.check_revision)
    assert [board.name for board in list_boards(filled)] == ["double"]
    assert [each.id for each in list_views(filled)] == [1]


def test_a_copy_is_for_nobody_else_and_leaves_nothing_beside_it(filled, tmp_path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    backups.back_up(filled, folder / "copy")
    assert stat.S_IMODE((folder / "copy").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["copy"]


def test_a_file_that_is_there_is_not_written_over(filled, tmp_path) -> None:
    copy = tmp_path / "copy"
    copy.write_text("mine")
    with pytest.raises(Conflict):
        backups.back_up(filled, copy)
    assert copy.read_text() == "mine"


def test_a_folder_that_is_missing_is_named(filled, tmp_path) -> None:
    with pytest.raises(NotFound, match=f"There is no folder {tmp_path / 'backups'}"):
        backups.back_up(filled, tmp_path / "backups" / "copy")


def test_a_database_with_content_is_replaced_only_on_request(filled, tmp_path) -> None:
    backups.back_up(filled, tmp_path / "copy")
    with pytest.raises(Conflict):
        backups.restore(filled, tmp_path / "copy", replace=False, check=migrate.check_revision)


def test_what_is_no_copy_changes_nothing(filled, tmp_path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidValue):
        backups.restore(filled, tmp_path / "text", replace=True, check=migrate.check_revision)
    with pytest.raises(NotFound):
        backups.restore(filled, tmp_path / "nothing", replace=True, check=migrate.check_revision)
    assert len(list_views(filled)) == 1


def test_a_damaged_copy_changes_nothing(filled, tmp_path) -> None:
    if filled.engine.dialect.name != "sqlite":
        pytest.skip("pg_restore looks at its own files")
    copy = tmp_path / "copy"
    backups.back_up(filled, copy)
    content = bytearray(copy.read_bytes())
    content[4096:] = b"\x55" * (len(content) - 4096)
    copy.write_bytes(content)
    with pytest.raises(InvalidValue, match="damaged"):
        backups.restore(filled, copy, replace=True, check=migrate.check_revision)
    assert len(list_views(filled)) == 1


def dated_copies(db, folder, *, days: int, keep: int):
    """Make a copy on each of some days, as a timer does; return what the last one deleted."""
    for day in range(days):
        file = backups.dated(folder, NOW + timedelta(days=day))
        back_up(db, file, now=NOW + timedelta(days=day))
        removed = backups.thin_out(file, keep)
    return removed


def test_the_newest_dated_copies_are_kept_and_can_be_restored(filled, tmp_path) -> None:
    folder = tmp_path / "new" / "copies"
    removed = dated_copies(filled, folder, days=5, keep=2)
    kept = sorted(folder.iterdir())
    assert [path.name for path in kept] == [
        f"kernelcup-{NOW + timedelta(days=day):%Y%m%dT%H%M%SZ}.backup" for day in (3, 4)
    ]
    assert [path.name for path in removed] == [f"kernelcup-{NOW + timedelta(days=2):%Y%m%dT%H%M%SZ}.backup"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    backups.restore(filled, kept[0], replace=True, check=migrate.check_revision)
    assert len(list_views(filled)) == 1


def test_files_of_other_names_links_and_folders_are_left_alone(filled, tmp_path) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    old = "kernelcup-20200101T000000Z.backup"
    mine = [
        "notes.txt",
        f"{old}.gz",
        f"my-{old}",
        "kernelcup-20200101.backup",
        "KernelCup-20200101T000000Z.backup",
    ]
    for name in mine:
        (folder / name).write_text("mine")
    (folder / "kernelcup-20200102T000000Z.backup").mkdir()
    (folder / "kernelcup-20200103T000000Z.backup").symlink_to(folder / "notes.txt")
    (folder / old).write_text("an old copy")
    cut_off = folder / f".{old}-a1b2_c3d"
    cut_off.write_text("half a copy")
    removed = dated_copies(filled, folder, days=1, keep=1)
    assert removed == [cut_off, folder / old]
    assert len(list(folder.iterdir())) == len(mine) + 3
    assert all((folder / name).read_text() == "mine" for name in mine)


def test_a_copy_that_was_just_made_stays_though_the_clock_went_back(filled, tmp_path) -> None:
    (tmp_path / "kernelcup-29990101T000000Z.backup").write_text("a copy of a clock that was wrong")
    assert dated_copies(filled, tmp_path, days=1, keep=1) == []
    assert len(list(tmp_path.glob("*.backup"))) == 2


def test_a_folder_of_backups_that_is_a_file_is_refused(tmp_path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError, match="/file"):
        backups.dated(tmp_path / "file", NOW)


def test_a_backup_is_in_the_log(filled, tmp_path) -> None:
    size = back_up(filled, tmp_path / "copy", now=NOW)
    (entry,) = entries(filled, OPERATOR, action="db.backup")
    assert (entry.at, entry.detail) == (NOW, {"file": str(tmp_path / "copy"), "bytes": size})


def test_a_copy_of_another_programs_database_is_refused(filled, tmp_path) -> None:
    if filled.engine.dialect.name == "postgresql":
        with filled.engine.begin() as connection:
            connection.execute(text("ALTER TABLE jobs RENAME TO other_jobs"))
        backups.back_up(filled, tmp_path / "copy")
        with filled.engine.begin() as connection:
            connection.execute(text("ALTER TABLE other_jobs RENAME TO jobs"))
    else:
        with contextlib.closing(sqlite3.connect(tmp_path / "copy")) as other:
            other.execute("CREATE TABLE submission (id INTEGER)")
    with pytest.raises(InvalidValue, match="another program's database"):
        backups.restore(filled, tmp_path / "copy", replace=True, check=migrate.check_revision)
    assert [each.id for each in list_views(filled)] == [1]
