"""What users of the existing client read."""

from __future__ import annotations

import json

import pytest
from starlette.testclient import TestClient

from builders import make_board, make_case, make_report, make_stage
from kernelcup.domain import Role, Scope
from kernelcup_harness.protocol import Difference, Mismatch, Mode, StageName, Verdict
from kernelcup_kernelbot.popcorn.streaming import _news


def test_the_beginning_of_a_stage_has_no_case() -> None:
    def told(**data: object) -> str | None:
        return _news({"event": "progress", "data": json.dumps({"data": data})})

    assert told(stage="profile", cases=2) == "Stage profile: 2 cases"
    assert told(stage="profile", case=1, cases=2) == "Stage profile: case 1 of 2"
    assert told(stage="test", cases=1) == "Stage test: 1 case"


def test_an_unknown_mode_names_those_that_there_are(client: TestClient, person) -> None:
    headers = {"X-Popcorn-Cli-Id": person("ada").token}
    for path in ("/submission/double/H100/fastest", "/double/H100/fastest"):
        answer = client.post(path, files={"file": ("k.py", b"x = 1")}, headers=headers)
        assert answer.status_code == 422
        assert all(
            mode in answer.json()["detail"] for mode in ("test", "benchmark", "leaderboard", "profile")
        )
    assert client.post("/double/H100/fastest").json()["error"]["code"] == "not_found"


def wrong_answer(message: str, judge: str | None):
    """A test run with one wrong case; ``judge`` are the words of its message that are not the checker's."""
    first = [Difference(position=[4], expected="2.0", actual="1.0")]
    mismatch = Mismatch(where="output", wrong=3, total=16, largest_error=1.0, first=first, rule="any")
    wrong = Verdict.WRONG_ANSWER
    case = make_case(None, verdict=wrong, message=message, judge=judge, mismatch=mismatch)
    stage = make_stage([case], name=StageName.TEST, verdict=wrong)
    return make_report(mode=Mode.TEST, verdict=wrong, stage=StageName.TEST, stages=[stage], message=message)


@pytest.mark.parametrize(
    ("message", "judge", "kept"),
    [
        ("3 of 16 elements are wrong (18.75%)\n[4]: expected 2.0, got 1.0", "", 0),
        ("Number of mismatched elements: 3\nERROR AT [4]: 1.0 2.0", "", 0),
        pytest.param("not the double", None, 1, id="a report of 0.1.0"),
    ],
)
def test_a_wrong_answer_is_told_in_one_wording(
    board, client: TestClient, person, finish, message: str, judge: str | None, kept: int
) -> None:
    headers = {"X-Popcorn-Cli-Id": person("ada").token}
    sent = client.post("/submission/double/H100/test", files={"file": ("k.py", b"x = 1")}, headers=headers)
    finish(wrong_answer(message, judge))
    shown = client.get(f"/user/submissions/{sent.json()['details']['id']}", headers=headers).json()
    told = shown["job"]["error"]
    assert told.count(message) == kept
    assert told.count("elements") == 1
    assert told.count("[4]") == 1


def test_a_token_that_may_only_read_is_told_so_of_what_exists_and_what_does_not(
    board, client: TestClient, person
) -> None:
    ada = person("ada")
    headers = {"X-Popcorn-Cli-Id": ada.token}
    client.post("/submission/double/H100/test", files={"file": ("k.py", b"x = 1")}, headers=headers)
    reader = {"X-Popcorn-Cli-Id": person("ada", scopes=frozenset({Scope.READ})).token}
    for number in (1, 99):
        answer = client.delete(f"/user/submissions/{number}", headers=reader)
        assert (answer.status_code, "submit" in answer.json()["detail"]) == (403, True)


def test_a_token_for_administration_is_refused_nothing_after_a_conflict(
    db, client: TestClient, person
) -> None:
    make_board(db, name="full")
    headers = {"X-Popcorn-Cli-Id": person("ada").token}
    client.post("/submission/full/H100/test", files={"file": ("k.py", b"x = 1")}, headers=headers)
    admin = {"Authorization": f"Bearer {person('root', Role.ADMIN, scopes=frozenset({Scope.ADMIN})).token}"}
    reader = {"Authorization": f"Bearer {person('root', Role.ADMIN, scopes=frozenset({Scope.READ})).token}"}
    for name in ("full", "missing"):
        assert client.delete(f"/admin/leaderboards/{name}", headers=reader).status_code == 403
    assert client.delete("/admin/leaderboards/full", headers=admin).status_code == 409
    assert client.delete("/admin/leaderboards/full?force=true", headers=admin).status_code == 200
