"""Leaderboards as pages."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import itertools
import re
import zipfile
from datetime import timedelta

import pytest
from competition import enter, gray_task
from looks import check_page
from playwright.sync_api import expect
from sqlalchemy import select, update

from builders import NOW, make_board, make_device, make_task
from hand_judging import Judging, judge_on_two_classes
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.people import accounts
from kernelcup.app.results import comparisons, freezes, rejudge
from kernelcup.app.rules import pauses
from kernelcup.domain import OPERATOR, AfterDeadline, Role, TrustRule
from kernelcup.http.pages.boards import boards, live
from kernelcup.tables import BestRow, RunRow
from kernelcup_harness.protocol import Backend

PAGES = (
    "/",
    "/?q=gray",
    "/b/grayscale",
    "/b/grayscale?device=MI300",
    "/b/grayscale/history",
    "/b/grayscale/statement",
    "/b/grayscale/rules",
    "/b/grayscale/code",
    "/b/matmul-fp8",
    "/b/prefixsum",
    "/b/prefixsum/duels",
    "/b/prefixsum/duels/83",
    "/b/top-k",
    "/queue",
)


@pytest.fixture
def ada(competition, person):
    return person("ada")


def rows(html):
    """Return the text of each row of the first table's body."""
    body = html.split("<tbody>", 1)[1].split("</tbody>", 1)[0]
    return [re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", each)).strip() for each in body.split("<tr")[1:]]


@pytest.mark.dear("axe looks through a page in a browser")
def test_the_page_of_a_board_fits_every_window_and_axe_finds_nothing(visitor, ada) -> None:
    """All others: ``test_every_form``."""
    check_page(visitor(ada).open("/b/grayscale"))


def test_overview_has_open_upcoming_and_closed_boards_with_best_and_reference(client, competition) -> None:
    page = client.get("/").text
    assert page.index("Open") < page.index("grayscale") < page.index("Upcoming") < page.index("top-k")
    assert page.index("top-k") < page.index("Closed") < page.index("prefixsum")
    assert "27.02 µs" in page
    assert "108.5 µs" in page
    assert "4.02×" in page
    assert "class-2026" not in page


@pytest.mark.jobs
def test_overview_leads_guests_to_how_to_compete_and_phones_to_the_deadline(
    visitor, ada, competition
) -> None:
    page = visitor(width=390).open("/")
    expect(page.get_by_role("link", name="How to compete")).to_be_visible()
    expect(page.locator("td.name", has_text="grayscale")).to_contain_text("closes")
    expect(page.locator("td.name", has_text="grayscale").locator(".phone")).to_be_visible()
    assert "How to compete" not in visitor(ada).open("/").content()


def test_search_finds_names_devices_and_statements(client, competition) -> None:
    assert "grayscale" in client.get("/?q=luminance").text
    assert "prefixsum" not in client.get("/?q=luminance").text
    assert "matmul-fp8" in client.get("/?q=mi300 matrix").text
    nothing = client.get("/?q=<b>none").text
    assert "No leaderboard has “&lt;b&gt;none”" in nothing


def test_ranking_shows_bands_intervals_shares_and_what_results_are_made_of(client, competition) -> None:
    first, second, third, *_ = rows(client.get("/b/grayscale").text)
    assert first.startswith(">  1 grace tma_v9.py 27.02 µs ±") or " 1 grace tma_v9.py 27.02 µs ±" in first
    assert "1, shared linus vec8.py 27.05 µs" in second
    assert " 3 ada gray_fused.py 27.70 µs" in third
    assert "+2.5 %" in third
    assert "72 %" in third
    assert "3.92×" in third
    assert "Triton · 9" in third


def test_times_that_do_not_rank_stand_below_with_the_reason(client, db, competition) -> None:
    assert 'id="unranked"' not in client.get("/b/grayscale").text
    update_board(db, OPERATOR, "grayscale", now=NOW, changes=BoardChanges(trust=TrustRule.REPLAYED))
    ranking, _, apart = client.get("/b/grayscale").text.partition('id="unranked"')
    assert ("niklaus" in ranking, "niklaus" in apart) == (False, True)
    assert "by the wall clock" in apart
    assert "This leaderboard ranks replayed times only." in apart


def test_practice_after_the_deadline_stands_below_the_final_table(client, db, clock) -> None:
    ends = clock() + timedelta(hours=1)
    make_board(db, deadline=ends, after_deadline=AfterDeadline.PRACTICE)
    judging = Judging(db, clock)
    judging.judge(1000, "ada")
    assert 'id="practice"' not in client.get("/b/double").text
    clock.advance(3600)
    judging.judge(500, "cyn")
    page = client.get("/b/double").text
    ranking, _, apart = page.partition('id="practice"')
    assert ("cyn" in ranking.split('id="ranking"')[1], "cyn" in apart) == (False, True)
    assert "change nothing of the ranking" in apart
    assert "Submit a kernel" in page
    assert "cyn" not in client.get("/b/double/standings.csv").text


def test_results_of_an_earlier_version_wait_below_the_ranking(
    client, db, competition, person, signed_in, clock
) -> None:
    assert "rejudge" not in client.get("/b/grayscale").text
    update_board(db, OPERATOR, "grayscale", now=NOW, task=make_task())
    page = client.get("/b/grayscale").text
    assert "users were judged against an earlier version of the task" in page
    assert "They rank once they are judged again." in page
    client.cookies.update(signed_in(person("root", Role.ADMIN)))
    assert "kernelcup admin rejudge grayscale" in client.get("/b/grayscale").text
    rejudge.rejudge_board(db, OPERATOR, "grayscale", now=clock())
    client.cookies.clear()
    page = client.get("/b/grayscale").text
    assert re.search(r"earlier results are being judged again, \d left", page)


def test_own_row_is_marked_and_the_latest_failure_is_told(client, ada, signed_in) -> None:
    client.cookies.update(signed_in(ada))
    page = client.get("/b/grayscale").text
    assert page.count('class="mine ') == 1
    assert "<b>gray_vec16.py</b>, is not ranked: wrong answer" in page
    assert "3 of 9" in page


def test_a_comparison_is_not_the_readers_latest(client, db, ada, signed_in) -> None:
    client.cookies.update(signed_in(ada))
    first = enter(db, "ada", 30.0, at=NOW + timedelta(minutes=1))
    other = enter(db, "ada", 30.1, at=NOW + timedelta(minutes=2))
    comparisons.start(db, ada.actor, first, other, device="H100", now=NOW + timedelta(minutes=3))
    page = client.get("/b/grayscale").text
    assert "kernel.py" in page
    assert "compare-" not in page


@pytest.mark.jobs
@pytest.mark.parametrize("width", [390, 1000, 1280, 1920])
def test_no_column_of_the_ranking_is_cut_off(visitor, db, competition, width) -> None:
    enter(db, "a-name-that-is-long", 40.0, file_name="a_kernel_with_a_long_name_v12.py")
    page = visitor(width=width).open("/b/grayscale")
    region = page.get_by_role("region", name="Ranking on H100")
    assert region.evaluate("each => each.scrollWidth - each.clientWidth") <= 0
    assert "by the wall clock" in region.inner_text()


def test_a_closed_board_without_a_final_does_not_say_final(client, competition) -> None:
    lead = client.get("/b/prefixsum").text.partition('<p class="lead">')[2].partition("</p>")[0]
    assert "closed" in lead
    assert "final" not in lead


@pytest.mark.parametrize("backend", [Backend.EMULATED, Backend.CPU])
def test_times_without_a_gpu_say_what_they_mean_and_show_no_speedup(platform, client, db, backend) -> None:
    platform.config = dataclasses.replace(
        platform.config, configured_devices=(make_device(name="here", backend=backend), make_device())
    )
    make_board(db, devices=["here", "H100"])
    for device in ("here", "H100"):
        enter(db, "ada", 30.0, board="double", device=device)
    here, there = (client.get(f"/b/double?device={each}").text for each in ("here", "H100"))
    assert here.index("These times mean nothing for a GPU.") < here.index("Ranking on here")
    assert ("Speed-up" in here, "3.62×" in here) == (False, False)
    assert ("mean nothing" in there, "3.62×" in there) == (False, True)
    assert client.get("/").text.count("3.62×") == 1


def test_readers_without_account_see_no_row_of_their_own(client, competition) -> None:
    page = client.get("/b/grayscale").text
    assert 'class="mine ' not in page
    assert "Your latest" not in page


def test_every_device_has_its_own_ranking(client, competition) -> None:
    assert "41.00" in client.get("/b/grayscale?device=mi300").text
    missing = client.get("/b/grayscale?device=TPU", headers={"Accept": "text/html"})
    assert (missing.status_code, "unknown_device" in missing.text) == (400, True)


def test_frozen_board_shows_nothing_from_after_its_freeze(client, person, signed_in, competition) -> None:
    """Ken came after the freeze, and would be first."""
    later = "ken"
    for path in ("", "/history", "/standings.csv", "/rules", "/statement"):
        page = client.get(f"/b/matmul-fp8{path}").text
        assert later not in page, path
        assert "790" not in re.sub(r"/static/\w+", "", page), path
    assert "Frozen since" in client.get("/b/matmul-fp8").text
    assert "1.60" not in client.get("/").text
    client.cookies.update(signed_in(person("grace", Role.CREATOR)))
    assert later in client.get("/b/matmul-fp8").text


def test_unveiled_board_shows_all(client, db, competition) -> None:
    freezes.unveil(db, OPERATOR, "matmul-fp8", now=NOW)
    assert "ken" in client.get("/b/matmul-fp8").text


def test_closed_board_exists_for_its_members_only(client, ada, person, signed_in) -> None:
    for path in (
        "",
        "/history",
        "/statement",
        "/rules",
        "/code",
        "/task.zip",
        "/standings.csv",
        "/live?device=H100",
    ):
        assert client.get(f"/b/class-2026{path}").status_code == 404, path
    client.cookies.update(signed_in(ada))
    page = client.get("/b/class-2026").text
    assert "owl" in page
    assert "ken" not in page.replace("token", "")
    assert "/u/owl" not in page
    history = client.get("/b/class-2026/history").text
    assert "owl" in history
    assert ">ken<" not in history


def test_a_long_ranking_comes_in_pages_and_a_person_is_found_in_it(
    client, db, person, signed_in, monkeypatch
) -> None:
    monkeypatch.setattr(boards, "PAGE", 5)
    make_board(db)
    for number in range(8):
        enter(db, f"user{number}", 20.0 + number, board="double")
    first = client.get("/b/double").text
    assert ("user4" in first, "user5" in first) == (True, False)
    link = re.search(r'href="([^"]+)">2</a>', first)
    assert link is not None
    second = client.get(link[1].replace("&amp;", "&")).text
    assert "6 to 8 of 8" in second
    assert " 6 user5" in rows(second)[0]
    assert "ends before this page" in client.get("/b/double?after=500").text
    found = client.get("/b/double?device=H100&who=user6")
    assert found.url.path == "/b/double"
    assert dict(found.url.params)["after"] == "5"
    assert f'id="{found.url.fragment}" class=""' in found.text
    assert "No one named nobody has a place on H100" in client.get("/b/double?who=nobody").text
    client.cookies.update(signed_in(person("user7")))
    assert 'href="/b/double?device=H100&amp;who=user7">In the ranking' in client.get("/b/double").text


def test_a_pause_a_ban_and_a_missing_machine_stand_on_the_board(client, db, person, signed_in) -> None:
    make_board(db)
    guest = client.get("/b/double").text
    assert "No machine with H100 is connected: submissions wait until one is." in guest
    assert 'href="/auth/login?next=/b/double/submit%3Fdevice%3DH100"' in guest
    pauses.pause(db, OPERATOR, scope="device", key="H100", reason="new driver", now=NOW)
    paused = client.get("/b/double").text
    assert "The device H100 takes no submissions now: new driver." in paused
    assert "Submit a kernel" not in paused
    client.cookies.update(signed_in(person("ada")))
    accounts.ban(db, OPERATOR, "ada", reason="shared a token", now=NOW)
    assert "ada may not submit: shared a token." in client.get("/b/double").text


def test_board_without_results_says_so(client, db) -> None:
    make_board(db)
    page = client.get("/b/double")
    assert page.status_code == 200
    assert "No one has a time on H100 yet" in page.text
    assert client.get("/b/double/history").status_code == 200


def test_standings_as_csv_have_no_formulas(client, db) -> None:
    make_board(db)
    enter(db, "ada", 20.0, board="double")
    found = list(csv.DictReader(io.StringIO(client.get("/b/double/standings.csv").text)))
    assert [each["user"] for each in found] == ["ada"]
    assert float(found[0]["seconds"]) == pytest.approx(40e-6, rel=0.01)  # the last case's


def test_task_folder_has_all_but_the_hidden_cases(client, competition) -> None:
    answer = client.get("/b/grayscale/task.zip")
    archive = zipfile.ZipFile(io.BytesIO(answer.content))
    names = archive.namelist()
    assert "grayscale/reference.py" in names
    assert all(name.startswith("grayscale/") for name in names)
    assert "3333" not in "".join(archive.read(name).decode() for name in names)
    assert client.get("/b/grayscale/task.zip").content == answer.content


def test_hidden_cases_are_counted_and_not_shown(client, competition) -> None:
    page = client.get("/b/grayscale/statement").text
    assert "1 more case is hidden" in page
    assert "3333" not in page
    assert "12.6 M" in page


def test_templates_can_be_taken_along(client, competition) -> None:
    answer = client.get("/b/grayscale/templates/triton")
    assert "attachment" in answer.headers["content-disposition"]
    assert "triton.jit" in answer.text
    assert client.get("/b/grayscale/templates/fortran").status_code == 404


def test_duels_are_listed_and_each_has_a_page(client, competition) -> None:
    listed = client.get("/b/prefixsum/duels").text
    assert rows(listed)[-1].count("grace") == 1
    link = re.findall(r'href="(/b/prefixsum/duels/\d+[^"]*)"', listed)[-1]
    page = client.get(link).text
    assert "0.9800" in page
    assert "grace’s #" in page
    assert client.get("/b/prefixsum/duels/1").status_code == 404


def test_script_in_every_text_of_a_board_stays_text(client, db) -> None:
    evil = "<script>alert(1)</script>"
    make_board(db, task=dataclasses.replace(gray_task(), description=evil))
    enter(db, "ada", 20.0, board="double", file_name="<script>.py")
    for path in ("/", "/b/double", "/b/double/statement", "/b/double/code", "/b/double/history"):
        assert "<script>" not in client.get(path).text.replace("<script src", ""), path


def test_page_of_a_board_is_small(client, competition) -> None:
    answer = client.get("/b/grayscale", headers={"Accept-Encoding": "gzip"})
    assert int(answer.headers["content-length"]) < 20_000


@pytest.mark.jobs
def test_countdown_is_in_the_readers_zone_and_absolute_without_javascript(visitor, competition) -> None:
    with_script = visitor().open("/b/grayscale").locator(".lead time").inner_text()
    without = visitor(javascript=False).open("/b/grayscale").locator(".lead time").inner_text()
    assert "7 Jun 2026, 14:00 CEST" in with_script
    assert without == "7 Jun 2026, 12:00 UTC"


@pytest.mark.jobs
def test_change_of_the_ranking_is_seen_without_reload(visitor, db, monkeypatch) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.05)
    make_board(db)
    enter(db, "ada", 30.0, board="double")
    page = visitor().open("/b/double")
    assert page.locator("tbody tr").count() == 1
    with page.expect_event("requestfinished", lambda request: request.url.endswith("/b/double")):
        enter(db, "grace", 20.0, board="double", at=NOW + timedelta(minutes=1))
    page.locator("tbody tr").nth(1).wait_for()
    assert "grace" in page.locator("tbody tr").first.inner_text()
    assert "ada" in page.locator("tbody tr").last.inner_text()
    assert page.get_by_role("navigation", name="Leaderboard").get_by_text("H100 · 2").is_visible()


def test_change_before_the_stream_begins_is_told_by_it(http, db) -> None:
    make_board(db)
    enter(db, "ada", 30.0, board="double")
    address = re.search(r'data-live="([^"]+)"', http.get("/b/double").text)
    assert address is not None
    enter(db, "grace", 20.0, board="double", at=NOW + timedelta(minutes=1))
    with http.stream("GET", html.unescape(address[1])) as stream:
        assert "event: standings" in itertools.islice(stream.iter_lines(), 3)


@pytest.mark.jobs
def test_phone_without_javascript_reaches_the_statement_by_keyboard(visitor, competition) -> None:
    page = visitor(width=360, javascript=False).open("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.get_by_role("link", name="grayscale").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/b/grayscale")
    page.get_by_role("link", name="Statement").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/statement")
    assert "Turn an RGB image" in page.locator(".prose").inner_text()


def test_classes_of_machines_that_were_not_compared_have_tables_of_their_own(
    client, db, clock, person
) -> None:
    make_board(db, devices=["H100"], event="spring")
    judge_on_two_classes(Judging(db, clock))
    page = client.get("/b/double").text
    first, second = (f"1 x H100; driver {driver}; 16 cores, 128 GiB" for driver in ("550", "580"))
    assert page.index(f"<h2>{first}</h2>") < page.index(">ada<") < page.index(f"<h2>{second}</h2>")
    assert page.index(f"<h2>{second}</h2>") < page.index(">bob<")
    assert "not comparable between classes of machines" in page
    one = client.get("/b/double", params={"class": second}).text
    assert (">bob<" in one, ">ada<" in one) == (True, False)
    table = csv.DictReader(io.StringIO(client.get("/b/double/standings.csv").text))
    assert [(row["rank"], row["class"]) for row in table] == [("1", first), ("1", second)]
    event = client.get("/e/spring").text
    event = event[event.index(first) :]  # below the table of points
    assert event.index("ada") < event.index(second) < event.index("bob")
    assert client.get("/b/double/history").status_code == client.get("/b/double/card.png").status_code == 200
    root = person("root", Role.ADMIN)
    assert f"<dd>{first}</dd>" in client.get("/s/1", headers=root.headers).text
    assert client.get("/api/v1/runs/1", headers=root.headers).json()["host_class"] == first
    form = client.get("/api/v1/leaderboards/double/standings/H100").json()
    assert form["classes"] == [first, second]
    assert [(each["rank"], each["tied"], each["host_class"]) for each in form["items"]] == [
        (1, False, first),
        (1, False, second),
    ]


def test_reports_that_cannot_be_read_say_so_and_pages_go_on(client, competition, db, person) -> None:
    with db.write() as session:
        odd = {"extra": "no mapping", "verdict": "accepted", "mode": "leaderboard"}
        session.execute(update(RunRow).values(report=odd, report_file=None))
        entry = session.scalar(select(BestRow.submission_id))
    for path in PAGES:
        assert client.get(path).status_code == 200, path
    root = person("root", Role.ADMIN)
    assert "report unreadable" in client.get(f"/s/{entry}", headers=root.headers).text
    assert "report unreadable" in client.get(f"/api/v1/submissions/{entry}", headers=root.headers).text
