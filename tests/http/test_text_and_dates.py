"""Odd characters and odd dates, in what submissions print and in what people send."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from scenes import judge, play

from builders import NOW, make_actor, make_board, make_report, make_submission
from database_kinds import DATABASES, STRICTEST
from kernelcup.app.people.accounts import make_user
from kernelcup.cli.show.boards import moment
from kernelcup.domain import Role
from kernelcup.engine.database import Database, make_engine
from kernelcup.errors import InvalidValue
from kernelcup.launchers.local.harness_output import _last_report
from kernelcup_harness.protocol import CapturedOutput, dumps

ODD = {"a\0b": "a\ufffdb", "half \ud800 pair": "half \ufffd pair", "\udcff": "\ufffd"}
"""What is printed, and how it is shown."""
LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


@pytest.fixture
def scene(stored) -> dict[str, Any]:
    return stored(play)


@pytest.fixture
def east() -> Iterator[None]:
    """Let this process live fourteen hours east of UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Pacific/Kiritimati"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("db_url", DATABASES, indirect=True)
@pytest.mark.parametrize("odd", ODD, ids=ascii)
def test_a_report_with_odd_characters_is_listed_and_shown(client, person, db: Database, odd) -> None:
    ada = person("ada")
    make_board(db)
    sent = make_submission(db)
    output = CapturedOutput(text=odd)
    judge(db, make_report(stdout=output, message=odd, extra={odd: odd}))
    for path in ("", "?user=ada", f"/{sent.id}", f"/{sent.id}/history"):
        answer = client.get(f"/api/v1/submissions{path}", headers=ada.headers)
        assert answer.status_code == 200, answer.text
    run = client.get(f"/api/v1/submissions/{sent.id}", headers=ada.headers).json()["jobs"][0]
    assert run["report"]["message"] == ODD[odd]


def test_a_report_is_cleaned_where_it_enters() -> None:
    line = dumps(make_report(message="".join(ODD), job_id="7.1")).encode()
    report = _last_report(iter([b'{"report":' + line + b"}"]), lambda _event: None)
    assert report is not None
    assert report == replace(make_report(), job_id="7.1", message="a\ufffdbhalf \ufffd pair\ufffd")


def test_nul_in_a_request_is_refused(client, scene) -> None:
    for method, path, json in (
        ("GET", "/leaderboards/%00", None),
        ("GET", "/submissions?user=a%00b", None),
        ("PATCH", "/leaderboards/double", {"devices": ["a\0b"]}),
        ("POST", "/users", {"name": "a\0b"}),
        ("POST", "/jobs/1/quarantine", {"reason": "why", "evidence": {"deep": [{"er": "\0"}]}}),
        ("PUT", "/pauses/device/H100", {"reason": "\0"}),
        ("POST", "/invites", {"leaderboards": ["double\0"]}),
        ("POST", "/submissions", {"leaderboard": "double\0", "code": "x = 1"}),
    ):
        answer = client.request(method, f"/api/v1{path}", json=json, headers=scene["root"].headers)
        error = answer.json()["error"]
        assert (answer.status_code, error["code"], "NUL" in error["message"]) == (
            422,
            "invalid_request",
            True,
        )
    for path in ("/gpus/a%00b", "/submissions/double/H%00", "/submission_count/a/b?user_id=%00"):
        answer = client.get(path)
        assert (answer.status_code, "NUL" in answer.json()["detail"]) == (422, True), path


def test_half_a_pair_in_a_key_is_no_bug(client, scene) -> None:
    body = b'{"code": "x = 1", "\\ud800": 1}'
    headers = {**scene["ada"].headers, "Content-Type": "application/json"}
    answer = client.post("/api/v1/submissions", content=body, headers=headers)
    assert answer.status_code == 422, answer.text


def test_extreme_dates_are_refused(client, scene) -> None:
    root = scene["root"].headers
    for odd in ("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "1212-01-01"):
        answers = [
            client.request(method, f"/api/v1/leaderboards/double{path}", json={key: odd}, headers=root)
            for method, path, key in (
                ("PATCH", "", "deadline"),
                ("PATCH", "", "opens_at"),
                ("PATCH", "", "freeze_at"),
                ("POST", "/freeze", "at"),
                ("PUT", "/late/ada", "until"),
            )
        ]
        if "T" in odd:
            answers.append(client.get("/api/v1/stats", params={"since": odd}, headers=root))
        for answer in answers:
            assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_request"), (
                answer.text
            )


def test_a_moment_that_the_api_writes_is_a_deadline(client, scene) -> None:
    at, path, headers = "2027-01-31T12:00:00.000123Z", "/api/v1/leaderboards/double", scene["root"].headers
    for _ in range(2):
        answer = client.patch(path, json={"deadline": at}, headers=headers)
        assert answer.status_code == 200, answer.text
        at = answer.json()["deadline"]
    assert ".000123" in at


def test_the_last_deadline_is_shown_east_of_utc(east) -> None:
    assert moment(LAST) == "9999-12-31 23:59:59 UTC"


@pytest.mark.skipif(STRICTEST == "sqlite", reason="needs PostgreSQL")
@pytest.mark.parametrize("db_url", ["postgresql"], indirect=True)
def test_the_last_deadline_is_read_whatever_zone_the_server_has(client, db: Database, db_url) -> None:
    make_board(db, deadline=LAST)
    engine = make_engine(db_url)
    name = engine.url.database
    with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
        connection.exec_driver_sql(f'ALTER DATABASE "{name}" SET timezone TO "Pacific/Kiritimati"')
    try:
        db.engine.dispose()
        answer = client.get("/api/v1/leaderboards")
        assert answer.status_code == 200
        assert answer.json()["items"][0]["deadline"] == "9999-12-31T23:59:59Z"
    finally:
        with engine.execution_options(isolation_level="AUTOCOMMIT").connect() as connection:
            connection.exec_driver_sql(f'ALTER DATABASE "{name}" RESET timezone')
        engine.dispose()


def test_a_name_with_something_invisible_is_refused(db: Database) -> None:
    root = make_actor(db, "root", Role.ADMIN)
    for odd in ("\u3164", "\u2800", "\u115f", "\uffa0", "\ufe0f", "\u034f", "\u200b", "\U000e0100"):
        for name in (odd, f"ada{odd}", f"{odd}ada"):
            with pytest.raises(InvalidValue, match="User name"):
                make_user(db, root, name, role=Role.PARTICIPANT, now=NOW)
