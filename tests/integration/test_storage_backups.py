from __future__ import annotations

import shutil
import stat

import pytest

from builders import NOW, make_board, make_submission
from kernelcup.app.boards.boards import list_boards
from kernelcup.app.submissions.submissions import list_views
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR
from kernelcup.engine import backups
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
    backups.restore(filled, copy, replace=True)
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


def test_a_database_with_content_is_replaced_only_on_request(filled, tmp_path) -> None:
    backups.back_up(filled, tmp_path / "copy")
    with pytest.raises(Conflict):
        backups.restore(filled, tmp_path / "copy", replace=False)


def test_what_is_no_copy_changes_nothing(filled, tmp_path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidValue):
        backups.restore(filled, tmp_path / "text", replace=True)
    with pytest.raises(NotFound):
        backups.restore(filled, tmp_path / "nothing", replace=True)
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
        backups.restore(filled, copy, replace=True)
    assert len(list_views(filled)) == 1
