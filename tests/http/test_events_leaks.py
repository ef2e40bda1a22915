"""Live events: who follows, and what they are told."""

from __future__ import annotations

import json
from itertools import islice
from typing import Any

import httpx
import pytest
from scenes import PEOPLE, judge, play

from builders import (
    NOW,
    SUBMISSION,
    make_board,
    make_case,
    make_report,
    make_stage,
    make_submission,
    make_task,
)
from kernelcup.app.courses import membership
from kernelcup.app.people import tokens
from kernelcup.app.results import reviews
from kernelcup.app.submissions import events as service
from kernelcup.domain import OPERATOR
from kernelcup_harness.protocol import StageName, Verdict

HIDDEN = "918273645"
SEED = "ab12" * 16


@pytest.fixture
def scene(stored) -> dict[str, Any]:
    return stored(play)


def follow(client: Any, path: str, headers: dict[str, str]) -> tuple[int, str]:
    """Read a stream to its end."""
    answer = client.get(path, headers=headers)
    return answer.status_code, answer.text


def test_only_author_and_managers_follow(client, scene) -> None:
    statuses = {"nobody": 401, "bob": 403, "eve": 403, "ada": 200, "grace": 200, "root": 200}
    for who, status in statuses.items():
        headers = scene[who].headers if who in scene else {}
        assert follow(client, "/api/v1/submissions/2/events", headers)[0] == status, who
        assert client.get("/api/v1/submissions/2/history", headers=headers).status_code == status, who


def test_a_submission_to_a_closed_leaderboard_looks_like_none(client, scene) -> None:
    for headers in ({}, scene["bob"].headers, scene["eve"].headers):
        for path in ("events", "history"):
            hidden = client.get(f"/api/v1/submissions/4/{path}", headers=headers)
            missing = client.get(f"/api/v1/submissions/999/{path}", headers=headers)
            assert hidden.status_code == missing.status_code == 404
            told = [each.json()["error"]["message"] for each in (hidden, missing)]
            assert told[0].replace("4", "N") == told[1].replace("999", "N")


def test_no_event_tells_a_hidden_case_or_a_seed(client, db, person) -> None:
    people = {name: person(name, role) for name, role in PEOPLE.items()}
    make_board(db, task=make_task(hidden_tests=[{"size": 32, "seed": int(HIDDEN)}]))
    make_submission(db)
    case = make_case(
        None,
        index=1,
        hidden=True,
        verdict=Verdict.WRONG_ANSWER,
        message=HIDDEN,
        parameters={"seed": int(HIDDEN)},
    )
    wrong = Verdict.WRONG_ANSWER
    stage = make_stage([case], name=StageName.TEST, verdict=wrong, message=HIDDEN)
    report = make_report(
        verdict=wrong, stage=StageName.TEST, stages=[stage], message=HIDDEN, secret_seed=SEED
    )
    job = judge(db, report)
    reviews.quarantine(db, OPERATOR, job, reason="looked at", evidence={"case": HIDDEN}, now=NOW)
    for path in ("events", "history"):
        status, told = follow(client, f"/api/v1/submissions/1/{path}", people["ada"].headers)
        assert status == 200
        assert "finished" in told
        assert wrong.value in told
        assert HIDDEN not in told
        assert SEED not in told


def test_every_kind_of_event_has_only_what_it_is_known_to_have(db, scene) -> None:
    allowed = set(
        "attempt case cases counts device devices jobs machine mode reason run score_s stage user verdict".split()
    )
    found = service.changes(db, 0, 1000)
    assert {"accepted", "started", "finished", "done", "cancelled", "quarantined"} <= {
        each.kind for each in found
    }
    for each in found:
        assert set(each.data) <= allowed, (each.kind, each.data)
        assert len(json.dumps(each.data)) < 500


def test_who_is_no_longer_a_member_follows_no_more(client, db, scene) -> None:
    assert follow(client, "/api/v1/submissions/4/events", scene["ada"].headers)[0] == 200
    membership.remove_member(db, OPERATOR, "closed", "ada", now=NOW)
    assert follow(client, "/api/v1/submissions/4/events", scene["ada"].headers)[0] == 404


def test_a_strange_last_event_is_refused(client, scene) -> None:
    for value in ("-1", "x", str(2**31), str(2**63), "9" * 500, "1.5", ""):
        headers = scene["ada"].headers | {"Last-Event-ID": value}
        assert client.get("/api/v1/submissions/2/events", headers=headers).status_code == 422, value


def test_a_last_event_from_the_future_ends_without_a_word(client, scene) -> None:
    headers = scene["ada"].headers | {"Last-Event-ID": str(2**31 - 1)}
    status, told = follow(client, "/api/v1/submissions/2/events", headers)
    assert (status, told.strip()) == (200, "")


def test_a_stream_ends_when_its_reader_loses_the_right(
    server_url, db, person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.http.events.stream.WAITING_S", 0.01)
    make_board(db)
    number, ada = make_submission(db).id, person("ada")
    address = f"{server_url}/api/v1/submissions/{number}/events"
    with httpx.stream("GET", address, headers=ada.headers, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("id: ")
        tokens.revoke_secret(db, ada.token, now=NOW)
        told = list(islice(lines, 1000))  # a stream that goes on sends nothing for longer than the time-out
    assert not [line for line in told if line == "event: done"]


def test_the_existing_clients_stream_tells_no_result_to_a_reader_without_the_right(
    server_url, db, person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernelcup.http.events.stream.WAITING_S", 0.01)
    make_board(db)
    ada = person("ada", kind="popcorn")
    headers = {"X-Popcorn-Cli-Id": ada.token}
    file = {"file": ("kernel.py", SUBMISSION.encode())}
    address = f"{server_url}/double/H100/test"
    with httpx.stream("POST", address, headers=headers, files=file, timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "event: status"
        tokens.revoke_secret(db, ada.token, now=NOW)
        told = list(islice(lines, 1000))
    assert "event: error" in told
    assert "event: result" not in told
