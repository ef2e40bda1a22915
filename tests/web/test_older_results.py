"""Results of an older clock on a leaderboard's page."""

from __future__ import annotations

import pytest
from looks import WIDTHS, check_page

from kernelcup.domain import Role
from older_clocks import set_apart

WORDS = "Measured by an older clock"


def test_older_results_stand_below_in_a_table_of_their_own(client, db, competition) -> None:
    assert WORDS not in client.get("/b/grayscale").text
    set_apart(db)
    ranking, _, apart = client.get("/b/grayscale").text.partition(WORDS)
    assert "No one has a time on H100 yet." in ranking
    assert "tma_v9.py" in apart
    assert "kernelcup admin rejudge" not in apart  # the reader may not


def test_those_who_manage_a_leaderboard_find_the_command_and_the_way(
    client, db, competition, person, signed_in
) -> None:
    set_apart(db)
    client.cookies.update(signed_in(person("root", Role.ADMIN)))
    page = client.get("/b/grayscale").text
    assert "<code>kernelcup admin rejudge grayscale --only-best</code>" in page
    way = "/admin/boards/grayscale/rejudge?device=H100&amp;only_best=yes"
    assert way in page
    assert "Measured by an older clock" in client.get(way.replace("&amp;", "&")).text


def test_an_author_reads_on_the_result_s_page_why_it_does_not_rank(
    client, db, competition, person, signed_in
) -> None:
    client.cookies.update(signed_in(person("ada")))
    (number,) = set(find_numbers(client.get("/b/grayscale").text, "gray_fused.py"))
    set_apart(db)
    assert "it was measured by an older clock" in client.get(f"/s/{number}").text


def find_numbers(page: str, file: str) -> list[str]:
    """Return the numbers of submissions of that file name that a page links to."""
    return [each.split('"')[0] for each in page.split('href="/s/')[1:] if f">{file}<" in each[:80]]


@pytest.mark.parametrize("width", WIDTHS)
def test_the_table_fits_every_window_and_axe_finds_nothing(visitor, db, competition, width) -> None:
    set_apart(db)
    somebody = visitor(width=width)
    page = somebody.context.new_page()
    check_page(somebody.open("/b/grayscale", page))
    assert page.locator("#older tbody tr").count() > 1
