"""Shown names on pages, in the API and in files: whoever has one is shown under it, and not by a pseudonym."""

from __future__ import annotations

import csv
import html
import io

import pytest

from builders import NOW, make_board
from fakes import FakeClock
from final_duels import close, hold
from hand_judging import Judging, flagged
from kernelcup.app.people import accounts
from kernelcup.app.results import finals, freezes
from kernelcup.domain import OPERATOR

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
HOSTILE = ("@everyone", "**x**", "<script>alert(1)</script>"[:32], f"=1+1 {FAMILY}", "\u05d0\u05d3\u05d4 1")
STANDINGS = "/api/v1/leaderboards/double/standings/H100"


@pytest.fixture
def judging(db, clock: FakeClock) -> Judging:
    make_board(db)
    judging = Judging(db, clock)
    for number, user in enumerate(("ada", "bob", "eve")):
        judging.judge(1000.0 + 500 * number, user)
    return judging


def show(judging: Judging, name: str, user: str = "ada") -> str:
    """Give a user a shown name."""
    return accounts.set_shown_name(judging.db, OPERATOR, user, name, now=NOW).shown_name


def test_pages_show_it_as_text_and_link_to_the_account(judging, client) -> None:
    for name in HOSTILE:
        show(judging, name)
        text = html.escape(name)
        link = f'href="/u/ada" class="user" title="ada"><bdi>{text}</bdi></a>'
        assert link in client.get("/b/double").text
        assert link.replace(' class="user"', "") in client.get("/s/1").text
        pages = [client.get(path).text for path in ("/b/double/history", "/s/2", "/u/ada", "/feed.atom")]
        assert not [page for page in pages if "<script>alert" in page]
        assert text in pages[0]
        assert f"rank 1, {text}" in pages[1]
        assert f"<h1>{text}</h1>" in pages[2]
        assert "The account ada." in pages[2]


def test_the_api_tells_both_names(judging, client) -> None:
    show(judging, "Ada Lovelace")
    first, second, _ = client.get(STANDINGS).json()["items"]
    assert (first["user"], first["shown_name"]) == ("ada", "Ada Lovelace")
    assert (second["user"], second["shown_name"]) == ("bob", "")
    (record,) = client.get(f"{STANDINGS}/history?user=ada").json()["items"]
    assert (record["user"], record["shown_name"]) == ("ada", "Ada Lovelace")
    for sent in (
        client.get("/api/v1/submissions/1").json(),
        client.get("/api/v1/submissions").json()["items"][-1],
    ):
        assert (sent["user"], sent["shown_name"]) == ("ada", "Ada Lovelace")
    items = client.get("/api/v1/news").json()["items"]
    leads = next(each for each in items if each["user"] == "ada")
    assert leads["shown_name"] == "Ada Lovelace"
    assert leads["text"].startswith("Ada Lovelace takes the first place")


def test_a_user_changes_it_with_a_token_and_on_the_page(judging, person, client, signed_in) -> None:
    ada = person("ada")
    path = "/api/v1/users/ada/shown-name"
    answer = client.put(path, json={"shown_name": "Ada L."}, headers=ada.headers)
    assert answer.json()["shown_name"] == "Ada L."
    assert client.get("/api/v1/me", headers=ada.headers).json()["shown_name"] == "Ada L."
    other = client.put(path, json={"shown_name": "Eve"}, headers=person("bob").headers)
    assert other.status_code == 403
    client.cookies.update(signed_in(ada))
    assert 'value="Ada L."' in client.get("/account").text


def test_the_table_for_other_programs_ends_with_it(judging, client) -> None:
    show(judging, "=HYPERLINK(1)")
    first, second, _ = csv.DictReader(io.StringIO(client.get("/b/double/standings.csv").text))
    assert (first["user"], first["shown_name"], list(first)[-1]) == ("ada", "'=HYPERLINK(1)", "shown_name")
    assert (second["user"], second["shown_name"]) == ("bob", "")


def test_a_pseudonym_wins(db, clock, client, person) -> None:
    make_board(db, pseudonymous=True)
    judging = Judging(db, clock)
    for number, user in enumerate(("ada", "bob")):
        judging.judge(1000.0 + 500 * number, user)
    for user in ("ada", "bob"):
        show(judging, f"The real {user}", user)
    bob = person("bob")
    addresses = (
        "/b/double",
        "/b/double/history",
        "/b/double/standings.csv",
        "/s/1",
        "/b/double/feed.atom",
        STANDINGS,
        f"{STANDINGS}/history",
        "/api/v1/submissions/1",
        "/api/v1/news",
    )
    for address in addresses:
        seen = client.get(address, headers=bob.headers)
        assert seen.status_code == 200, address
        assert "The real ada" not in seen.text, address
        assert "The real bob" not in client.get(address).text, address
    first, second = client.get(STANDINGS, headers=bob.headers).json()["items"]
    assert (first["user"], first["shown_name"]) == ("participant 1", "")
    assert (second["user"], second["shown_name"]) == ("bob", "The real bob")


def test_the_official_order_of_a_final_shows_it(judging, client) -> None:
    show(judging, "Ada Lovelace")
    close(judging.db, "double", judging.clock())
    finals.start(judging.db, OPERATOR, "double", top=2, now=judging.clock())
    hold(judging.db, "double", "H100", {1: 1.0, 2: 2.0}, judging.clock())
    places = client.get(STANDINGS).json()["final"]["places"]
    assert [(each["user"], each["shown_name"]) for each in places] == [("ada", "Ada Lovelace"), ("bob", "")]
    assert client.get("/b/double").text.count("<bdi>Ada Lovelace</bdi>") == 2


def test_it_tells_nothing_of_what_is_hidden(judging, client, person) -> None:
    flagged(judging, "bob")
    show(judging, "Bob B.", "bob")
    (waiting,) = client.get("/api/v1/docket").json()["items"]
    assert (waiting["user"], waiting["shown_name"]) == ("", "")
    freezes.freeze(judging.db, OPERATOR, "double", at=None, now=judging.clock())
    judging.clock.advance(1)
    judging.judge(10.0, "zoe")
    show(judging, "Zoe Z.", "zoe")
    for address in ("/b/double", "/b/double/history", STANDINGS, "/b/double/feed.atom", "/docket"):
        seen = client.get(address).text
        assert "Zoe Z." not in seen, address
