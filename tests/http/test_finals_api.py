"""Finals over the API, and at a server with the command line's client."""

from __future__ import annotations

import pytest

from builders import NOW, make_board, make_report, make_submission
from final_duels import close, hold
from kernelcup.app.queue import lifecycle
from kernelcup.client.requests import reader
from kernelcup.domain import Final, Role

PATH = "/api/v1/leaderboards/double/final"
TIMES = {1: 1.02, 2: 1.0}


@pytest.fixture
def grace(person):
    return person("grace", Role.CREATOR)


@pytest.fixture
def entered(db, grace) -> None:
    make_board(db)
    for user, time_ns in (("ada", 1000.0), ("bob", 1010.0)):
        make_submission(db, user=user, devices=["H100"])
        lease = lifecycle.claim_next(db, owner="test", lease_s=60, devices=["H100"], now=NOW)
        assert lease is not None
        report = make_report([time_ns])
        lifecycle.finish(db, lease, report=report, harness_hash="f", machine="m", now=NOW)


def test_a_final_is_begun_and_its_order_shown(client, db, grace, entered) -> None:
    close(db, "double", NOW)
    assert client.get(PATH).status_code == 404
    made = client.post(PATH, json={"top": 2, "device": "h100"}, headers=grace.headers)
    assert made.status_code == 201, made.text
    body = made.json()
    assert (body["entries"], body["waiting"], body["places"], body["ended_at"]) == (2, 3, [], None)
    second = client.post(PATH, json={"again": True}, headers=grace.headers)
    assert (second.status_code, second.json()["error"]["code"]) == (409, "conflict")
    assert client.get(PATH).json() == body
    hold(db, "double", "H100", TIMES, NOW)
    done = client.get(PATH, params={"device": "H100"}).json()
    assert [(each["place"], each["user"], each["rank"]) for each in done["places"]] == [
        (1, "bob", 2),
        (2, "ada", 1),
    ]
    (meeting,) = done["meetings"]
    assert (meeting["by"], meeting["faster"], meeting["why"]) == ("duel", 2, "")
    assert meeting["sentence"].startswith("#2 is 2.0 % faster than #1 (simultaneous interval")


def test_the_first_page_of_the_standings_has_the_official_order(client, db, grace, entered) -> None:
    standings = "/api/v1/leaderboards/double/standings/H100"
    assert client.get(standings).json()["final"] is None
    close(db, "double", NOW)
    client.post(PATH, json={}, headers=grace.headers)
    done = hold(db, "double", "H100", TIMES, NOW)
    found = client.get(standings).json()
    assert found["final"] == client.get(PATH).json()
    assert [each["user"] for each in found["items"]] == ["ada", "bob"]
    assert client.get(standings, params={"after": 1}).json()["final"] is None
    assert reader(Final)(found["final"]) == done


def test_an_open_leaderboard_is_a_conflict_with_a_code_of_its_own(client, grace, entered) -> None:
    answer = client.post(PATH, json={}, headers=grace.headers)
    assert answer.status_code == 409
    error = answer.json()["error"]
    assert error["code"] == "leaderboard_open"
    assert error["next"][0].startswith("kernelcup admin close double")
