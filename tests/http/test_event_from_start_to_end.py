"""An organiser with three problems and four teams: registration, qualifier, freeze, final, unveil."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import NOW, make_actor, make_board
from hand_judging import Judging
from kernelcup.app.events import announcements, events
from kernelcup.app.events.finalists import advance
from kernelcup.app.events.points import points
from kernelcup.app.events.registration import create_team, join_team, register
from kernelcup.app.events.settings import EventChanges
from kernelcup.app.news import stream, webhooks
from kernelcup.app.results import freezes
from kernelcup.domain import NOBODY, NewsKind, Role, Visibility
from kernelcup.errors import Conflict, InvalidValue, NotFound, RegistrationNeeded
from kernelcup.tables import WebhookDeliveryRow

TEAMS = {"Owls": ("ada", "bob"), "Cats": ("cyn", "dan"), "Bees": ("eva", "fay"), "Ants": ("gus", "hal")}
QUALIFIER = ("one", "two")
TIMES = {"ada": 1000, "bob": 900, "cyn": 1500, "dan": 1600, "eva": 2500, "gus": 4000}


def shown(db, viewer, clock) -> list[tuple[int, str, float]]:
    return [(row.place, row.shown, row.total) for row in points(db, viewer, "cup", now=clock()).rows]


def open_event(db, grace) -> None:
    """Make the event with its three problems, and let the teams register."""
    settings = EventChanges(
        text="Write **fast** kernels.", registration=True, terms="Be nice.", team_size=2, prizes=["An H100"]
    )
    events.create_event(db, grace, "cup", settings, now=NOW)
    for name in (*QUALIFIER, "final"):
        seen = Visibility.CLOSED if name == "final" else Visibility.PUBLIC
        make_board(db, name=name, creator=grace, visibility=seen)
        events.add_board(db, grace, "cup", name, weight=3.0 if name == "final" else 1.0, now=NOW)
    for team, names in TEAMS.items():
        captain, mate = (make_actor(db, name) for name in names)
        for each in (captain, mate):
            register(db, each, "cup", accept=True, now=NOW)
        join_team(db, mate, "cup", create_team(db, captain, "cup", team, now=NOW).code, now=NOW)


def test_an_event_from_registration_to_the_unveiling(db, clock, client) -> None:
    grace = make_actor(db, "grace", Role.CREATOR)
    open_event(db, grace)
    judging = Judging(db, clock)
    with pytest.raises(RegistrationNeeded):
        judging.submit("zoe", board="one")

    for board in QUALIFIER:
        for user, ns in TIMES.items():
            judging.judge(ns, user, board=board)
    ranked = [(1, "Owls", 50.0), (2, "Cats", 36.0), (3, "Bees", 30.0), (4, "Ants", 24.0)]
    assert shown(db, NOBODY, clock) == ranked

    for board in QUALIFIER:
        freezes.freeze(db, grace, board, now=clock())
    clock.advance(1)
    judging.judge(100, "fay", board="two")
    assert shown(db, NOBODY, clock) == ranked  # as of the freeze
    assert shown(db, grace, clock) == [
        (1, "Owls", 43.0),
        (2, "Bees", 40.0),
        (3, "Cats", 33.0),
        (4, "Ants", 24.0),
    ]

    with pytest.raises(InvalidValue, match="public"):
        advance(db, grace, "cup", "two", first=2, now=clock())
    sent = advance(db, grace, "cup", "final", first=2, now=clock())
    assert sent.competitors == ["Owls", "Bees"]
    assert sent.members == ["ada", "bob", "eva", "fay"]
    with pytest.raises(NotFound):
        judging.submit(make_actor(db, "cyn"), board="final")
    judging.judge(500, "eva", board="final")
    judging.judge(700, "ada", board="final")
    assert [total for _, _, total in shown(db, NOBODY, clock)] == [50.0, 36.0, 30.0, 24.0]

    for board in QUALIFIER:
        freezes.unveil(db, grace, board, now=clock())
    assert shown(db, grace, clock)[:2] == [(1, "Bees", 115.0), (2, "Owls", 97.0)]
    page = client.get("/e/cup").text
    assert "<strong>fast</strong>" in page
    assert "Owls" in page
    assert "An H100" in page
    assert "final" not in {column.leaderboard for column in points(db, NOBODY, "cup", now=clock()).columns}


def test_nobody_comes_into_a_final_from_an_empty_table(db, clock) -> None:
    grace = make_actor(db, "grace", Role.CREATOR)
    open_event(db, grace)
    with pytest.raises(Conflict, match="nobody has points"):
        advance(db, grace, "cup", "final", first=2, now=clock())


def test_an_announcement_reaches_page_boards_feed_and_webhooks(db, clock, client) -> None:
    grace = make_actor(db, "grace", Role.CREATOR)
    open_event(db, grace)
    webhooks.add_webhook(db, grace, "one", "https://93.184.215.14/hook", own_networks=(), now=NOW)
    clock.advance(60)
    announcements.announce(db, grace, "cup", "The <final> is at noon.", now=clock())
    told = "The &lt;final&gt; is at noon."
    assert told in client.get("/e/cup").text
    assert told in client.get("/b/two").text
    assert client.get("/feed.atom").text.count("announcement") == 1
    assert "is at noon" in client.get("/b/one/feed.atom").text
    with db.read() as session:
        assert session.query(WebhookDeliveryRow).count() == 1


def test_a_question_is_answered_to_one_or_to_all_without_who_asked(db, clock, client) -> None:
    grace = make_actor(db, "grace", Role.CREATOR)
    open_event(db, grace)
    ada, eva = make_actor(db, "ada"), make_actor(db, "eva")
    with pytest.raises(RegistrationNeeded):
        announcements.ask(db, make_actor(db, "zoe"), "cup", "May I?", now=clock())
    announcements.ask(db, ada, "cup", "Is Triton allowed?", now=clock())
    (question,) = announcements.list_said(db, grace, "cup")
    assert (question.user, question.private) == ("ada", True)
    assert announcements.list_said(db, eva, "cup") == []
    assert "Triton" not in client.get("/feed.atom").text
    announcements.answer(db, grace, "cup", question.id, "Look at the rules.", now=clock())
    assert [each.text for each in announcements.list_said(db, ada, "cup")] == [
        "Look at the rules.",
        "Is Triton allowed?",
    ]
    assert announcements.list_said(db, eva, "cup") == []
    clock.advance(timedelta(minutes=1).total_seconds())
    announcements.answer(db, grace, "cup", question.id, "Yes.", to_all=True, now=clock())
    seen = announcements.list_said(db, eva, "cup")
    assert [(each.text, each.user) for each in seen] == [("Yes.", "grace"), ("Is Triton allowed?", "")]
    kinds = {each.kind for each in stream.items(db, ada, board="one")}
    assert {NewsKind.ANSWER, NewsKind.ANNOUNCEMENT} <= kinds
    assert NewsKind.QUESTION in {each.kind for each in stream.items(db, grace, board="one")}
    assert NewsKind.ANSWER not in {each.kind for each in stream.items(db, eva, board="one")}
    assert "Is Triton allowed?" in client.get("/e/cup").text
