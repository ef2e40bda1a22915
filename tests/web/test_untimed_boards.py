"""What readers see of a ranking where times mean nothing."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

import pytest

from builders import make_board, make_case, make_report, make_stage, make_wall_report
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.courses import membership
from kernelcup.domain import OPERATOR, Role
from kernelcup.reporting.phrases import UNTIMED
from kernelcup_harness.protocol import Backend, RunReport, Timing, TrustLevel

COPIES = {"ada": 12.9e6, "bob": 2.3e6, "cyn": 271e6, "dan": 5.4e6, "eve": 3.1e6}
"""What five copies of one file took on an emulated device, in nanoseconds."""


def emulated(time_ns: float, backend: Backend = Backend.EMULATED) -> RunReport:
    timing = Timing(samples_ns=[time_ns, 1.01 * time_ns] * 8)
    return make_report(
        stages=[make_stage([make_case(timing=timing, reference_ns=2 * time_ns)])],
        backend=backend,
        comparable=backend is not Backend.EMULATED,
        trust=TrustLevel.WALL_CLOCK,
    )


def enter(judging: Judging, user: str, report: RunReport, device: str) -> None:
    judging.submit(user, devices=[device])
    judging.finish(judging.claim(device), report=report)
    judging.clock.advance(60)


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, devices=["emulated", "H100"], creator="grace")
    return Judging(db, clock)


@pytest.fixture
def copies(judging) -> Judging:
    """Five copies of one file on an emulated device."""
    for user, time_ns in COPIES.items():
        enter(judging, user, emulated(time_ns), "emulated")
    return judging


def csv_of(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.text)))


def test_page_has_one_rank_no_time_no_interval_and_no_chart(client, copies) -> None:
    page = client.get("/b/double?device=emulated").text
    assert f"{UNTIMED.capitalize()}." in page
    assert page.count(">correct</td>") == 5
    assert page.count('<td class="n rank">1</td>') == 1
    assert page.count("1, shared") == 4
    assert 'id="plot"' not in page
    assert "±" not in page
    assert "2.300" not in page
    assert "No time ranks on emulated yet" in client.get("/b/double/history?device=emulated").text
    assert "2.3" not in client.get("/b/double/badge.svg?user=bob&device=emulated").text
    assert client.get("/b/double/card.png?device=emulated").status_code == 200


def test_tables_for_programs_have_the_rank_and_no_time(client, copies, db, person, signed_in) -> None:
    rows = csv_of(client.get("/b/double/standings.csv?device=emulated"))
    assert [(row["rank"], row["user"], row["seconds"], row["ranked_by"]) for row in rows] == [
        ("1", user, "", "correctness") for user in COPIES
    ]
    for user in COPIES:
        membership.add_member(db, OPERATOR, "double", user, now=copies.clock())
    client.cookies.update(signed_in(person("root", Role.ADMIN)))
    rows = csv_of(client.get("/admin/boards/double/results.csv"))
    assert [(row["user"], row["rank"], row["seconds"], row["low_s"], row["ranked_by"]) for row in rows] == [
        (user, "1", "", "", "correctness") for user in COPIES
    ]


def test_api_says_what_ranks_and_keeps_the_score(client, copies) -> None:
    found = client.get("/api/v1/leaderboards/double/standings/emulated").json()["items"]
    assert [(each["rank"], each["user"], each["ranked_by"]) for each in found] == [
        (1, user, "correctness") for user in COPIES
    ]
    assert found[1]["score_s"] == pytest.approx(2.3115e-3)
    assert {each["low_s"] for each in found} == {None}
    assert client.get("/api/v1/leaderboards/double/standings/emulated/history").json()["items"] == []


def test_existing_client_gets_a_score_and_the_first_rank_for_all(client, copies) -> None:
    found = client.get("/submissions/double/emulated").json()
    assert [(each["user_name"], each["rank"], each["note"]) for each in found] == [
        (user, 1, UNTIMED) for user in COPIES
    ]
    assert found[1]["submission_score"] == pytest.approx(2.3115e-3)


def test_overview_and_profile_tell_no_time(client, copies, person, signed_in) -> None:
    assert "2.3" not in client.get("/").text
    client.cookies.update(signed_in(person("bob")))
    profile = client.get("/u/bob").text
    assert ">correct</td>" in profile
    assert "You" in client.get("/b/double?device=emulated").text


def test_the_setting_has_times_of_a_processor_rank_and_is_shown(client, db, clock) -> None:
    make_board(db, devices=["cpu"], cpu_times=True)
    judging = Judging(db, clock)
    for user, time_ns in COPIES.items():
        enter(judging, user, emulated(time_ns, Backend.CPU), "cpu")
    assert client.get("/api/v1/leaderboards/double").json()["cpu_times"] is True
    page = client.get("/b/double?device=cpu").text
    assert re.findall(r">(\w+)</a> <a class=\"minor file\"", page) == ["bob", "eve", "dan", "ada", "cyn"]
    assert 'id="plot"' in page
    assert "Times without a GPU rank." in client.get("/b/double/rules").text
    update_board(db, OPERATOR, "double", now=clock(), changes=BoardChanges(cpu_times=False))
    rows = csv_of(client.get("/b/double/standings.csv"))
    assert [(row["rank"], row["user"]) for row in rows] == [("1", user) for user in COPIES]
    assert "Without a GPU all correct results share the first place." in client.get("/b/double/rules").text


def test_a_wide_interval_is_shown_as_a_range_with_what_it_ranks_by(client, judging) -> None:
    timing = Timing(samples_ns=[2e6, 2.1e6, 2.2e6, 40e6] * 2)
    enter(judging, "ada", make_report(stages=[make_stage([make_case(timing=timing)])]), "H100")
    enter(judging, "bob", make_wall_report(8e6), "H100")
    page = client.get("/b/double?device=H100").text
    (place,) = (
        each
        for each in client.get("/api/v1/leaderboards/double/standings/H100").json()["items"]
        if each["user"] == "ada"
    )
    assert place["ranked_by"] == "upper_end"
    assert f"{place['low_s'] * 1e3:.3f} to {place['high_s'] * 1e3:.3f}" in page
    assert "ranked by its upper end" in page
    note = next(each for each in client.get("/submissions/double/H100").json() if each["user_name"] == "ada")[
        "note"
    ]
    assert note == "ranked by its upper end"
