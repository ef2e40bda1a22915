"""What all pages have in common: headers, caching, errors, forms, what is loaded."""

from __future__ import annotations

import gzip
import re

import pytest
from looks import check_page

from kernelcup.http.pages.assets import asset_url, assets, compressed
from kernelcup.http.pages.rendering import environment

HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_page_forbids_scripts_styles_and_frames_of_others(client) -> None:
    policy = client.get("/queue").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "base-uri 'none'" in policy
    assert "form-action 'self'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_page_that_has_not_changed_is_not_sent_again(client) -> None:
    first = client.get("/queue")
    again = client.get("/queue", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


def test_page_is_compressed_for_those_who_take_it(client) -> None:
    plain = client.get("/queue", headers={"Accept-Encoding": "identity"})
    small = client.get("/queue", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert small.headers["content-encoding"] == "gzip"
    assert small.text == plain.text


def test_assets_never_expire_and_their_address_has_their_hash(client) -> None:
    page = client.get("/queue").text
    for address in re.findall(r'(?:href|src)="(/static/[^"]+)"', page):
        answer = client.get(address)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    assert "no-cache" in client.get("/static/000000000000/style.css").headers["cache-control"]
    assert client.get("/static/0/none.css").status_code == 404


def test_compressed_assets_are_small() -> None:
    sizes = {name: len(compressed(name) or each.body) for name, each in assets().items()}
    assert sizes["style.css"] + sizes["site.js"] < 10_000
    assert gzip.decompress(compressed("site.js") or b"") == assets()["site.js"].body


def test_templates_have_no_inline_script_or_style() -> None:
    made = environment()
    for name in made.list_templates():
        assert made.loader is not None
        source = made.loader.get_source(made, name)[0]
        assert not re.search(r"\sstyle=|\son\w+=|<style|<script(?! src=)", source), name


def test_unknown_address_is_a_page_for_browsers_and_json_for_programs(client) -> None:
    page, told = client.get("/nowhere", headers=HTML), client.get("/nowhere")
    assert (page.status_code, told.status_code) == (404, 404)
    assert "not_found" in page.text
    assert "<h1>" in page.text
    assert "Bearer" not in page.text + client.get("/account", headers=HTML).text
    assert told.json()["error"]["code"] == "not_found"
    assert client.get("/api/v1/nowhere", headers=HTML).json()["error"]["code"] == "not_found"


def test_error_page_knows_who_is_signed_in(client, person, signed_in) -> None:
    paths = ("/nowhere", "/docs/nowhere.html")
    assert all(">Sign in</a>" in client.get(path, headers=HTML).text for path in paths)
    client.cookies.update(signed_in(person("ada")))
    for path in paths:
        page = client.get(path, headers=HTML)
        assert page.status_code == 404
        assert '<a class="account" href="/u/ada">ada</a>' in page.text, path


def test_error_page_escapes_what_was_asked_for(client) -> None:
    page = client.get("/static/0/<script>alert(1)</script>", headers=HTML)
    assert page.status_code == 404
    assert "<script>alert" not in page.text


def test_token_of_another_session_is_refused(client, person, signed_in) -> None:
    client.cookies.update(signed_in(person("ada")))
    token = re.search(r'name="csrf_token" value="(\w+)"', client.get("/account").text)
    assert token is not None
    data, headers = {"csrf_token": token[1], "name": "lovelace"}, {"Origin": "http://127.0.0.1:8000"}
    assert client.post("/account/name", data=data, headers=headers).status_code == 200
    client.cookies.update(signed_in(person("bob")))
    assert client.post("/account/name", data=data, headers=headers).status_code == 403


@pytest.mark.jobs
def test_error_page_fits_and_axe_finds_nothing(visitor) -> None:
    somebody = visitor(width=360)
    somebody.expects_refusal = True
    page = somebody.open("/nowhere")
    check_page(page)
    assert page.locator("h1").inner_text() == "There is no such page"


def test_asset_of_no_name_is_a_bug_of_ours() -> None:
    with pytest.raises(KeyError):
        asset_url("none.css")
