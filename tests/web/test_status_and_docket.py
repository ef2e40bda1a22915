"""Pages of trust: the state of the service, and what became of flagged results."""

from __future__ import annotations

import re

import pytest
from looks import check_page

from builders import NOW, make_board, make_device
from hand_judging import Judging, decide, flagged
from kernelcup.app.machines import dispatchers, outages
from kernelcup.app.results import reviews
from kernelcup.app.rules import pauses
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.domain import OPERATOR
from kernelcup.errors import UnfitDevice
from kernelcup.tables import DeviceCalibrationRow

OTHER_CODE = b"def custom_kernel(data):\n    return data + data\n"
"""Code that was rejected once is flagged when it is sent again."""


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


def words(client, address: str, **options) -> str:
    """Return a page's text."""
    answer = client.get(address, **options)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.text.partition("<main")[2]))


def test_a_flagged_result_names_nobody_until_a_person_has_decided(client, judging) -> None:
    submission, review = flagged(judging)
    told = words(client, "/docket")
    assert "double on H100 " in told
    assert "waits for a person" in told
    assert "it is faster than this device can do what the task declares" in told
    assert "bob" not in told
    assert f"#{submission.id}" not in told
    decide(judging, review, "rejected")
    told = words(client, "/docket")
    assert f"#{submission.id} by bob rejected" in told
    assert "it does not rank" in told
    assert "510 ns" in told  # what counts
    assert "900 ns" in told  # what the device needs at least


def test_a_released_result_says_so(client, judging) -> None:
    submission, review = flagged(judging)
    decide(judging, review, "released")
    told = words(client, "/docket")
    assert f"#{submission.id} by bob released" in told
    assert "it ranks as any other" in told


def test_of_a_deleted_result_the_outcome_is_left_and_no_name(client, judging) -> None:
    submission, review = flagged(judging)
    decide(judging, review, "rejected")
    judging.clock.advance(60)
    delete_submission(judging.db, submission.id, by=OPERATOR, now=judging.clock())
    told = words(client, "/docket")
    assert f"#{submission.id} rejected deleted" in told
    assert "its code, report and evidence are gone" in told
    assert "bob" not in told
    assert f'href="/s/{submission.id}"' not in client.get("/docket").text


def test_the_docket_comes_in_pages(client, judging, monkeypatch) -> None:
    from kernelcup.http.pages import docket

    monkeypatch.setattr(docket, "SHOWN", 2)
    for number in range(3):
        submission = judging.judge(1000, f"user{number}", content=OTHER_CODE + b"#" * number)
        review = reviews.quarantine(
            judging.db, OPERATOR, judging.job(submission).id, reason="odd", evidence={}, now=judging.clock()
        )
        decide(judging, review, "rejected")
    assert re.findall(r"by (user\d)", words(client, "/docket")) == ["user2", "user1"]
    assert re.findall(r"by (user\d)", words(client, "/docket?before=2")) == ["user0"]
    assert 'href="/docket?before=2"' in client.get("/docket").text


def test_the_status_shows_devices_and_what_waits(client, db, clock, judging) -> None:
    judging.submit()
    devices = [make_device(slots=2)]
    dispatchers.check_in(db, owner="me", devices=devices, started_at=NOW, draining=False, now=NOW)
    told = words(client, "/status")
    assert "The service accepts submissions." in told
    assert re.search(r"H100 serving 1 0 ", told)
    assert re.search(r"MI300 no machine connected 0 0 ", told)
    assert "No incident and no maintenance." in told


def test_maintenance_drifts_and_outages_are_listed_and_name_no_machine(client, db, clock, judging) -> None:
    pauses.pause(db, OPERATOR, scope="device", key="h100", reason="new driver", now=clock())
    clock.advance(3600)
    pauses.unpause(db, OPERATOR, scope="device", key="h100", now=clock())
    pauses.pause(db, OPERATOR, scope="service", reason="move to another room", now=clock())
    pauses.pause(db, OPERATOR, scope="leaderboard", key="double", reason="private words", now=clock())
    with db.write() as session:
        for fits, hours in ((True, 0), (False, 1)):
            at = NOW.replace(hour=NOW.hour + hours)
            session.add(
                DeviceCalibrationRow(
                    machine="box-7", gpu="0", device="H100", at=at, fits=fits, fresh=False, found={}
                )
            )
    outages.take_out(
        db,
        UnfitDevice("GPU 0: its clocks are throttled", gpus=["0"]),
        device="H100",
        now=clock(),
        machine="box-7",
    )
    told = words(client, "/status")
    assert "accepts no submissions now: move to another room." in told
    assert "maintenance h100 1 Jun 2026, 12:00 UTC 1 Jun 2026, 13:00 UTC new driver" in told
    assert "maintenance the service 1 Jun 2026, 13:00 UTC still open move to another room" in told
    assert "drift H100 1 Jun 2026, 13:00 UTC still open" in told
    assert "outage H100 1 Jun 2026, 13:00 UTC still open GPU 0: its clocks are throttled" in told
    assert "1 of 2" in told
    for secret in ("box-7", "operator", "private words", "double"):
        assert secret not in told
    clock.advance(15 * 24 * 3600)
    told = words(client, "/status")
    assert "new driver" not in told
    assert "drift" not in told.lower().partition("the last 14 days")[2]


@pytest.mark.jobs
def test_the_pages_fit_and_are_accessible(visitor, judging) -> None:
    _, review = flagged(judging)
    decide(judging, review, "rejected")
    pauses.pause(judging.db, OPERATOR, scope="device", key="H100", reason="new driver", now=judging.clock())
    browser = visitor()
    for address in ("/status", "/docket"):
        check_page(browser.open(address))
