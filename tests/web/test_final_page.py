"""The official order on a leaderboard's page."""

from __future__ import annotations

import pytest
from looks import check_page

from builders import NOW
from final_duels import close, hold
from kernelcup.app.queue.queries import jobs
from kernelcup.app.results import finals
from kernelcup.app.results.standings import standings
from kernelcup.domain import OPERATOR, Final
from kernelcup.tables import JobRow

WORDS = "Official order"


@pytest.fixture
def begun(db, competition) -> Final:
    """A final of the competition's first four, none of whose duels was held."""
    from sqlalchemy import delete

    with db.write() as session:
        session.execute(delete(JobRow).where(jobs.QUEUED | (JobRow.state == "running")))
    close(db, "grayscale", NOW)
    return finals.start(db, OPERATOR, "grayscale", device="H100", top=4, now=NOW)


@pytest.fixture
def done(db, begun) -> Final:
    """That final, after duels in which the order of the standings was turned round."""
    entered = [place.submission_id for place in standings(db, "grayscale", "H100")]
    times = {number: 1.0 - 0.05 * place for place, number in enumerate(entered)}
    return hold(db, "grayscale", "H100", times, NOW)


def test_a_running_final_says_how_far_it_is(client, begun) -> None:
    page = client.get("/b/grayscale").text
    assert WORDS in page
    assert "The final is being held" in page


def test_the_official_order_stands_above_the_ranking_with_its_meetings(client, done) -> None:
    before, _, ranking = client.get("/b/grayscale").text.partition(">± 95 %<")
    official = before.partition(WORDS)[2]
    shown = [f'href="/s/{each.submission}">#{each.submission}<' for each in done.places]
    assert [official.index(each) for each in shown] == sorted(official.index(each) for each in shown)
    assert f"{len(done.meetings)} meetings" in official
    assert "simultaneous interval" in official
    assert "/s/" in ranking


def test_other_devices_and_leaderboards_have_none(client, done) -> None:
    assert WORDS not in client.get("/b/grayscale?device=MI300").text
    assert WORDS not in client.get("/b/grayscale?after=50").text


@pytest.mark.jobs
def test_the_official_order_fits_every_window_and_axe_finds_nothing(visitor, done) -> None:
    somebody = visitor()
    page = somebody.context.new_page()
    somebody.open("/b/grayscale", page)
    page.locator("#official summary").click()
    check_page(page)
    assert page.locator("#official tbody tr").count() == len(done.places)
    assert page.locator("#official li").count() == len(done.meetings)
