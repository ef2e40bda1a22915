"""Feeds, badges and cards, read as other programs read them."""

from __future__ import annotations

import io
import re
from datetime import timedelta
from xml.etree import ElementTree

import feedparser
import pytest
from PIL import Image

from builders import NOW, make_actor, make_board
from hand_judging import Judging
from kernelcup.app.courses import membership
from kernelcup.app.news import newsroom
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.domain import OPERATOR, Role, Visibility
from kernelcup_harness.protocol import Mode

ATOM = "{http://www.w3.org/2005/Atom}"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db, opens_at=NOW - timedelta(days=2))
    return Judging(db, clock)


def words_of(svg: str) -> list[str]:
    return [each.text or "" for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def badge(client, user: str = "ada", **params: str) -> list[str]:
    answer = client.get("/b/double/badge.svg", params={"user": user, **params})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "image/svg+xml"
    return words_of(answer.text)


@pytest.mark.parametrize("address", ["/feed.atom", "/b/double/feed.atom"])
def test_a_feed_parser_reads_the_news(client, judging, address) -> None:
    judging.judge(2000)
    submission = judging.judge(1000, "bob")
    answer = client.get(address)
    feed = feedparser.parse(answer.text, response_headers=dict(answer.headers))
    assert not feed.bozo, feed.bozo_exception
    assert (answer.headers["content-type"], feed.version) == ("application/atom+xml; charset=utf-8", "atom10")
    assert [entry.title for entry in feed.entries] == [
        "bob takes the first place of double on H100 with 1 µs.",
        "ada takes the first place of double on H100 with 2 µs.",
    ]
    newest = feed.entries[0]
    assert newest.link == f"http://127.0.0.1:8000/s/{submission.id}"
    assert newest.updated == feed.feed.updated == f"{judging.clock():%Y-%m-%dT%H:%M:%SZ}"
    assert len({entry.id for entry in feed.entries} | {feed.feed.id}) == 3
    assert {each.rel: each.href for each in feed.feed.links}["self"] == f"http://127.0.0.1:8000{address}"


def test_a_feed_has_what_the_rfc_demands_also_without_news(client, judging) -> None:
    judging.judge(2000)
    for address in ("/feed.atom", "/b/double/feed.atom"):
        root = ElementTree.fromstring(client.get(address).content)
        for element in (root, *root.findall(f"{ATOM}entry")):
            for name in ("id", "title", "updated"):
                assert len(element.findall(ATOM + name)) == 1
        assert root.find(f"{ATOM}author/{ATOM}name") is not None
    make_board(judging.db, name="empty")
    feed = feedparser.parse(client.get("/b/empty/feed.atom").text)
    assert (feed.bozo, feed.entries, feed.feed.updated) == (False, [], "2026-06-01T12:00:00Z")


def test_a_feed_is_sent_again_only_when_there_is_news(client, judging) -> None:
    judging.judge(2000)
    tag = client.get("/feed.atom").headers["etag"]
    same = client.get("/feed.atom", headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    judging.judge(1000, "bob")
    assert client.get("/feed.atom", headers={"If-None-Match": tag}).status_code == 200


def test_who_was_overtaken_reads_so_in_their_own_feed_alone(client, judging, person) -> None:
    judging.judge(2000)
    judging.judge(1000, "bob")
    ada = person("ada")
    mine = feedparser.parse(client.get("/feed.atom", headers=ada.headers).text)
    assert mine.entries[0].title == "Your result in double on H100 was overtaken by bob with 1 µs."
    assert "overtaken" not in client.get("/feed.atom").text


def test_a_badge_shows_place_and_time(client, judging) -> None:
    judging.judge(2000)
    judging.judge(1000, "bob")
    assert badge(client) == ["double · H100", "#2 · 2 µs"]
    assert badge(client, "bob", device="h100") == ["double · H100", "#1 · 1 µs"]
    assert badge(client, "nobody-there") == ["double · H100", "not ranked"]
    assert client.get("/b/double/badge.svg", params={"user": "ada", "device": "B200"}).status_code == 400
    assert client.get("/b/double/badge.svg").status_code == 422


def test_a_badge_is_sent_again_only_when_it_changes(client, judging) -> None:
    judging.judge(2000)
    tag = client.get("/b/double/badge.svg?user=ada").headers["etag"]
    headers = {"If-None-Match": tag}
    assert client.get("/b/double/badge.svg?user=ada", headers=headers).status_code == 304
    judging.judge(1000, "bob")
    assert client.get("/b/double/badge.svg?user=ada", headers=headers).status_code == 200


def test_names_in_a_badge_are_escaped(client, db, clock) -> None:
    make_board(db, devices=['<script>alert("1")</script>&'])
    svg = client.get("/b/double/badge.svg?user=<b>").text
    assert "<script" not in svg
    assert words_of(svg) == ['double · <script>alert("1")</script>&', "not ranked"]


def test_a_card_is_a_picture_of_the_first_five(client, judging) -> None:
    plain = client.get("/b/double/card.png")
    for number in range(6):
        judging.judge(1000 + 1000 * number, f"user{number}")
    answer = client.get("/b/double/card.png")
    assert answer.headers["content-type"] == "image/png"
    with Image.open(io.BytesIO(answer.content)) as picture:
        assert (picture.format, picture.size) == ("PNG", (1200, 630))
        assert len(picture.convert("RGB").getcolors(10**6)) > 10
    assert answer.content != plain.content
    assert len(answer.content) < 100_000
    same = client.get("/b/double/card.png", headers={"If-None-Match": answer.headers["etag"]})
    assert (same.status_code, same.content) == (304, b"")


def test_a_closed_board_is_not_there_in_feed_badge_and_card(client, db, clock, person) -> None:
    make_board(db, name="secret", visibility=Visibility.CLOSED)
    judging = Judging(db, clock)
    ada, eve = person("ada"), person("eve", Role.CREATOR)
    membership.add_member(db, OPERATOR, "secret", "ada", now=NOW)
    judging.judge(1000)
    newsroom.note_due(db, clock())
    for address in ("/b/secret/feed.atom", "/b/secret/badge.svg?user=ada", "/b/secret/card.png"):
        unknown = client.get(address.replace("secret", "unheard"))
        for headers in ({}, eve.headers):
            answer = client.get(address, headers=headers)
            assert answer.status_code == unknown.status_code == 404
            error = answer.json()["error"]
            assert "ada" not in f"{error['code']} {error['message']}"
    assert "secret" not in client.get("/feed.atom", headers=eve.headers).text
    assert "ada takes the first place" in client.get("/b/secret/feed.atom", headers=ada.headers).text
    # Other sites keep copies of these: they are for everybody or for nobody.
    assert client.get("/b/secret/badge.svg?user=ada", headers=ada.headers).status_code == 404
    assert client.get("/b/secret/card.png", headers=ada.headers).status_code == 404


def test_a_frozen_board_stays_as_it_was_in_feed_badge_and_card(client, judging, person) -> None:
    db, clock = judging.db, judging.clock
    judging.judge(2000)
    judging.judge(3000, "bob")
    root = person("root", Role.ADMIN)
    freeze(db, OPERATOR, "double", clock(), now=clock())
    clock.advance(1)
    addresses = (
        "/feed.atom",
        "/b/double/feed.atom",
        "/b/double/badge.svg?user=ada",
        "/b/double/badge.svg?user=bob",
        "/b/double/badge.svg?user=eve",
        "/b/double/card.png",
    )
    before = [client.get(address).content for address in addresses]
    judging.judge(1000, "bob")
    judging.judge(500, "eve")
    for headers in ({}, person("ada").headers, person("bob").headers, root.headers):
        assert [client.get(address, headers=headers).content for address in addresses] == before
    unveil(db, OPERATOR, "double", now=clock())
    after = [client.get(address).content for address in addresses]
    assert all(new != old for new, old in zip(after, before, strict=True))


def test_pseudonyms_are_kept_in_feed_and_badge(client, db, clock) -> None:
    make_board(db, pseudonymous=True, opens_at=NOW - timedelta(days=2))
    make_actor(db, "ada")
    membership.add_member(db, OPERATOR, "double", "ada", pseudonym="fox", now=NOW)
    Judging(db, clock).judge(1000)
    assert "ada" not in client.get("/feed.atom").text
    assert badge(client, "fox") == ["double · H100", "#1 · 1 µs"]
    assert badge(client, "ada") == ["double · H100", "not ranked"]


def test_a_boards_page_names_its_feed_and_its_card(client, judging) -> None:
    judging.judge(2000)
    page = client.get("/b/double").text
    properties = dict(re.findall(r'<meta property="og:(\S+)" content="([^"]*)">', page))
    assert properties["title"] == "double: the fastest kernels on H100"
    assert properties["url"] == "http://127.0.0.1:8000/b/double"
    assert client.get(properties["image"]).headers["content-type"] == "image/png"
    (feed,) = re.findall(r'type="application/atom\+xml" title="News of double" href="([^"]*)"', page)
    assert client.get(feed).status_code == 200


def test_a_ranked_submissions_page_has_a_card_and_a_board_offers_feed_and_badge(
    client, judging, person
) -> None:
    ada = person("ada")
    judging.judge(2000)
    judging.judge(1000, "bob")
    page = client.get("/s/1").text
    properties = dict(re.findall(r'<meta property="og:(\S+)" content="([^"]*)">', page))
    assert "ada: 2.000 µs, rank 2" in properties["title"]
    assert properties["url"].endswith("/s/1")
    assert "/b/double/card.png" in properties["image"]
    judging.submit("ada", mode=Mode.TEST)
    judging.finish(judging.claim())
    assert "og:title" not in client.get("/s/3", headers=ada.headers).text
    board = client.get("/b/double", headers=ada.headers).text
    assert 'href="/b/double/feed.atom">News as a feed</a>' in board
    assert "/b/double/badge.svg?user=ada&amp;device=H100)](" in board


def test_a_closed_boards_page_has_no_card(client, db, person) -> None:
    make_board(db, visibility=Visibility.CLOSED)
    page = client.get("/b/double", headers=person("root", Role.ADMIN).headers)
    assert page.status_code == 200
    assert "og:" not in page.text
