"""Several files on the page: uploaded, shown, changed, compared, refused."""

from __future__ import annotations

import re

import pytest

from builders import make_board, make_submission
from kernelcup.app.submissions.submissions import get_code, list_views
from kernelcup_harness.protocol import SourceTree
from zips import BAD, HELPER, MAIN, TWO, zipped

TREE = SourceTree(entry="submission.py", files=TWO)
OURS = {"Origin": "http://127.0.0.1:8000"}


@pytest.fixture
def ada(db, person):
    make_board(db, devices=["H100"])
    return person("ada")


@pytest.fixture
def browser(client, ada, signed_in):
    client.cookies.update(signed_in(ada))
    return client


def send(browser, files, **fields):
    page = browser.get("/b/double/submit").text
    token = re.search(r'name="csrf_token" value="(\w+)"', page)[1]
    data = {"mode": "test", "device": "H100", "code": "", "csrf_token": token} | fields
    return browser.post("/b/double/submit", data=data, files=files, headers=OURS, follow_redirects=False)


@pytest.mark.parametrize(
    "files",
    [
        [("upload", ("mine.zip", zipped({f"mine/{name}": text for name, text in TWO.items()})))],
        [("upload", (name, text.encode())) for name, text in TWO.items()],
    ],
    ids=["a zip", "two files"],
)
def test_files_are_uploaded_shown_changed_and_compared(browser, db, files) -> None:
    first = send(browser, files)
    assert first.status_code == 303, first.text[:3000]
    assert get_code(db, 1) == TREE
    page = browser.get("/s/1").text
    assert page.index("<code>submission.py</code>") < page.index("<code>helper.py</code>")
    form = browser.get("/b/double/submit?from=1").text
    assert 'name="more_name" value="helper.py"' in form
    changed = {
        "code": MAIN,
        "file_name": "submission.py",
        "more_name": "helper.py",
        "more_code": f"{HELPER}# new\n",
    }
    assert send(browser, {"upload": ("", b"")}, **changed).headers["location"] == "/s/2"
    assert get_code(db, 2).files == {**TWO, "helper.py": f"{HELPER}# new\n"}
    difference = browser.get("/s/2/diff/1").text
    assert difference.count('<tr class="in">') == 1
    assert "Their texts are the same" not in difference


def test_a_difference_names_each_file_that_changed(browser, db) -> None:
    for files in (TWO, {"submission.py": MAIN.replace("data)", "data )"), "other.py": HELPER}):
        make_submission(db, content=zipped(dict(files)))
    text = browser.get("/s/2/diff/1").text
    assert all(f"<h3><code>{name}</code></h3>" in text for name in ("submission.py", "other.py", "helper.py"))


def test_a_bad_zip_is_refused_beside_the_form(browser, db) -> None:
    for name in ("out of the folder", "a bomb", "another kind", "not UTF-8", "no entry"):
        content, error = BAD[name]
        answer = send(browser, {"upload": ("mine.zip", content)})
        assert answer.status_code in (400, 413), name
        assert f'<span class="minor">{error.code}</span>' in answer.text
    assert list_views(db) == []


def test_two_uploads_of_one_name_are_refused(browser) -> None:
    answer = send(browser, [("upload", ("a.py", b"x")), ("upload", ("a.py", b"y"))])
    assert "invalid_files" in answer.text
