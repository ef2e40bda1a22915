"""Several files through the API, the web page and the existing client: taken, shown again, refused."""

from __future__ import annotations

import base64
import io
import zipfile

import pytest

from builders import SUBMISSION, make_board
from kernelcup.app.submissions.submissions import get_code, list_views
from kernelcup_harness.protocol import SourceTree
from zips import BAD, TWO, zipped

TREE = SourceTree(entry="submission.py", files=TWO)
DOORS = ("out of the folder", "a bomb", "another kind", "not UTF-8", "no entry")
"""What each door is tried with; the rest is the same code, tried where it is read."""


@pytest.fixture
def ada(db, person):
    make_board(db, devices=["H100"])
    return person("ada")


def post(client, ada, **code):
    body = {"leaderboard": "double", "devices": ["H100"], **code}
    return client.post("/api/v1/submissions", json=body, headers=ada.headers)


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize("code", [{"files": TWO}, {"zip": encoded(zipped(dict(TWO)))}])
def test_files_and_a_zip_are_taken_by_the_api(client, db, ada, code) -> None:
    number = post(client, ada, **code).json()["id"]
    assert get_code(db, number) == TREE
    shown = client.get(f"/api/v1/submissions/{number}/code", headers=ada.headers).json()
    assert shown == {"submission": number, "entry": "submission.py", "files": TWO}
    raw = client.get(f"/api/v1/submissions/{number}/raw", headers=ada.headers)
    assert raw.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(raw.content)) as archive:
        assert {name: archive.read(name).decode() for name in archive.namelist()} == TWO


def test_bad_files_are_refused_by_the_api(client, db, ada) -> None:
    bad = [
        ({"zip": encoded(content)}, 413 if error.code == "file_too_large" else 400, error.code)
        for content, error in (BAD[name] for name in DOORS)
    ]
    for code, status, word in (
        *bad,
        ({"zip": "not base64"}, 400, "invalid_files"),
        ({"files": {**TWO, "../evil.py": ""}}, 400, "invalid_files"),
        ({"files": {**TWO, "a\0.py": ""}}, 400, "invalid_files"),
        ({"files": {**TWO, "a.py": "\0"}}, 400, "not_text"),
        ({"files": {**TWO, "reference.py": ""}}, 400, "invalid_files"),
        ({"files": {}}, 400, "empty_file"),
        ({"files": {"submission.py": "#" * (1 << 20), "a.py": "#"}}, 413, "file_too_large"),
        ({"files": TWO, "code": SUBMISSION}, 422, "invalid_request"),
        ({}, 422, "invalid_request"),
    ):
        answer = post(client, ada, **code)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, word)
    assert list_views(db) == []


def test_the_same_files_with_the_same_key_are_one_submission(client, ada) -> None:
    body = {"leaderboard": "double", "files": TWO}
    headers = ada.headers | {"Idempotency-Key": "k"}
    first, again = (client.post("/api/v1/submissions", json=body, headers=headers) for _ in range(2))
    assert first.json()["id"] == again.json()["id"]
