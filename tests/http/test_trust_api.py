"""The state of the service and the docket for programs: what the pages show, and no more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders import NOW, make_board, make_device
from hand_judging import Judging, decide, flagged
from kernelcup import __version__
from kernelcup.app.machines import dispatchers, outages
from kernelcup.app.rules import pauses
from kernelcup.domain import OPERATOR
from kernelcup.errors import UnfitDevice

STATUS, DOCKET = "/api/v1/status", "/api/v1/docket"


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def docket(client, **options) -> list[dict[str, Any]]:
    answer = client.get(DOCKET, **options)
    assert answer.status_code == 200
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def test_a_flagged_result_names_nobody_until_a_person_has_decided(client, judging) -> None:
    submission, review = flagged(judging)
    (entry,) = docket(client)
    hidden = {key: entry[key] for key in ("submission", "user", "score_s", "findings", "cases", "decision")}
    assert hidden == {
        "submission": None,
        "user": "",
        "score_s": None,
        "findings": [],
        "cases": [],
        "decision": None,
    }
    assert (entry["leaderboard"], entry["device"], entry["by_rule"]) == ("double", "H100", True)
    decide(judging, review, "rejected")
    (entry,) = docket(client)
    assert (entry["submission"], entry["user"], entry["decision"]) == (submission.id, "bob", "rejected")
    assert entry["findings"] == ["it is faster than this device can do what the task declares"]
    (case,) = entry["cases"]
    assert (case["case"], case["counted_ns"], case["floor_ns"]) == (0, 510.0, 900.0)


def test_the_docket_comes_in_pages(client, judging) -> None:
    for number in range(3):
        _, review = flagged(judging, f"user{number}")
        decide(judging, review, "released")
    first = client.get(DOCKET, params={"limit": 2}).json()
    assert [each["user"] for each in first["items"]] == ["user2", "user1"]
    second = client.get(DOCKET, params={"limit": 2, "after": first["next"]}).json()
    assert [each["user"] for each in second["items"]] == ["user0"]
    assert second["next"] is None


def test_the_status_has_devices_queues_and_incidents_and_names_no_machine(client, db, clock, judging) -> None:
    judging.submit()
    dispatchers.check_in(
        db, owner="me", devices=[make_device(slots=2)], started_at=NOW, draining=False, now=NOW
    )
    pauses.pause(db, OPERATOR, scope="service", reason="move to another room", now=clock())
    pauses.pause(db, OPERATOR, scope="leaderboard", key="double", reason="private words", now=clock())
    out = UnfitDevice("GPU 0: its clocks are throttled", gpus=["0"])
    outages.take_out(db, out, device="H100", now=clock(), machine="box-7")
    answer = client.get(STATUS)
    found = answer.json()
    assert found["paused"] == "move to another room"
    devices = {each["device"]: each for each in found["devices"]}
    assert (devices["H100"]["queued"], devices["H100"]["out_of_service"]) == (1, 1)
    assert devices["MI300"]["dispatchers"] == 0
    assert {(each["kind"], each["device"], each["open"]) for each in found["incidents"]} == {
        ("maintenance", "", True),
        ("outage", "H100", True),
    }
    assert found["since"] == (NOW - timedelta(days=14)).isoformat().replace("+00:00", "Z")
    assert found["version"] == __version__
    for secret in ("box-7", "operator", "private words", "double"):
        assert secret not in answer.text
