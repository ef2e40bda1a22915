"""A class as its teacher sees it."""

from __future__ import annotations

import csv
import html
import io
from typing import Any

import pytest
from playwright.sync_api import expect
from test_admin_pages import judged, post

from builders import NOW, make_board
from kernelcup.app.courses import membership
from kernelcup.app.people import accounts
from kernelcup.domain import OPERATOR, Role, Visibility

PAGE = "/c/double/people"
LIST = "user,label,name,pseudonym\nada,1001,Ada L.,quiet fox\n,<script>alert(1)</script>,,\n"


@pytest.fixture
def people(db, person) -> dict[str, Any]:
    """A members-only leaderboard of grace's; ada is in the class and has a result."""
    found = {
        "ada": person("ada"),
        "bob": person("bob"),
        "eve": person("eve", Role.CREATOR),
        "grace": person("grace", Role.CREATOR),
    }
    make_board(db, creator="grace", visibility=Visibility.CLOSED, pseudonymous=True)
    membership.add_member(db, OPERATOR, "double", "ada", pseudonym="fox", now=NOW)
    judged(db, "ada")
    return found


def test_a_member_reaches_the_course_from_the_first_page(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["ada"]))
    assert '<a class="chip" href="/c/double">course double</a>' in client.get("/").text


@pytest.mark.jobs
def test_a_class_list_makes_members_and_codes(visitor, people, db) -> None:
    page = visitor(people["grace"], width=360, javascript=False).open(PAGE)
    page.get_by_label("File").set_input_files(
        {"name": "class.csv", "mimeType": "text/csv", "buffer": (LIST + "bob,,,\n").encode()}
    )
    page.get_by_role("button", name="Import", exact=True).click()
    told = page.get_by_role("status")
    expect(told).to_contain_text("1 new member, 1 code for those without an account")
    expect(told).to_contain_text("<script>alert(1)</script>,")
    assert [each.user for each in membership.members(db, OPERATOR, "double")] == ["ada", "", "bob"]


def test_bad_lines_of_a_list_are_told_and_nothing_is_taken_in(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    answer = post(client, f"{PAGE}/import", csv="user\nbob\nbob\n")
    assert answer.status_code == 400
    assert "line 3: the same user as in line 2" in answer.text
    assert [each.user for each in membership.members(db, OPERATOR, "double")] == ["ada"]


def test_results_are_exported_with_those_who_have_none(client, people, signed_in, db) -> None:
    accounts.make_user(db, OPERATOR, "-1-2", role=Role.PARTICIPANT, now=NOW)
    membership.add_member(db, OPERATOR, "double", "-1-2", now=NOW)
    client.cookies.update(signed_in(people["grace"]))
    answer = client.get("/c/double/grades.csv?board=double")
    rows = {each["user"]: each for each in csv.DictReader(io.StringIO(answer.text))}
    assert (rows["ada"]["attempts"], rows["ada"]["last_verdict"]) == ("1", "accepted")
    assert rows["'-1-2"]["attempts"] == "0"
    assert "attachment" in answer.headers["content-disposition"]


def test_codes_are_made_and_revoked(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    answer = post(client, f"{PAGE}/invites", count="2", label="autumn")
    found = membership.list_invites(db, OPERATOR, "double")
    assert len(found) == 2
    assert all(each.code in answer.text for each in found)
    assert post(client, f"{PAGE}/revoke", code=found[0].code).status_code == 303
    assert len(membership.list_invites(db, OPERATOR, "double")) == 1


def test_a_course_is_made_and_gets_leaderboards(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    make_board(db, name="alone", creator="grace")
    made = post(client, "/c", name="gpu", boards="alone")
    assert (made.status_code, made.headers["location"]) == (303, "/c/gpu/people")
    assert "There already is a course" in post(client, "/c", name="GPU").text
    refused = post(client, "/c/gpu/add", board="double")
    assert "kernelcup course remove double double" in html.unescape(refused.text)
    assert post(client, "/c/gpu/remove", board="alone").status_code == 303
    assert post(client, "/admin/boards/alone/course").headers["location"] == "/c/alone/people"
    assert ">double</a>" in client.get("/c").text
    client.cookies.update(signed_in(people["bob"]))
    assert client.get("/c/gpu").status_code == 404


def test_rules_are_previewed_and_saved_and_grades_exported(client, people, signed_in, db) -> None:
    client.cookies.update(signed_in(people["grace"]))
    shown = post(client, "/c/double/rules", rules="correct 40", dry_run="yes").text
    assert "Nothing is changed yet: 1 grade would change." in shown
    assert "ada none → 40" in " ".join(shown.split())
    assert post(client, "/c/double/rules", rules="correct").status_code == 400
    assert "The rules are saved: 1 grade changed." in post(client, "/c/double/rules", rules="correct 40").text
    rows = client.get("/c/double/grades.csv?board=double").text.splitlines()
    assert rows[1].startswith(",,,ada,40,0,1,")
    assert "reaches “correct 40”: 40 points" in client.get("/c/double/grades?board=double").text
    client.cookies.update(signed_in(people["ada"]))
    own = client.get("/c/double").text
    assert "reaches “correct 40”" in own
    assert own.count("<code>correct 40</code>") == 1
    assert client.get("/c/double/grades").status_code == 403


def test_managers_see_all_submissions_and_others_their_own(client, people, signed_in, db) -> None:
    membership.add_member(db, OPERATOR, "double", "bob", now=NOW)
    client.cookies.update(signed_in(people["grace"]))
    page = client.get("/b/double/submissions?user=ada&verdict=accepted").text
    assert ">#1</a>" in page
    assert "No submission matches" in client.get("/b/double/submissions?verdict=wrong_answer").text
    assert client.get("/b/double/submissions?since=yesterday").status_code == 400
    assert post(client, "/s/1/rejudge").headers["location"] == "/s/1"
    client.cookies.update(signed_in(people["bob"]))
    assert ">#1</a>" not in client.get("/b/double/submissions?user=ada").text
    client.cookies.update(signed_in(people["ada"]))
    assert ">#1</a>" in client.get("/b/double/submissions").text


@pytest.mark.jobs
def test_a_member_is_removed_after_being_asked_again(visitor, people, db) -> None:
    page = visitor(people["grace"], width=360, javascript=False).open(PAGE)
    page.get_by_role("button", name="Remove … ada").click()
    check = membership.members(db, OPERATOR, "double")
    assert [each.user for each in check] == ["ada"]
    page.get_by_role("button", name="Remove ada").click()
    expect(page.get_by_text("No members yet.")).to_be_visible()
    assert membership.members(db, OPERATOR, "double") == []
