"""The pages as files, as the demo writes them."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import unquote

import pytest
from test_admin_pages import judged

from builders import make_board
from kernelcup.domain import Role
from kernelcup.http.static_site import file_of, write_site


@pytest.fixture
def site(platform, db, person, tmp_path) -> Path:
    """The pages of a leaderboard with a result of ada's, as its creator sees them."""
    grace = person("grace", Role.CREATOR)
    person("ada")
    make_board(db, creator="grace")
    judged(db, "ada")
    folder = tmp_path / "site"
    with ThreadPoolExecutor(1) as aside:  # a browser's event loop may be running in this thread
        aside.submit(write_site, platform, folder, token=grace.token, also=["/s/1"]).result()
    return folder


@pytest.mark.dear("writes the whole site, its documents included")
def test_every_link_leads_to_a_file_and_nothing_needs_a_server_or_is_secret(site) -> None:
    pages = [*site.rglob("*.html")]
    names = {str(each.relative_to(site)) for each in pages}
    assert {"index.html", "b/double.html", "s/1.html", "u/ada.html", "queue.html"} <= names
    assert {"docs/index.html", "docs/explanation/how-timing-works.html", "docs/reference/cli.html"} <= names
    unwanted = ("<form", "csrf_token", "data-live", "data-stream", 'href="/admin', "Submit a kernel")
    for page in pages:
        text = page.read_text()
        assert not [each for each in unwanted if each in text], page
        assert not re.search(r"<a\b(?![^>]*\shref=)[^>]*>", text), page
        for link in re.findall(r'\s(?:href|src)="([^"#]+)', text):
            if not re.match(r"https?://", link):
                assert (page.parent / unquote(link)).is_file(), (page, link)


@pytest.mark.jobs
def test_it_opens_from_the_disk(site, chromium) -> None:
    context = chromium.new_context(viewport={"width": 360, "height": 800})
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda told: faults.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto((site / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.get_by_role("link", name="double").first.click()
    assert page.get_by_role("heading", name="double").is_visible()
    page.get_by_role("link", name="ada").first.click()
    assert page.get_by_role("heading", name="ada").is_visible()
    assert page.evaluate("getComputedStyle(document.body).margin") == "0px"
    context.close()
    assert not faults


@pytest.mark.parametrize(
    ("address", "file"),
    [
        ("/", "index.html"),
        ("/b/sort?device=H100", "b/sort~device=H100.html"),
        ("/../../etc/passwd", "etc/passwd.html"),
        ("/u/%2e%2e%2fx", "u/..-x.html"),
        ("/docs/how-to/run-a-class.html", "docs/how-to/run-a-class.html"),
    ],
)
def test_addresses_stay_in_the_folder(address, file) -> None:
    assert file_of(address, is_page=True) == file
