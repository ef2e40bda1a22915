"""Leaderboards made, changed and deleted in the browser."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from looks import check_page, check_width
from playwright.sync_api import expect
from test_admin_pages import judged, post

from builders import (
    NOW,
    REFERENCE,
    make_board,
    make_calibration,
    make_report,
    make_submission,
    make_task,
    zip_of,
)
from kernelcup.app.boards import boards, changes
from kernelcup.app.boards.deadlines import parse_deadline
from kernelcup.app.boards.judgeable import Tried
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.machines import calibrations
from kernelcup.app.people import audit_log
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import finals
from kernelcup.app.results.standings import standings
from kernelcup.app.rules import pauses
from kernelcup.domain import OPERATOR, Actor, Role, Task, Visibility
from kernelcup.errors import NotFound
from kernelcup.http.pages.admin import manage
from kernelcup.http.state import Platform
from kernelcup.tasks.writer import files_of
from kernelcup_harness.protocol import Mode, TrustLevel

YML = """\
description: "<script>alert(1)</script>"
lang: py
files:
  - {name: submission.py, source: "@SUBMISSION@"}
  - {name: reference.py, source: reference.py}
tests:
  - {size: 16, seed: 1}
benchmarks:
  - {size: 1024, seed: 2}
"""
TASK = {"copy/task.yml": YML.encode(), "copy/reference.py": REFERENCE.encode()}
BROKEN = TASK | {"copy/task.yml": YML.replace("seed: 1}", "seed: [1]}").encode()}


@pytest.fixture
def people(db, person) -> dict[str, Any]:
    """A leaderboard of grace's on which ada stands."""
    found = {
        "ada": person("ada"),
        "eve": person("eve", Role.CREATOR),
        "grace": person("grace", Role.CREATOR),
        "root": person("root", Role.ADMIN),
    }
    make_board(db, creator="grace")
    judged(db, "ada")
    return found


def packed(files: dict[str, bytes], name: str = "copy.zip") -> dict[str, Any]:
    """Return a zip as a browser's file input gives it."""
    return {"name": name, "mimeType": "application/zip", "buffer": zip_of(files)}


@pytest.mark.jobs
def test_a_board_is_made_from_a_zip_once_its_errors_are_gone(visitor, people, db) -> None:
    somebody = visitor(people["grace"], width=360, javascript=False)
    somebody.expects_refusal = True
    page = somebody.open("/admin/boards/new")
    page.get_by_label("Task (.zip of its folder)").set_input_files(packed(BROKEN))
    page.get_by_label("Name (empty: the task's)").fill("copied")
    page.get_by_label("H100").first.check()
    page.get_by_role("button", name="Make the leaderboard").click()
    told = page.get_by_role("alert")
    expect(told).to_contain_text(re.compile(r"task\.yml:7"))
    expect(told).to_contain_text("seed")
    expect(page.get_by_label("Name (empty: the task's)")).to_have_value("copied")
    expect(page.get_by_label("H100").first).to_be_checked()
    page.get_by_label("Task (.zip of its folder)").set_input_files(packed(TASK))
    page.get_by_role("button", name="Make the leaderboard").click()
    expect(page.get_by_role("heading", name="copied")).to_be_visible()
    made = boards.get_board(db, "copied")
    assert (made.creator, made.devices) == ("grace", ("H100",))


@pytest.mark.jobs
def test_while_a_task_is_tried_the_page_says_so_and_counts(visitor, people) -> None:
    page = visitor(people["grace"]).open("/admin/boards/new")
    page.evaluate("document.addEventListener('submit', event => event.preventDefault())")
    page.get_by_label("Task (.zip of its folder)").set_input_files(packed(TASK))
    button = page.get_by_role("button", name="Make the leaderboard")
    button.click()
    told = page.locator("form[data-busy] [data-told]").nth(1)
    expect(told).to_contain_text(re.compile(r"The task is being tried.*[1-9] s so far"))
    expect(button).to_be_disabled()
    page.evaluate("dispatchEvent(new Event('pageshow'))")
    expect(button).to_be_enabled()


@pytest.mark.jobs
def test_the_steps_of_a_trial_are_shown_to_its_maker_only(visitor, people, platform) -> None:
    page = visitor(people["grace"]).open("/admin/boards/new")
    # While a form is on its way, Playwright looks at nothing: so the form stays, and the request is made here.
    page.evaluate("document.addEventListener('submit', event => event.preventDefault())")
    page.get_by_label("Task (.zip of its folder)").set_input_files(packed(TASK))
    with platform.steps.of(people["grace"].actor):
        platform.steps.say("copy: inputs and reference on H100")
        platform.steps.say("copy: null submissions on H100")
        page.get_by_role("button", name="Make the leaderboard").click()
        told = page.locator("form[data-busy] [data-told]").nth(1)
        expect(told).to_contain_text(
            re.compile(r"reference on H100: \d s\ncopy: null submissions on H100: \d s")
        )
        assert visitor(people["root"]).open("/admin/steps").locator("body").inner_text() == "[]"


class SayingTrial:
    """A trial that says a step, and notes what its maker would see."""

    def __init__(self, platform: Platform, maker: Actor) -> None:
        self._steps, self._maker = platform.steps, maker
        self.seen: list[str] = []

    def try_task(self, task: Task, devices: Sequence[str], *, solutions: bool) -> Tried:
        self._steps.say(f"{task.name} on {devices[0]}")
        self.seen += [text for text, _ in self._steps.latest(self._maker)]
        return Tried()


class DoubtingTrial:
    """Finds that a task's checker accepts what is wrong."""

    def try_task(self, task: Task, devices: Sequence[str], *, solutions: bool) -> Tried:
        return Tried(loose=("the checker accepts `zeros` in tests.0",))


def test_what_its_maker_has_to_know_is_shown_with_a_new_leaderboard(
    client, people, signed_in, platform
) -> None:
    client.cookies.update(signed_in(people["grace"]))
    platform.trial = DoubtingTrial()
    sent = {"page": "/admin/boards/new", "shipped": "vectoradd"}
    refused = post(client, "/admin/boards/new/shipped", **sent)
    assert refused.status_code == 400
    assert "the checker accepts `zeros` in tests.0" in refused.text
    assert refused.text.count("do it anyway") == 1
    made = post(client, "/admin/boards/new/shipped", **sent, force="yes")
    assert made.status_code == 201
    assert "The leaderboard is made." in made.text
    assert "the checker accepts `zeros` in tests.0" in made.text


@pytest.mark.jobs
def test_a_checker_that_accepts_wrong_answers_is_confirmed_with_the_file_kept(
    visitor, people, platform
) -> None:
    platform.trial = DoubtingTrial()
    somebody = visitor(people["grace"], javascript=False)
    somebody.expects_refusal = True
    page = somebody.open("/admin/boards/new")
    page.get_by_label("Task (.zip of its folder)").set_input_files(packed(TASK))
    page.get_by_label("H100").first.check()
    page.get_by_role("button", name="Make the leaderboard").click()
    expect(page.get_by_role("alert")).to_contain_text("the checker accepts `zeros` in tests.0")
    page.get_by_label("do it anyway").check()
    page.get_by_role("button", name="Make the leaderboard").click()
    expect(page.locator("body")).to_contain_text("The leaderboard is made.")
    page.get_by_label("New version (.zip of its folder)").set_input_files(
        packed(TASK | {"copy/reference.py": TASK["copy/reference.py"] + b"# new\n"})
    )
    page.get_by_role("button", name="Show what changes").nth(1).click()
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("alert")).to_contain_text("the checker accepts `zeros` in tests.0")
    page.get_by_label("do it anyway").check()
    page.get_by_role("button", name="Change it").click()
    expect(page.locator("body")).to_contain_text("The leaderboard is changed.")


def test_a_trial_says_its_steps_to_its_maker(client, people, signed_in, platform) -> None:
    client.cookies.update(signed_in(people["grace"]))
    platform.trial = trial = SayingTrial(platform, people["grace"].actor)
    made = post(client, "/admin/boards/new/shipped", page="/admin/boards/new", shipped="vectoradd")
    assert made.status_code == 201
    assert trial.seen == ["vectoradd on H100"]
    assert platform.steps.latest(people["grace"].actor) == []


def test_the_page_of_a_new_leaderboard_says_that_counters_are_locked(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    found = make_calibration(no_counters="locked")
    calibrations.store(db, found, machine="box", gpu="0", device="H100", now=NOW)
    made = post(client, "/admin/boards/new/shipped", page="/admin/boards/new", shipped="vectoradd")
    assert made.status_code == 201
    page = client.get("/admin/boards/vectoradd").text
    assert "H100: not all of its machines let the judge read" in page
    assert 'href="/docs/how-to/run-on-a-gpu-machine.html#hardware-counters"' in page


@pytest.mark.jobs
def test_a_change_is_shown_before_it_is_made(visitor, people, db) -> None:
    page = visitor(people["grace"], javascript=False).open("/admin/boards/double")
    page.get_by_role("textbox", name="Deadline").fill("2030-01-31T23:30")
    page.get_by_label("Who sees it").select_option("closed")
    page.get_by_role("button", name="Show what changes").first.click()
    rules = page.get_by_role("region", name="Rules that change")
    expect(rules.get_by_role("row")).to_have_count(3)
    expect(rules).to_contain_text("31 Jan 2030, 23:30 UTC")
    expect(page.get_by_text("No rank changes.")).to_be_visible()
    assert boards.get_board(db, "double").deadline is None
    page.get_by_role("button", name="Change it").click()
    changed = boards.get_board(db, "double")
    assert changed.visibility is Visibility.CLOSED
    assert f"{changed.deadline:%Y-%m-%d %H:%M:%S}" == "2030-01-31 23:30:00"


@pytest.mark.jobs
def test_a_deadline_of_the_command_line_is_changed_in_the_browsers_zone(visitor, people, db) -> None:
    end = parse_deadline("2030-07-31 AoE", NOW)
    changes.update_board(db, OPERATOR, "double", changes=BoardChanges(deadline=end), now=NOW)
    somebody = visitor(people["grace"])
    page = somebody.open("/admin/boards/double")
    deadline = page.get_by_label("Deadline (Europe/Berlin; empty: none)")
    expect(deadline).to_have_value("2030-08-01T13:59:59")
    page.get_by_role("button", name="Show what changes").first.click()
    expect(page.get_by_text("nothing would change")).to_be_visible()
    somebody.open("/admin/boards/double", page)
    deadline.fill("2030-07-31T20:00")
    page.get_by_role("button", name="Show what changes").first.click()
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("heading", name="double")).to_be_visible()
    assert boards.get_board(db, "double").deadline == datetime(2030, 7, 31, 18, tzinfo=UTC)
    somebody.open("/admin/boards/double", page)
    deadline.fill("")
    page.get_by_role("button", name="Show what changes").first.click()
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("heading", name="double")).to_be_visible()
    assert boards.get_board(db, "double").deadline is None


@pytest.mark.jobs
def test_a_form_that_says_what_is_changes_nothing(visitor, people) -> None:
    page = visitor(people["grace"], width=360, javascript=False).open("/admin/boards/double")
    page.get_by_role("button", name="Show what changes").first.click()
    expect(page.get_by_text("nothing would change")).to_be_visible()


@pytest.mark.jobs
def test_a_new_task_shows_who_leaves_the_ranking_and_judges_again(visitor, people, db) -> None:
    task = make_task(benchmarks=[{"size": 4096, "seed": 3}])
    page = visitor(people["grace"], width=360).open("/admin/boards/double")
    page.get_by_label("New version").set_input_files(packed(files_of(task)))
    page.get_by_role("button", name="Show what changes").last.click()
    moving = page.get_by_role("region", name="Ranks that change on H100")
    expect(moving.get_by_role("row").nth(1)).to_contain_text(re.compile(r"ada\s*1\s*leaves"))
    expect(page.get_by_text("a case was changed")).to_contain_text("size 1024, seed 2 → size 4096, seed 3")
    check_page(page)
    assert [each.user for each in standings(db, "double", "H100")] == ["ada"]
    page.get_by_role("button", name="Change it").click()
    expect(page.get_by_role("heading", name="double")).to_be_visible()
    assert boards.get_task(db, "double").benchmarks == [{"size": 4096, "seed": 3}]
    assert standings(db, "double", "H100") == []


@pytest.mark.jobs
def test_each_rank_that_changes_is_shown_before_and_after(
    visitor, people, db, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_submission(db, board="double", user="fox", mode=Mode.LEADERBOARD)
    lease = lifecycle.claim_next(db, owner="t", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    report = make_report([1000.0], trust=TrustLevel.SELF_MEASURED)
    lifecycle.finish(db, lease, report=report, harness_hash="f", machine="m", now=NOW)

    def preview() -> Any:
        page = visitor(people["grace"], width=360, javascript=False).open("/admin/boards/double")
        page.get_by_label("Accepted clocks").select_option("replayed")
        page.get_by_role("button", name="Show what changes").first.click()
        return page

    page = preview()
    rows = page.get_by_role("region", name="Ranks that change on H100").get_by_role("row")
    expect(page.get_by_text("H100, 2 ranked: 1 user leaves, 1 user gets another rank")).to_be_visible()
    expect(rows.nth(1)).to_contain_text(re.compile(r"fox\s*1\s*leaves"))
    expect(rows.nth(2)).to_contain_text(re.compile(r"ada\s*2\s*1"))
    check_width(page)
    monkeypatch.setattr(manage, "MOST_MOVES", 1)
    page = preview()
    expect(page.get_by_text("And 1 more.")).to_be_visible()
    assert page.get_by_role("region", name="Ranks that change on H100").get_by_role("row").count() == 2


def test_a_change_after_another_one_is_refused(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    fields = {"settings": "yes", "devices": "H100", "visibility": "closed", "code_policy": "never"}
    fields |= {"trust": "any", "harness": "standard", "share": "1.0", "after_deadline": "unranked"}
    fields["event_weight"] = "1"
    answer = post(client, "/admin/boards/double/update", fingerprint="old", **fields)
    assert answer.status_code == 400
    assert "changed since" in answer.text
    assert boards.get_board(db, "double").visibility is Visibility.PUBLIC


def test_what_cannot_be_a_rule_is_told_and_kept_in_the_form(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["grace"]))
    fields = {"settings": "yes", "devices": "H100", "deadline": '"><script>alert(1)</script>'}
    answer = post(client, "/admin/boards/double/preview", **fields)
    assert answer.status_code == 400
    assert "is not a date or time" in answer.text
    assert "<script>alert" not in answer.text


@pytest.mark.jobs
def test_results_are_judged_again_after_a_look(visitor, people, db) -> None:
    page = visitor(people["grace"], width=360, javascript=False).open("/admin/boards/double/rejudge")
    page.get_by_role("button", name="Judge 1 job again").click()
    expect(page.get_by_role("heading", name="double")).to_be_visible()
    assert '<td class="n">1</td>' in page.context.request.get(page.url.split("/admin")[0] + "/queue").text()


def test_a_board_is_paused_frozen_and_unveiled(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    assert post(client, "/admin/boards/double/pause", reason="<b>exam</b>").status_code == 303
    assert "&lt;b&gt;exam" in client.get("/admin/boards/double").text
    assert post(client, "/admin/boards/double/unpause").status_code == 303
    assert pauses.list_pauses(db) == []
    assert post(client, "/admin/boards/double/freeze").status_code == 303
    assert boards.get_board(db, "double").freeze_at == NOW
    assert post(client, "/admin/boards/double/unveil").status_code == 303
    assert boards.get_board(db, "double").freeze_at is None


@pytest.mark.jobs
def test_a_board_is_closed_and_its_final_is_begun_on_its_page(visitor, people, db, clock) -> None:
    make_submission(db, board="double", user="bob")
    lease = lifecycle.claim_next(db, owner="t", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    lifecycle.finish(db, lease, report=make_report([1100.0]), harness_hash="f", machine="m", now=NOW)
    page = visitor(people["grace"], width=390, javascript=False).open("/admin/boards/double")
    page.get_by_text("Close now").click()
    page.get_by_role("button", name="Close double").click()
    assert boards.get_board(db, "double").deadline == NOW
    clock.advance(60)
    page.reload()
    check_width(page)
    page.get_by_role("button", name="Hold the final").click()
    expect(page.get_by_text("The final is being held")).to_be_visible()
    assert finals.show(db, "double", "H100", now=clock()) is not None


def test_a_final_that_cannot_be_and_a_name_that_cannot_be_are_told(
    client, people, signed_in, db, clock
) -> None:
    make_board(db, name="taken")
    client.cookies.update(signed_in(people["grace"]))
    for action, fields, told in (
        ("final", {}, "its final comes after that"),
        ("final", {"device": "TPU"}, "TPU"),
        ("rename", {"new_name": "taken"}, "already is a leaderboard"),
        ("rename", {"new_name": "<b>"}, "expected at most 64 letters"),
    ):
        answer = post(client, f"/admin/boards/double/{action}", **fields)
        assert (answer.status_code, told in answer.text) == (400, True), action


def test_a_renamed_board_keeps_its_results_and_leaves_its_old_address(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    answer = post(client, "/admin/boards/double/rename", new_name="Twice")
    assert answer.headers["location"] == "/admin/boards/Twice"
    assert [each.user for each in standings(db, "twice", "H100")] == ["ada"]
    assert client.get("/b/double").status_code == 404
    assert post(client, "/admin/boards/twice/rename", new_name="twice").status_code == 303
    (entry,) = audit_log.entries(db, OPERATOR, target="board:Twice")
    assert entry.detail == {"before": "double"}


def test_a_board_is_deleted_only_by_its_name(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    assert post(client, "/admin/boards/double/delete", confirm="doubl").status_code == 400
    assert boards.get_board(db, "double").name == "double"
    assert post(client, "/admin/boards/double/delete", confirm="double").status_code == 303
    with pytest.raises(NotFound):
        boards.get_board(db, "double")
