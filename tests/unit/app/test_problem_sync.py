from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from repositories import repository
from sqlalchemy import select

from builders import NOW, make_actor, make_board, make_device, make_report, make_submission
from kernelcup.app.boards import boards, git_source
from kernelcup.app.boards.git_source import fetch_here, fetch_problems
from kernelcup.app.boards.judgeable import Tried
from kernelcup.app.boards.problem_sync import SyncOptions, SyncResult, sync_problem_set
from kernelcup.app.queue import lifecycle
from kernelcup.domain import NOBODY, OPERATOR, Actor, Role, Visibility
from kernelcup.errors import Forbidden, InvalidValue, NotFound, SignInNeeded
from kernelcup.tables import AuditRow
from kernelcup_harness.protocol import Backend, HarnessKind

REFERENCE = """\
def generate_input(size: int, seed: int):
    return [seed] * size


def check_implementation(data, output):
    return data == output
"""
DEVICES = [make_device(), make_device(name="A100")]


def task_files(folder: str, *, reference: str = REFERENCE, main: bool = False, **keys: Any) -> dict[str, str]:
    files = [
        {"name": "submission.py", "source": "@SUBMISSION@"},
        {"name": "reference.py", "source": "reference.py"},
    ]
    body: dict[str, Any] = {
        "files": [*files, {"name": "eval.py", "source": "../eval.py"}] if main else files,
        "lang": "py",
        "description": "Copy.",
        "benchmarks": [{"size": 64, "seed": 2}],
    }
    if main:
        body["config"] = {"main": "eval.py"}
    return {
        f"problems/{folder}/task.yml": json.dumps(body | keys),
        f"problems/{folder}/reference.py": reference,
        "problems/eval.py": "x = 1\n",
    }


def set_file(*entries: dict[str, Any], deadline: str = "") -> str:
    return json.dumps({"name": "Set", "deadline": deadline, "description": "", "problems": list(entries)})


def entry(folder: str, **overrides: Any) -> dict[str, Any]:
    return {"directory": folder, "name": folder, "deadline": "2026-12-31", "gpus": ["H100"], **overrides}


@pytest.fixture(autouse=True)
def _fetched_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetch in this process: starting another for each sync takes longer than all the rest."""

    def fetch(_actor: Actor, repository: str, branch: str, into: Path) -> str:
        return fetch_here(repository, branch, into)

    monkeypatch.setattr(git_source, "fetch_problems", fetch)


@pytest.fixture
def source(tmp_path) -> Path:
    """A repository with the problems a and d."""
    files = {**task_files("a"), **task_files("d"), "problems/set.yaml": set_file(entry("a"), entry("d"))}
    repository(tmp_path / "src", files)
    return tmp_path / "src"


def sync(
    db, source: Path, actor: Actor = OPERATOR, problem_set: str | None = None, **options: Any
) -> SyncResult:
    defaults = {"creator": "grace", "known_devices": DEVICES}
    return sync_problem_set(
        db,
        actor,
        repository=str(source),
        problem_set=problem_set,
        now=NOW,
        options=SyncOptions(**(defaults | options)),
    )


def judged(db, board: str) -> None:
    make_submission(db, board=board, devices=["H100"])
    lease = lifecycle.claim_next(db, owner="me", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    lifecycle.finish(db, lease, report=make_report(), harness_hash="", machine="box", now=NOW)


def skipped(result: SyncResult) -> dict[str, str]:
    return {each.name: each.reason for each in result.skipped}


def errors(result: SyncResult) -> dict[str, str]:
    return {each.name: each.error for each in result.errors}


def test_missing_boards_are_made_and_a_second_time_changes_nothing(db, source) -> None:
    said: list[str] = []
    result = sync(db, source, say=said.append)
    assert (result.created, result.updated, result.skipped, result.errors) == (["a", "d"], [], [], [])
    assert said == ["a: created", "d: created"]
    made = boards.get_board(db, "a")
    assert (made.creator, made.devices) == ("grace", ("H100",))
    assert made.deadline == datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC)
    again = sync(db, source)
    assert (again.created, again.updated, again.errors) == ([], [], [])
    assert skipped(again) == {"a": "no changes", "d": "no changes"}


class Doubting:
    """A trial that finds a checker which accepts what is wrong."""

    def try_task(self, *_: Any, **__: Any) -> Tried:
        """Find it."""
        return Tried(loose=("the checker ignores the answer",))


def test_a_checker_that_accepts_wrong_answers_needs_force(db, source) -> None:
    refused = sync(db, source, trial=Doubting())
    assert refused.created == []
    assert errors(refused).keys() == {"a", "d"}
    assert "the checker ignores the answer" in errors(refused)["a"]
    made = sync(db, source, trial=Doubting(), force=True)
    assert made.created == ["a", "d"]
    assert any("the checker ignores the answer" in each.note for each in made.notes)


def test_a_preview_says_the_same_and_does_nothing(db, source) -> None:
    result = sync(db, source, preview=True)
    assert (result.created, result.preview) == (["a", "d"], True)
    assert boards.list_boards(db) == []
    sync(db, source)
    repository(source, task_files("a", description="New."))
    before = boards.get_board(db, "a")
    assert sync(db, source, preview=True).updated == ["a"]
    assert boards.get_board(db, "a") == before


def test_deadline_devices_and_task_follow_the_repository(db, source) -> None:
    sync(db, source)
    files = {
        **task_files("a", description="New."),
        "problems/set.yaml": set_file(
            entry("a", deadline="2026-11-29 6:59", gpus=["A100", "h100"]), entry("d")
        ),
    }
    repository(source, files)
    result = sync(db, source)
    assert (result.updated, skipped(result)) == (["a"], {"d": "no changes"})
    board = boards.get_board(db, "a")
    assert board.deadline == datetime(2026, 11, 29, 6, 59, tzinfo=UTC)
    assert board.devices == ("A100", "H100")
    assert boards.get_task(db, "a").description == "New."


def test_a_board_with_results_is_left_alone_unless_forced(db, source) -> None:
    sync(db, source)
    judged(db, "a")
    repository(
        source, {**task_files("a", reference=REFERENCE + "y = 1\n"), **task_files("d", ranking_by="geom")}
    )
    result = sync(db, source)
    assert result.updated == ["d"]
    assert skipped(result) == {
        "a": "its results could not be compared any more (reference.py was changed); needs force"
    }
    assert "y = 1" not in boards.get_task(db, "a").sources["reference.py"]
    assert sync(db, source, force=True).updated == ["a"]
    assert "y = 1" in boards.get_task(db, "a").sources["reference.py"]


def test_a_device_with_submissions_is_not_taken_away_unless_forced(db, source) -> None:
    sync(db, source)
    make_submission(db, board="a")
    repository(source, {"problems/set.yaml": set_file(entry("a", gpus=["A100"]), entry("d"))})
    assert skipped(sync(db, source))["a"] == "there are submissions on H100; needs force"
    assert sync(db, source, force=True).updated == ["a"]
    assert boards.get_board(db, "a").devices == ("A100",)


def test_each_problem_stands_for_itself(db, source) -> None:
    files = {
        **task_files("bad", lang="rust"),
        **task_files("odd"),
        "problems/set.yaml": set_file(
            entry("bad"),
            entry("a"),
            entry("odd", gpus=["B200"]),
            entry("d", name="health"),
            entry("d", name="none", gpus=[]),
            entry("d", name="past", deadline="2025-01-01"),
            entry("d"),
        ),
    }
    repository(source, files)
    result = sync(db, source)
    assert result.created == ["a", "d"]
    assert skipped(result) == {
        "past": "its deadline 2025-01-01 23:59:59 UTC has passed; another one can be given"
    }
    found = errors(result)
    assert found.keys() == {"bad", "odd", "health", "none"}
    assert found["bad"].startswith("problems/bad/task.yml:1:")
    assert "B200" in found["odd"]
    assert "reserved" in found["health"]
    assert sync(db, source, preview=True).errors == result.errors


def test_an_unknown_device_is_left_out_and_loses_no_problem(db, source) -> None:
    repository(source, {"problems/set.yaml": set_file(entry("a", gpus=["B200", "h100"]), entry("d"))})
    result = sync(db, source)
    assert (result.created, result.errors, result.is_complete) == (["a", "d"], [], True)
    assert boards.get_board(db, "a").devices == ("H100",)
    (left,) = result.devices_left_out
    assert (left.name, "'B200' is not configured here" in left.reason) == ("a", True)
    assert skipped(sync(db, source)) == {"a": "no changes", "d": "no changes"}


def test_a_device_that_cannot_judge_a_problem_is_left_out(db, source) -> None:
    reference = REFERENCE.replace("[seed] * size", "torch.ones(size, device='cuda')")
    files = {"problems/set.yaml": set_file(entry("a", gpus=["cpu", "H100"]))}
    repository(source, files | task_files("a", reference=reference))
    devices = [*DEVICES, make_device(name="cpu", backend=Backend.CPU)]
    assert sync(db, source, known_devices=devices).created == ["a"]
    assert boards.get_board(db, "a").devices == ("H100",)


def test_other_devices_can_be_given_for_all_problems(db, source) -> None:
    assert sync(db, source, devices=["a100"]).created == ["a", "d"]
    assert boards.get_board(db, "d").devices == ("A100",)
    with pytest.raises(InvalidValue, match="'B200' is not configured here"):
        sync(db, source, devices=["B200"])


@pytest.mark.parametrize("deadline", [None, datetime(2027, 1, 1, tzinfo=UTC)])
def test_a_deadline_that_is_over_can_be_replaced(db, source, deadline: datetime | None) -> None:
    repository(source, {"problems/set.yaml": set_file(entry("a", deadline="2025-01-01"))})
    over = sync(db, source)
    assert (over.created, over.is_complete) == ([], True), "there is nothing to do"
    result = sync(db, source, deadline=deadline)
    assert (result.created, result.is_complete) == (["a"], True)
    assert boards.get_board(db, "a").deadline == deadline


def test_one_set_can_be_chosen(db, source) -> None:
    repository(
        source, {**task_files("c"), "problems/other.yaml": set_file(entry("c"), deadline="2026-12-01")}
    )
    assert sync(db, source, problem_set="other").created == ["c"]
    assert sync(db, source, problem_set="set.yaml").created == ["a", "d"]
    with pytest.raises(NotFound, match="there are: other, set"):
        sync(db, source, problem_set="../set")


def test_a_broken_set_does_not_stop_another(db, source) -> None:
    repository(source, {"problems/a_broken.yaml": "problems: ["})
    result = sync(db, source)
    assert result.created == ["a", "d"]
    assert errors(result)["a_broken"].startswith("problems/a_broken.yaml:1:")


def test_a_name_in_two_sets_is_taken_once(db, source) -> None:
    repository(source, {"problems/two.yaml": set_file(entry("d", name="A"))})
    result = sync(db, source)
    assert result.created == ["a", "d"]
    assert "too" in errors(result)["A"]


def test_names_can_be_given_a_prefix_and_boards_be_closed(db, source) -> None:
    result = sync(db, source, prefix="class-", visibility=Visibility.CLOSED)
    assert result.created == ["class-a", "class-d"]
    assert boards.get_board(db, "class-a").visibility is Visibility.CLOSED
    assert sync(db, source, prefix="class-").updated == []
    assert sync(db, source, prefix="class-", visibility=Visibility.PUBLIC).updated == ["class-a", "class-d"]


def test_our_harness_judges_where_it_can_and_the_own_one_needs_a_yes(db, tmp_path) -> None:
    files = {
        **task_files("ours", main=True),
        **task_files("own", main=True, reference="def other(): ...\n"),
        "problems/set.yaml": set_file(entry("ours"), entry("own")),
    }
    repository(tmp_path / "src", files)
    result = sync(db, tmp_path / "src")
    assert result.created == ["ours"]
    assert [(each.name, each.note[:31]) for each in result.notes[:1]] == [
        ("ours", "judged by the standard harness ")
    ]
    assert "self-measured" in errors(result)["own"]
    assert boards.get_board(db, "ours").harness is HarnessKind.STANDARD
    assert sync(db, tmp_path / "src", harness=HarnessKind.OWN).created == ["own"]
    assert boards.get_board(db, "own").harness is HarnessKind.OWN


def test_a_sync_is_in_the_log_and_a_preview_is_not(db, source) -> None:
    sync(db, source, preview=True)
    result = sync(db, source)
    sync(db, source)
    with db.read() as session:
        rows = session.scalars(select(AuditRow).where(AuditRow.action == "problems.sync")).all()
    (row,) = rows
    assert row.target == f"repository:{source}"
    assert row.detail == {"branch": "main", "commit": result.commit, "created": ["a", "d"], "updated": []}


def test_only_creators_sync_and_only_their_own_boards(db, source, monkeypatch: pytest.MonkeyPatch) -> None:
    for actor, error in ((NOBODY, SignInNeeded), (make_actor(db, "ada"), Forbidden)):
        with pytest.raises(error):
            sync(db, source, actor)

    def fetch_as_operator(_actor: Actor, *rest: Any) -> str:
        return fetch_problems(OPERATOR, *rest)

    monkeypatch.setattr(git_source, "fetch_problems", fetch_as_operator)
    make_board(db, name="a", creator="somebody")
    grace = make_actor(db, "grace", Role.CREATOR)
    result = sync(db, source, grace, creator="root")
    assert result.created == ["d"]
    assert "managed by somebody" in errors(result)["a"]
    assert boards.get_board(db, "d").creator == "grace"


def test_nothing_is_left_behind(db, source, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    sync(db, source)
    assert list((tmp_path / "tmp").iterdir()) == []
