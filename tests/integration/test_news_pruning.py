"""Old news are deleted where no reader needs them any more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from builders import NOW, make_actor, make_board
from hand_judging import Judging
from kernelcup.app.news import newsroom as room
from kernelcup.app.news import stream, webhooks
from kernelcup.app.news.delivery import PAUSES_S, DeliveryFailed, Postman
from kernelcup.app.news.newsroom import PRUNED_EVERY, Newsroom
from kernelcup.app.results import profile_files
from kernelcup.domain import NOBODY, OPERATOR
from kernelcup.errors import StorageUnavailable
from kernelcup.tables import NewsRow

OLD = room.KEPT_FOR + timedelta(seconds=1)


class DownReceiver:
    """A receiver that is never reached."""

    def post(self, url, addresses, headers, body) -> int:
        raise DeliveryFailed("connection refused")


@pytest.fixture
def judging(db, clock) -> Judging:
    make_board(db)
    return Judging(db, clock)


@pytest.fixture
def newsroom(db, clock) -> Newsroom:
    postman = Postman(db=db, sender=DownReceiver(), clock=clock, public_url="https://cup.example.org")
    return Newsroom(db, postman, clock=clock, beside=lambda work: work())


@pytest.fixture(autouse=True)
def _keep_two(monkeypatch) -> None:
    monkeypatch.setattr(room, "KEPT_OF_BOARD", 2)


def stored(db) -> int:
    with db.read() as session:
        return session.scalar(select(func.count()).select_from(NewsRow)) or 0


def five_first_places(judging: Judging, board: str = "double") -> None:
    """Store five first places with their verdicts, and ten messages to the overtaken: 0, 1, 2, 3, 4 at a time."""
    for number, time_ns in enumerate((5000, 4000, 3000, 2000, 1000)):
        judging.judge(time_ns, f"user{number}", board=board)


def test_the_newest_of_each_board_stay_however_old_they_are(judging) -> None:
    make_board(judging.db, name="other")
    five_first_places(judging, "other")
    five_first_places(judging)
    judging.clock.now += OLD
    assert room.prune(judging.db, judging.clock()) == 36
    for board in ("double", "other"):
        assert [item.user for item in stream.items(judging.db, NOBODY, board=board)] == ["user3", "user4"]
    user3 = make_actor(judging.db, "user3")
    assert [item.kind for item in stream.items(judging.db, user3) if item.personal] == []


def test_nothing_is_deleted_before_its_time(judging) -> None:
    five_first_places(judging)
    first_at = stream.items(judging.db, NOBODY)[0].at
    assert room.prune(judging.db, first_at + room.KEPT_FOR) == 0
    assert room.prune(judging.db, first_at + OLD) == 2
    assert stored(judging.db) == 18


@pytest.mark.jobs
def test_what_a_webhook_has_not_taken_stays(judging, newsroom) -> None:
    five_first_places(judging)
    webhooks.add_webhook(
        judging.db,
        OPERATOR,
        "double",
        "https://hooks.example.org/cup",
        now=NOW,
        resolve=lambda *_, **__: [(2, 1, 6, "", ("93.184.215.14", 443))],
    )
    for time_ns, user in ((500, "late"), (400, "later"), (300, "latest")):
        judging.judge(time_ns, user)
    judging.clock.now += OLD
    for pause_s in PAUSES_S:
        newsroom.step()
        judging.clock.advance(pause_s)
    shown = [item.user for item in stream.items(judging.db, NOBODY)]
    assert shown == ["late", "later", "latest"]
    (webhook,) = webhooks.list_webhooks(judging.db, OPERATOR, "double")
    assert webhook.waiting == 21


def test_a_moment_whose_news_were_deleted_is_not_noted_again(db, clock) -> None:
    for number in range(4):
        make_board(db, name=f"board-{number}", opens_at=NOW, deadline=NOW + timedelta(days=3))
    for days in range(12):
        clock.now = NOW + timedelta(days=days)
        room.note_due(db, clock())
    noted = stream.addressed(db, OPERATOR).newest
    assert noted == 12
    clock.now = NOW + timedelta(days=11) + OLD
    assert room.prune(db, clock()) == 4
    assert room.note_due(db, clock()) == 0


@pytest.mark.jobs
def test_newsroom_deletes_in_portions_and_then_rests(judging, newsroom, monkeypatch) -> None:
    five_first_places(judging)
    judging.clock.now += OLD
    monkeypatch.setattr(room, "AT_ONCE", 13)
    newsroom.step()
    assert stored(judging.db) == 7
    newsroom.step()
    assert stored(judging.db) == 2
    monkeypatch.setattr(room, "KEPT_OF_BOARD", 1)
    newsroom.step()
    assert stored(judging.db) == 2
    judging.clock.now += PRUNED_EVERY
    newsroom.step()
    assert stored(judging.db) == 1


def test_files_that_cannot_be_reached_are_pruned_an_hour_later(judging, newsroom, monkeypatch) -> None:
    asked = []

    def out_of_reach(*_: object) -> int:
        asked.append(1)
        raise StorageUnavailable("the store of files cannot be reached")

    monkeypatch.setattr(profile_files, "prune", out_of_reach)
    with pytest.raises(StorageUnavailable):
        newsroom.step()
    newsroom.step()
    assert len(asked) == 1
    judging.clock.now += PRUNED_EVERY
    with pytest.raises(StorageUnavailable):
        newsroom.step()
