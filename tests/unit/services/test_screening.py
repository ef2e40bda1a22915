"""What the static screen finds is stored with a submission, and never decides about it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import delete, func, select

from builders import NOW, SUBMISSION, make_board, make_submission
from kernelcup.domain import OPERATOR
from kernelcup.errors import DeadlinePassed, NotFound
from kernelcup.screen import RULES_VERSION, Finding
from kernelcup.services.submissions import delete_submission, list_submissions, screening_of, show_submission
from kernelcup.services.submit import screen_file
from kernelcup.storage.tables import ScreeningFindingRow, ScreeningRow

CHEAT = "import sys\nsys._getframe(1)\nexec('x')\n" + SUBMISSION


class Odd:
    """A second opinion that says what no database can store as it is."""

    name = "odd 2.0"

    def findings(self, text: str) -> list[Finding]:
        """Find one thing."""
        return [Finding(tag="odd:text", line=0, column=0, source="a\0b", explanation="half \ud800")]


def count(db, table) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


def test_a_submission_is_screened_when_it_is_accepted(db):
    make_board(db)
    screening = screening_of(db, make_submission(db, content=CHEAT.encode()).id)
    assert screening == screen_file("kernel.py", CHEAT)
    assert screening.tags == ("dynamic_execution", "frame_walk")


def test_tags_change_nothing_about_the_submission(db):
    make_board(db)
    tagged, plain = make_submission(db, content=CHEAT.encode()), make_submission(db)
    states = [[view.job.state for view in show_submission(db, each.id).jobs] for each in (tagged, plain)]
    assert states[0] == states[1]


def test_a_submission_without_findings_is_screened_all_the_same(db):
    make_board(db)
    screening = screening_of(db, make_submission(db).id)
    assert screening is not None
    assert (screening.findings, screening.left_out, screening.rules_version) == ((), 0, RULES_VERSION)


def test_a_submission_from_before_the_screen_has_no_screening(db):
    make_board(db)
    submission = make_submission(db, content=CHEAT.encode())
    with db.write() as session:
        session.execute(delete(ScreeningRow))
    assert screening_of(db, submission.id) is None


def test_a_submission_that_is_not_there_has_no_screening_either(db):
    with pytest.raises(NotFound):
        screening_of(db, 1)


def test_with_a_submission_its_findings_are_deleted(db):
    make_board(db)
    submission, other = (make_submission(db, content=CHEAT.encode()) for _ in range(2))
    delete_submission(db, submission.id, by=OPERATOR, now=NOW)
    assert (count(db, ScreeningRow), count(db, ScreeningFindingRow)) == (1, 2)
    assert screening_of(db, other.id) is not None


def test_findings_that_were_left_out_stay_counted(db):
    make_board(db)
    content = b"import os\n" + b"os.environ\n" * 100 + SUBMISSION.encode()
    screening = screening_of(db, make_submission(db, content=content).id)
    assert screening is not None
    assert len(screening.findings) + screening.left_out == 100


def test_a_second_opinion_is_stored_whatever_it_says(db):
    make_board(db)
    submission = make_submission(db, content=CHEAT.encode(), second_opinion=Odd())
    screening = screening_of(db, submission.id)
    assert screening is not None
    assert screening.rules_version == f"{RULES_VERSION}, odd 2.0"
    assert screening.tags == ("dynamic_execution", "frame_walk", "odd:text")
    assert screening.findings[-1].source == "a\ufffdb"
    assert screening.findings[-1].explanation == "half ?"


def test_submissions_can_be_listed_by_tag(db):
    make_board(db)
    make_submission(db)
    tagged = make_submission(db, content=CHEAT.encode())
    assert [each.id for each in list_submissions(db, tag="frame_walk")] == [tagged.id]
    assert list_submissions(db, tag="threads") == []
    assert list_submissions(db, tag="frame_walk", user="nobody") == []


@pytest.mark.parametrize("name", ["kernel.cu", "KERNEL.CUH", "a/b.cu"])
def test_a_cuda_file_is_read_as_cuda(name):
    assert screen_file(name, "int f() { return fork(); }").tags == ("subprocess",)


def test_a_file_that_is_refused_is_not_looked_at(db) -> None:
    """Looking takes time, and a second opinion more: nobody gets it for a board that is closed."""
    asked: list[str] = []

    class Opinion:
        """Counts."""

        name = "counting"

        def findings(self, text: str) -> list[Finding]:
            asked.append(text)
            return []

    make_board(db, deadline=NOW + timedelta(seconds=1))
    with pytest.raises(DeadlinePassed):
        make_submission(db, now=NOW + timedelta(seconds=2), second_opinion=Opinion())
    assert asked == []
