"""The documentation and the API's page, as the site serves them."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from pathlib import Path
from urllib.parse import urljoin

import pytest
from playwright.sync_api import expect

import kernelcup.http.pages
from kernelcup.http.pages.documents import HOME

ROOT = Path(__file__).parents[2]
TEMPLATES = Path(kernelcup.http.pages.__file__).parent / "templates"
LINK = re.compile(r'<(?:a|img)[^>]*\s(?:href|src)="([^"]+)"')
SCRIPT = 'document.body.append("it ran")'
PAGE = f"""<!doctype html><html lang="en"><title>A page</title><body><h1>A page</h1>
<script type="application/json">{{}}</script><script>{SCRIPT}</script><img src="x.svg" alt=""></body></html>
"""


@pytest.fixture
def built(platform, tmp_path: Path) -> Path:
    """A folder of documentation with a page whose script is inline, as in the ones that mkdocs builds."""
    platform.documents = folder = tmp_path / "site"
    (folder / "how-to").mkdir(parents=True)
    (folder / "index.html").write_text(PAGE)
    (folder / "how-to" / "run.html").write_text(PAGE.replace(SCRIPT, "other()"))
    (folder / "x.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (tmp_path / "secret.html").write_text("canary")
    return folder


def test_until_it_is_built_its_texts_are_shown_and_every_link_in_them_has_its_target(
    client, platform
) -> None:
    platform.documents = ROOT / "nowhere"
    first = client.get("/docs")
    open_, texts = [first.url.path], {}
    while open_:
        page = open_.pop()
        answer = client.get(page)
        assert answer.status_code == 200, page
        texts[page] = answer.text
        links = {urljoin(page, unescape(link)) for link in LINK.findall(answer.text)}
        open_ += {link.partition("#")[0] for link in links if link.startswith("/docs/")} - {*texts, *open_}
    assert {f"/docs/{each.relative_to(ROOT / 'docs')}" for each in (ROOT / "docs").rglob("*.md")} == {
        re.sub("html$", "md", page) for page in texts if page.endswith(".html")
    }
    for page, text in texts.items():
        for link in LINK.findall(text) if page.endswith(".html") else ():
            target, _, anchor = urljoin(page, unescape(link)).partition("#")
            assert not anchor or f'id="{anchor}"' in texts[target], (page, link)
    assert "proxy_pass" in texts["/docs/deploy/nginx.conf"]
    assert client.get("/docs/deploy/%2e%2e/pyproject.toml").status_code == 404


def test_a_page_may_run_its_own_scripts_and_no_others(client, built) -> None:
    first = client.get("/docs")
    assert (first.url.path, first.text) == (HOME, PAGE)
    policy = first.headers["content-security-policy"]
    hashed = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"'sha256-{hashed}'" in policy
    assert "unsafe" not in policy
    assert hashed not in client.get("/docs/how-to/run.html").headers["content-security-policy"]
    assert "sha256" not in client.get("/docs/x.svg").headers["content-security-policy"]


def test_a_page_that_changed_is_shown_as_it_is_and_an_unchanged_one_is_not_sent_again(client, built) -> None:
    known = client.get(HOME).headers["etag"]
    assert client.get(HOME, headers={"If-None-Match": known}).status_code == 304
    (built / "index.html").write_text("<p>built again")
    assert client.get(HOME, headers={"If-None-Match": known}).text == "<p>built again"


def test_nothing_beside_the_documentation_is_sent(client, built) -> None:
    beside = ("../secret.html", "..%2Fsecret.html", "/etc/passwd", "%2Fetc%2Fpasswd")
    for path in ("nowhere.html", *beside, "how-to", "x" * 300):
        answer = client.get(f"/docs/{path}", headers={"Accept": "text/html"})
        assert answer.status_code == 404, path
        assert "canary" not in answer.text
        assert "root:" not in answer.text


@pytest.mark.jobs
def test_a_browser_runs_what_a_page_brings_and_the_api_can_be_read(visitor, built) -> None:
    somebody = visitor(width=360)
    page = somebody.open("/docs")
    expect(page.locator("body")).to_contain_text("it ran")
    somebody.open("/docs/api", page)
    page.get_by_role("button", name="users").or_(page.locator("#operations-tag-users")).first.click()
    expect(page.locator("#api")).to_contain_text("/api/v1/sign-in-links")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_each_link_of_the_pages_to_the_documentation_has_its_heading() -> None:
    found = {
        match[1]
        for each in TEMPLATES.rglob("*.html")
        for match in re.finditer(r"\{\{ docs \}\}/([^\"]+)", each.read_text())
    }
    assert len(found) > 5
    for link in found:
        path, _, anchor = link.partition("#")
        text = (ROOT / "docs" / path).with_suffix(".md").read_text()
        headings = {
            re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())
            for title in re.findall(r"(?m)^#+ (.+)$", text)
        }
        assert not anchor or anchor in headings, link
