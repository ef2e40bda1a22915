"""Tokens of other users, and figures of the service and its leaderboards, in the browser."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import expect
from test_admin_pages import EVIL, HTML, judged, post

from builders import NOW, make_board
from kernelcup.app.access import HERE
from kernelcup.app.people import tokens
from kernelcup.domain import OPERATOR, Role, Scope
from kernelcup.errors import SignInNeeded

FIGURES = "/admin/figures"
OF_BOARD = "/admin/figures?leaderboard=double"


@pytest.fixture
def people(db, person) -> dict[str, Any]:
    """A leaderboard of grace's on which ada stands; ada has a token with an odd name."""
    found = {
        "ada": person("ada"),
        "eve": person("eve", Role.CREATOR),
        "grace": person("grace", Role.CREATOR),
        "root": person("root", Role.ADMIN),
    }
    make_board(db, creator="grace")
    judged(db, "ada")
    tokens.create_token(
        db,
        found["ada"].actor,
        name=f"ci {EVIL}",
        scopes=[Scope.READ],
        entry=HERE,
        now=NOW - timedelta(days=2),
    )
    return found


@pytest.mark.jobs
def test_an_admin_sees_tokens_of_a_user_and_revokes_one(visitor, people, db) -> None:
    tokens.authenticate(db, people["ada"].token, now=NOW - timedelta(hours=3))
    page = visitor(people["root"], width=360, javascript=False).open("/admin/users/ada")
    listed = page.get_by_role("region", name="Tokens and sessions")
    expect(listed.get_by_role("row", name="test")).to_contain_text("read, submit")
    expect(listed.get_by_text("never used")).to_be_visible()
    page.get_by_role("button", name="Revoke test").click()
    expect(listed.get_by_role("row")).to_have_count(2)
    assert [each.name for each in tokens.list_tokens(db, OPERATOR, now=NOW, for_user="ada")] == [f"ci {EVIL}"]
    with pytest.raises(SignInNeeded):
        tokens.authenticate(db, people["ada"].token, now=NOW)


def test_no_page_shows_the_secret_of_a_token(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["root"]))
    page = client.get("/admin/users/ada").text
    assert "Revoke" in page
    assert people["ada"].token not in page
    assert EVIL not in page


def test_a_token_is_revoked_from_the_page_of_its_user_only(client, people, signed_in, db) -> None:
    (mine,) = tokens.list_tokens(db, OPERATOR, now=NOW, for_user="grace")
    client.cookies.update(signed_in(people["root"]))
    assert post(client, f"/admin/users/ada/tokens/{mine.id}/revoke").status_code == 404
    assert tokens.authenticate(db, people["grace"].token, now=NOW).name == "grace"


@pytest.mark.jobs
def test_figures_count_what_was_submitted_and_judged(visitor, people) -> None:
    page = visitor(people["root"], width=360, javascript=False).open(FIGURES)
    expect(page.get_by_role("region", name="Devices").get_by_role("row").nth(1)).to_contain_text("H100")
    expect(page.get_by_role("definition").nth(0)).to_have_text("1")
    expect(page.get_by_role("heading", name="Most time on devices")).to_be_visible()
    page.get_by_role("link", name="1 day").click()
    expect(page.get_by_text("Submissions of the last day")).to_be_visible()


def test_figures_since_a_moment_leave_out_what_came_before(client, people, signed_in, clock) -> None:
    clock.advance(3 * 24 * 3600)
    client.cookies.update(signed_in(people["root"]))
    assert "<dt>Submissions</dt><dd>1</dd>" in client.get(f"{FIGURES}?days=7").text
    page = client.get(f"{FIGURES}?days=1").text
    assert "<dt>Submissions</dt><dd>0</dd>" in page
    assert "Nothing was judged." in page


def test_creators_see_figures_of_their_own_leaderboards(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["grace"]))
    page = client.get(OF_BOARD, headers=HTML)
    assert page.status_code == 200
    assert "<dt>Submissions</dt><dd>1</dd>" in page.text
    assert "Most time on devices" not in page.text
    assert "/admin/figures?leaderboard=double" in client.get("/admin/boards/double").text
    assert client.get(FIGURES, headers=HTML).status_code == 403
    for name in ("eve", "ada"):
        client.cookies.update(signed_in(people[name]))
        assert client.get(OF_BOARD, headers=HTML).status_code == 403
        assert client.get(FIGURES, headers=HTML).status_code == 403


def test_figures_of_no_leaderboard_are_not_there(client, people, signed_in) -> None:
    client.cookies.update(signed_in(people["root"]))
    answer = client.get(FIGURES, params={"leaderboard": EVIL}, headers=HTML)
    assert answer.status_code == 404
    assert EVIL not in answer.text
