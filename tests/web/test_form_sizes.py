"""No text of a form makes the answer long or dear: each field gets the largest and oddest that it may hold."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from html import unescape
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

import pytest
from starlette.testclient import TestClient
from test_every_form import HERE, kind_of, root, starts_of, walk

from database_kinds import content_of, replace_content
from hostile import SHAPES, Meter
from kernelcup.app.submissions.submissions import list_views

__all__ = ["root"]
LARGEST, LINE = 1_000_000, 60_000
"""Characters of an area, and of a line: what a browser would refuse itself is sent all the same."""
KINDS = ("commas", "columns", "rows", "names", "keys", "brackets", "stars", "quotes", "turned", "objects")


class Form(HTMLParser):
    """The fields of the form with an address: what they hold, and which are texts or files."""

    def __init__(self, text: str, action: str) -> None:
        super().__init__()
        self.action = action
        self.values: dict[str, str] = {}
        self.texts: dict[str, int] = {}
        self.files: list[str] = []
        self._is_inside = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a field."""
        given = dict(attrs)
        name, kind = given.get("name") or "", given.get("type", "text")
        if tag == "form":
            self._is_inside = given.get("action") == self.action and not self.values
        if not self._is_inside or not name or tag not in ("input", "textarea", "select", "button"):
            return
        if kind == "file":
            self.files.append(name)
        elif kind not in ("checkbox", "radio") or "checked" in given:
            self.values[name] = given.get("value") or ""
        if name != "csrf_token" and kind != "file" and name not in self.texts:
            self.texts[name] = LARGEST if tag == "textarea" else LINE


def beside_message(answer: Any, *, before: int) -> int:
    """Return how many bytes of an answer are the page that has the form, and what its reader sent."""
    return before + len(answer.content) - without_values(answer.text)


def requests_of(form: Form) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is sent, each time with one hostile field."""
    for name in KINDS:
        for field, longest in form.texts.items():
            yield f"{field} {name}", {"data": form.values | {field: SHAPES[name](longest)}}
        for field in form.files:
            content = SHAPES[name](LARGEST).encode()
            for suffix in ("txt", "py", "zip", "yml"):
                sent = {field: (f"a.{suffix}", content)}
                yield f"{field} {name}.{suffix}", {"data": form.values, "files": sent}
    if form.texts:
        yield "many fields", {"data": form.values | {f"k{number}": "1" for number in range(20_000)}}


def without_values(text: str) -> int:
    """Return the bytes of a page without what its fields hold, which is what its reader sent."""
    plain = re.sub(r"(<textarea[^>]*>).*?</textarea>", r"\1", text, flags=re.DOTALL)
    return len(re.sub(r'value="[^"]*"', "", plain).encode())


def forms_of(client: TestClient, pages: list[str]) -> dict[str, tuple[str, str, Form]]:
    """Return a form of each kind, with its page and its address."""
    found: dict[str, tuple[str, str, Form]] = {}
    for path in pages:
        text = client.get(path, headers=HERE).text
        for action in re.findall(r'<form[^>]* action="([^"]+)"', text):
            address = urljoin(path, unescape(action))
            form = Form(text, unescape(action))
            if "csrf_token" in form.values and address != "/auth/logout":
                found.setdefault(kind_of(address), (path, address, form))
    return found


@pytest.mark.jobs
def test_no_field_of_a_form_makes_the_page_long_or_dear(client, root, db) -> None:
    _, pages = walk(client, starts_of(list_views(db, user="root")[0].id))
    kept, meter, forms = content_of(db.engine), Meter(), forms_of(client, pages)
    assert len(forms) > 40
    for path, address, form in forms.values():
        before = without_values(client.get(path, headers=HERE).text)
        for label, given in requests_of(form):
            send = partial(client.post, address, headers=HERE, follow_redirects=False, **given)
            free = partial(beside_message, before=before)
            answer = meter.check(f"{address} {label}", send, free=free)
            if answer.status_code < 400:
                replace_content(db.engine, kept)
    assert not meter.faults, "\n".join(meter.faults)
