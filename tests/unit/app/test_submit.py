from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from builders import NOW, SUBMISSION, jobs_of, make_board, make_submission, make_task
from kernelcup import errors
from kernelcup.app.submissions.submissions import get_code
from kernelcup.domain import JobState, Language
from kernelcup.tables import CodeRow, JobRow, SubmissionRow
from kernelcup.tasks.sources.submitted import LARGEST_BYTES
from kernelcup_harness.protocol import HarnessKind


def count(db, table) -> int:
    with db.read() as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


def with_directives(*lines: str) -> bytes:
    return ("\n".join(f"#!POPCORN {line}" for line in lines) + "\n\n" + SUBMISSION).encode()


def all_user_errors(root: type[errors.UserError] = errors.UserError) -> list[type[errors.UserError]]:
    return [root] + [found for kind in root.__subclasses__() for found in all_user_errors(kind)]


def test_each_refusal_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in all_user_errors()]
    assert len(codes) == len(set(codes))


def test_an_accepted_submission_waits_on_each_device(db) -> None:
    board = make_board(db, devices=["H100", "A100"])
    submission = make_submission(db, devices=["a100", "H100", "A100"])
    assert submission.devices == ("A100", "H100")
    jobs = jobs_of(db, submission.id)
    assert [job.state for job in jobs] == [JobState.QUEUED] * 2
    assert {job.task_hash for job in jobs} == {board.task_hash}
    assert get_code(db, submission.id).code == SUBMISSION


def test_equal_code_is_stored_once(db) -> None:
    make_board(db)
    first, second = make_submission(db), make_submission(db, user="bob")
    assert first.code_hash == second.code_hash
    assert (count(db, CodeRow), count(db, SubmissionRow)) == (1, 2)


def test_only_the_last_part_of_a_file_name_is_kept(db) -> None:
    make_board(db)
    assert make_submission(db, file_name="../../etc/kernel.py").file_name == "kernel.py"
    assert make_submission(db, file_name=r"C:\work\kernel.py").file_name == "kernel.py"


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", errors.EmptyFile),
        (b" \n\t\n", errors.EmptyFile),
        (b"#" * (LARGEST_BYTES + 1), errors.FileTooLarge),
        (b"\xff\xfe", errors.NotText),
        (b"x = 1\n\0", errors.NotText),
        (with_directives("speed fast"), errors.InvalidDirective),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(db, content: bytes, error: type[Exception]) -> None:
    make_board(db)
    with pytest.raises(error):
        make_submission(db, content=content)
    assert count(db, SubmissionRow) == 0


def test_the_largest_file_is_taken(db) -> None:
    make_board(db)
    assert make_submission(db, content=b"#" * LARGEST_BYTES).id


def test_of_several_boards_one_must_be_named(db) -> None:
    with pytest.raises(errors.LeaderboardNeeded):
        make_submission(db)
    make_board(db)
    make_board(db, name="other")
    with pytest.raises(errors.LeaderboardNeeded):
        make_submission(db)
    assert make_submission(db, board="OTHER").leaderboard == "other"
    assert make_submission(db, content=with_directives("leaderboard other")).leaderboard == "other"


def test_a_directive_may_repeat_the_argument_but_not_contradict_it(db) -> None:
    make_board(db)
    make_board(db, name="other")
    content = with_directives("leaderboard Other")
    assert make_submission(db, board="other", content=content).leaderboard == "other"
    with pytest.raises(errors.ConflictingBoards, match=r"'Other'.*'double'"):
        make_submission(db, board="double", content=content)


def test_an_unknown_board_is_not_found(db) -> None:
    make_board(db)
    with pytest.raises(errors.NotFound, match="triple"):
        make_submission(db, board="triple")


def test_the_ending_must_fit_the_languages(db) -> None:
    make_board(db, task=make_task(accepts=[Language.PYTHON]))
    make_board(db, name="both", task=make_task(name="both"))
    make_board(
        db,
        name="cuda",
        task=make_task(lang=Language.CUDA, harness=HarnessKind.OWN, main="eval.cu"),
        harness=HarnessKind.OWN,
    )
    with pytest.raises(errors.WrongFileType, match=r"'kernel.cu': expected .* \.py"):
        make_submission(db, board="double", file_name="kernel.cu")
    with pytest.raises(errors.WrongFileType, match=r"\.py or \.cu or \.cuh or \.cpp"):
        make_submission(db, board="both", file_name="kernel.txt")
    assert make_submission(db, board="both", file_name="kernel.cu").file_name == "kernel.cu"
    with pytest.raises(errors.WrongFileType):
        make_submission(db, board="cuda", file_name="kernel.py")
    assert make_submission(db, board="cuda", file_name="kernel.CU").file_name == "kernel.CU"


def test_a_board_takes_submissions_from_its_opening_to_its_deadline(db) -> None:
    opens_at, deadline = NOW + timedelta(hours=1), NOW + timedelta(hours=2)
    make_board(db, opens_at=opens_at, deadline=deadline)
    second = timedelta(seconds=1)
    with pytest.raises(errors.NotOpenYet, match="opens at 2026-06-01 13:00:00 UTC"):
        make_submission(db, now=opens_at - second)
    assert make_submission(db, now=opens_at).created_at == opens_at
    assert make_submission(db, now=deadline).created_at == deadline
    with pytest.raises(errors.DeadlinePassed, match="closed at 2026-06-01 14:00:00 UTC"):
        make_submission(db, now=deadline + second)


def test_an_argument_overrides_the_devices_of_the_file(db) -> None:
    make_board(db, devices=["H100", "A100"])
    content = with_directives("gpus h100")
    assert make_submission(db, content=content).devices == ("H100",)
    assert make_submission(db, content=content, devices=["A100"]).devices == ("A100",)


def test_of_several_devices_one_must_be_named(db) -> None:
    make_board(db, devices=["H100", "A100"])
    with pytest.raises(errors.DeviceNeeded, match="H100, A100"):
        make_submission(db)


def test_an_unknown_device_is_refused_with_those_that_there_are(db) -> None:
    make_board(db, devices=["H100", "A100"])
    with pytest.raises(errors.UnknownDevice, match="no device 'B200'; it has H100, A100"):
        make_submission(db, devices=["H100", "B200"])
    assert (count(db, SubmissionRow), count(db, JobRow), count(db, CodeRow)) == (0, 0, 0)


def test_checks_happen_in_one_order(db) -> None:
    """Each fault is put right in turn, and the next one is found."""
    make_board(db, devices=["H100", "A100"], deadline=NOW + timedelta(hours=1))
    make_board(db, name="other")
    faults = {"user": "", "content": b"", "file_name": "kernel.txt", "now": NOW + timedelta(days=1)}
    repairs = [
        (errors.InvalidValue, {"user": "ada"}),
        (errors.EmptyFile, {"content": with_directives("speed fast")}),
        (errors.InvalidDirective, {"content": with_directives("gpu B200")}),
        (errors.LeaderboardNeeded, {"board": "double"}),
        (errors.WrongFileType, {"file_name": "kernel.py"}),
        (errors.DeadlinePassed, {"now": NOW}),
        (errors.UnknownDevice, {"devices": ["H100"]}),
    ]
    for error, repair in repairs:
        with pytest.raises(error):
            make_submission(db, **faults)
        faults |= repair
    assert make_submission(db, **faults).devices == ("H100",)
