"""Reviews, users, devices, limits and the log, as creators and admins use them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect
from sqlalchemy import select
from test_form_security import FORMS, forms_of

from builders import NOW, make_board, make_calibration, make_report, make_submission
from kernelcup.app.machines import calibrations, machines
from kernelcup.app.people import accounts, audit_log, tokens
from kernelcup.app.queue import lifecycle
from kernelcup.app.results import reviews
from kernelcup.app.results.standings import standings
from kernelcup.app.rules import limits, pauses
from kernelcup.domain import OPERATOR, Role
from kernelcup.http.pages import routes
from kernelcup.launchers.base import MachineReading
from kernelcup.tables import Base
from kernelcup_harness.protocol import Mode

HERE = {"Origin": "http://127.0.0.1:8000"}
HTML = {"Accept": "text/html"}
EVIL = "<script>alert(1)</script>"
PAGES = (
    "/admin",
    "/admin/reviews",
    "/admin/reviews?decided=true",
    "/admin/reviews/1",
    "/admin/devices",
    "/admin/calibrations?machine=m&device=H100",
    "/admin/users",
    "/admin/users/ada",
    "/admin/limits",
    "/admin/limits?leaderboard=double",
    "/admin/audit",
)
FOR_CREATORS = (
    "/admin",
    "/admin/reviews",
    "/admin/reviews/1",
    "/admin/limits?leaderboard=double",
    "/admin/audit",
)


def judged(db, user: str) -> int:
    """Submit and judge something ranked; return its job."""
    make_submission(db, board="double", user=user, mode=Mode.LEADERBOARD)
    lease = lifecycle.claim_next(db, owner="t", lease_s=60, devices=["H100"], now=NOW)
    assert lease is not None
    lifecycle.finish(db, lease, report=make_report([2000.0]), harness_hash="f", machine="m", now=NOW)
    return lease.job.id


@pytest.fixture
def people(db, person) -> dict[str, Any]:
    """A board of grace's with a result of ada's under review, and what else admins look at."""
    found = {
        "ada": person("ada"),
        "bob": person("bob"),
        "grace": person("grace", Role.CREATOR),
        "eve": person("eve", Role.CREATOR),
        "root": person("root", Role.ADMIN),
    }
    make_board(db, creator="grace")
    case = {
        "case": 0,
        "parameters": {"size": 1024},
        "score_ns": 2000.0,
        "raw_ns": 2100.0,
        "samples_ns": [1, 2],
    }
    evidence = {"findings": [{"code": "below_floor", "text": EVIL}], "cases": [case], "note": EVIL}
    reviews.quarantine(db, OPERATOR, judged(db, "ada"), reason=f"too fast {EVIL}", evidence=evidence, now=NOW)
    limits.add_limit(db, OPERATOR, text="10/hour", now=NOW)
    pauses.pause(db, OPERATOR, scope="device", key="MI300", reason=f"repair {EVIL}", now=NOW)
    calibrations.store(db, make_calibration(20_000.0), machine="m", gpu="", device="H100", now=NOW)
    return found


def token_of(client, page: str = "/account") -> str:
    """Return the token of a page's forms."""
    found = re.search(r'name="csrf_token" value="(\w+)"', client.get(page).text)
    assert found is not None
    return found[1]


def post(client, path: str, *, page: str = "/account", **data: str):
    """Send a form with the token of a page."""
    data["csrf_token"] = token_of(client, page)
    return client.post(path, data=data, headers=HERE, follow_redirects=False)


@pytest.mark.dear("every page and form of staff, tried by others")
def test_nothing_of_staff_is_for_others(client, people, signed_in, db) -> None:
    """Every page and form for admins and creators, tried by others: nothing is shown and nothing changes."""

    def stored() -> dict[str, Any]:
        with db.read() as session:
            return {
                table.name: session.execute(select(table).order_by(*table.primary_key)).all()
                for table in Base.metadata.sorted_tables
                if table.name != "tokens"  # which note when they were used
            }

    staff = re.compile("/admin|/b/double/webhooks")
    shown = {path for path in forms_of(routes.router, "GET") if staff.match(path)} | {*PAGES}
    shown.remove("/admin/calibrations")  # PAGES has it with what it needs
    changed = [path for path in FORMS if staff.match(path)]
    own = {"/admin", "/admin/audit", "/admin/reviews", "/admin/steps", "/admin/boards/new"}
    own |= {"/admin/boards/new/shipped", "/admin/problem-sets/sync"}
    fields = {"name": "x", "role": "admin", "sure": "yes", "reason": "x", "text": "1/hour", "note": "x"}
    fields |= {
        "user": "ada",
        "until": "2030-01-31",
        "confirm": "double",
        "settings": "yes",
        "csv": "user\nbob\n",
    }
    fields |= {
        "url": "https://93.184.215.14/x",
        "decision": "released",
        "new_name": "mine",
        "code": "X",
        "names": "ada",
        "device": "H100",
    }
    for path in shown:
        assert client.get(path, headers=HTML).status_code == 401, path
    for who, allowed in (("ada", set()), ("eve", own)):
        client.cookies.update(signed_in(people[who]))
        fields["csrf_token"] = token_of(client)
        before = stored()
        for path in shown:
            if path.partition("?")[0] not in allowed:
                assert client.get(path, headers=HTML).status_code in (403, 404), (who, path)
        for path in set(changed) - allowed:
            answer = client.post(path, data=fields, headers=HERE)
            assert (answer.status_code, "csrf" in answer.text) in ((403, False), (404, False)), (who, path)
        assert stored() == before, who


def test_creators_see_what_is_theirs(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["grace"]))
    for path in PAGES:
        status = client.get(path, headers=HTML).status_code
        assert status == (200 if path in FOR_CREATORS or "decided" in path else 403), path
    client.cookies.update(signed_in(people["eve"]))
    assert client.get("/admin/reviews/1", headers=HTML).status_code in (403, 404)
    assert "double" not in client.get("/admin").text


def test_an_admin_sees_at_once_what_is_out_of_order(client, people, signed_in, db, clock) -> None:
    readings = [MachineReading(name="<b>lab", slots={"H100": 1})]
    machines.note_seen(db, readings, launcher="local", is_own=True, now=clock())
    line = '<p class="held">machine:&lt;b&gt;lab: down, last seen'
    client.cookies.update(signed_in(people["root"]))
    assert line not in client.get("/admin").text
    clock.advance(3600)
    assert line in client.get("/admin").text
    client.cookies.update(signed_in(people["grace"]))
    assert "lab: down" not in client.get("/admin").text


def test_admins_see_the_jobs_that_our_side_lost_too_often(client, people, signed_in, db) -> None:
    submission = make_submission(db, board="double", user="ada")
    for _ in range(lifecycle.MOST_LOST):
        lease = lifecycle.claim_next(db, owner="t", lease_s=60, devices=["H100"], now=NOW)
        assert lease is not None
        lifecycle.lose(db, lease, reason="its agent was killed", now=NOW)
    for name, is_told in (("root", True), ("grace", False)):
        client.cookies.update(signed_in(people[name]))
        assert ("its agent was killed" in client.get("/admin").text) == is_told
    client.cookies.update(signed_in(people["root"]))
    assert "waits for an admin" in client.get(f"/s/{submission.id}").text


def test_scripts_in_names_reasons_and_evidence_are_text(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["root"]))
    told = "".join(client.get(path).text for path in PAGES)
    assert "<script>alert" not in told
    assert told.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 4


@pytest.mark.jobs
def test_a_reviewer_accepts_a_result_with_a_reason(visitor, people, db) -> None:
    page = visitor(people["grace"], javascript=False).open("/admin")
    page.get_by_role("link", name="#1 by ada").click()
    expect(page.get_by_role("region", name="Evidence")).to_contain_text("below_floor")
    expect(page.get_by_role("region", name="Code")).to_contain_text("custom_kernel")
    assert standings(db, "double", "H100") == []
    page.get_by_label("Why").fill("the floor was wrong <b>")
    page.get_by_role("button", name="Accept").click()
    expect(page.get_by_text("Accepted by grace")).to_be_visible()
    assert [each.user for each in standings(db, "double", "H100")] == ["ada"]
    assert reviews.get_review(db, OPERATOR, 1).note == "the floor was wrong <b>"


def test_a_reviewer_rejects_a_result_and_says_why(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["root"]))
    path = "/admin/reviews/1/decision"
    assert post(client, path, decision="rejected", note=" ").status_code == 400
    assert post(client, path, decision="maybe", note="x").status_code == 400
    assert reviews.get_review(db, OPERATOR, 1).decision is None
    assert post(client, path, decision="rejected", note="it replays its answer").status_code == 303
    assert reviews.get_review(db, OPERATOR, 1).decision == "rejected"
    assert post(client, path, decision="released", note="x").status_code == 409


@pytest.mark.dear("Chromium starts")
def test_an_admin_bans_after_being_asked_again(visitor, people, db) -> None:
    page = visitor(people["root"], width=360, javascript=False).open("/admin/users/ada")
    page.get_by_role("button", name="Ban …").click()
    assert accounts.get_user(db, OPERATOR, "ada").banned_at is None
    page.get_by_label("Why").fill("spam")
    page.get_by_role("button", name="Ban ada").click()
    expect(page.get_by_text("spam")).to_be_visible()
    assert accounts.get_user(db, OPERATOR, "ada").ban_reason == "spam"
    page.get_by_role("button", name="Lift the ban").click()
    assert accounts.get_user(db, OPERATOR, "ada").banned_at is None


def test_an_admin_gives_roles_and_makes_users(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["root"]))
    assert post(client, "/admin/users/bob/role", role="creator").status_code == 303
    assert tokens.authenticate(db, people["bob"].token, now=NOW).role is Role.CREATOR
    assert post(client, "/admin/users", name="carol").headers["location"] == "/admin/users/carol"
    assert post(client, "/admin/users", name="carol").status_code == 400
    assert "carol" in client.get("/admin/users?query=car").text
    assert "carol" not in client.get("/admin/users?query=ada").text


def test_an_admin_pauses_a_device_and_the_service(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["root"]))
    assert post(client, "/admin/devices/H100/pause", reason="new driver").status_code == 303
    assert post(client, "/admin/service/pause", reason="moving").status_code == 303
    assert {(each.scope.value, each.reason) for each in pauses.list_pauses(db)} >= {
        ("device", "new driver"),
        ("service", "moving"),
    }
    assert "moving" in client.get("/admin/devices").text
    assert post(client, "/admin/service/unpause").status_code == 303
    assert post(client, "/admin/devices/H100/unpause").status_code == 303
    assert [each.key for each in pauses.list_pauses(db)] == ["mi300"]


def test_limits_are_added_and_removed(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    assert post(client, "/admin/limits", text="5/hour").status_code == 403
    assert post(client, "/admin/limits", text="many", leaderboard="double").status_code == 400
    answer = post(client, "/admin/limits", text="5/hour", leaderboard="double", mode_group="ranked")
    assert answer.headers["location"] == "/admin/limits?leaderboard=double"
    (made,) = limits.list_limits(db, OPERATOR, board="double")
    assert "5 ranked submissions per hour" in client.get(answer.headers["location"]).text
    assert post(client, f"/admin/limits/{made.id}/remove", leaderboard="double").status_code == 303
    assert limits.list_limits(db, OPERATOR, board="double") == []


def test_the_log_has_what_was_done_and_comes_in_pages(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["root"]))
    for number in range(55):
        accounts.make_user(db, OPERATOR, f"user-{number}", role=Role.PARTICIPANT, now=NOW)
    first = client.get("/admin/audit?action=user.create").text
    (older,) = re.findall(r'href="(/admin/audit\?[^"]+)" rel="next"', first)
    second = client.get(older.replace("&amp;", "&")).text
    assert "user:user-54" in first
    assert "user:user-0<" in second
    assert ">role participant</td>" in first
    assert len(audit_log.entries(db, OPERATOR, action="user.create", limit=100)) == 55
