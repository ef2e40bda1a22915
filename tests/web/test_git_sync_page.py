"""Leaderboards from a git repository in the browser, with the options that the command line has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dulwich import porcelain
from dulwich.repo import Repo
from looks import check_page
from playwright.sync_api import expect
from test_admin_pages import EVIL, judged, post

from builders import REFERENCE
from kernelcup.app.boards import boards, git_source
from kernelcup.app.boards.git_source import fetch_here
from kernelcup.app.results.standings import standings
from kernelcup.domain import OPERATOR, Actor, Role
from kernelcup_harness.protocol import HarnessKind

PAGE = "/admin/boards/new"
SYNC = "/admin/problem-sets/sync"
URL = "https://git.example/problems"
AUTHOR = b"Grace <grace@example.org>"


class Source:
    """A repository with the problem ``double``, as the service fetches it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "problems" / "double").mkdir(parents=True)
        self.repo = Repo.init(str(folder), default_branch=b"main")
        problem = {"directory": "double", "name": "double", "deadline": "2030-12-31", "gpus": ["H100", "TPU"]}
        self.write("set.yaml", {"name": "Set", "deadline": "", "description": "", "problems": [problem]})
        (folder / "problems/double/reference.py").write_text(REFERENCE)
        self.commit(size=64)

    def write(self, name: str, body: dict[str, Any]) -> None:
        """Write a file of the problem set."""
        (self.folder / "problems" / name).write_text(json.dumps(body))

    def commit(self, *, size: int) -> None:
        """Commit the task with a benchmark of a size."""
        files = [{"name": "submission.py", "source": "@SUBMISSION@"}]
        files.append({"name": "reference.py", "source": "reference.py"})
        task = {"lang": "py", "description": "Double.", "files": files}
        self.write("double/task.yml", task | {"benchmarks": [{"size": size, "seed": 2}]})
        porcelain.add(self.repo, paths=[str(each) for each in self.folder.glob("problems/**/*.*")])
        porcelain.commit(self.repo, message=b"a commit", author=AUTHOR, committer=AUTHOR)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The repository that is fetched for any address: no test reaches another host."""

    def fetch(_actor: Actor, _repository: str, branch: str, into: Path) -> str:
        return fetch_here(str(tmp_path / "source"), branch, into)

    monkeypatch.setattr(git_source, "fetch_problems", fetch)
    made = Source(tmp_path / "source")
    yield made
    made.repo.close()


@pytest.fixture
def grace(person, client, signed_in) -> Any:
    """A creator who is signed in."""
    grace = person("grace", Role.CREATOR)
    client.cookies.update(signed_in(grace))
    return grace


@pytest.mark.jobs
def test_page_with_a_preview_fits_and_axe_finds_nothing(visitor, grace, source) -> None:
    page = visitor(grace).open(PAGE)
    page.get_by_label("Repository").fill(URL)
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("status")).to_contain_text("double")
    check_page(page)


@pytest.mark.jobs
def test_options_of_a_preview_are_kept_and_used_by_the_sync(visitor, grace, source, db) -> None:
    page = visitor(grace, width=360, javascript=False).open(PAGE)
    form = page.locator(f'form[action="{SYNC}"]')
    form.get_by_label("Repository").fill(URL)
    form.get_by_label("Deadline of all").fill("2031-01-31T18:00")
    form.get_by_label("Harness that judges new ones").select_option("standard")
    form.get_by_label("MI300").check()
    form.get_by_label("also apply changes that make results incomparable").check()
    form.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_role("status")).to_contain_text("Preview, nothing was changed")
    assert boards.list_boards(db, OPERATOR) == []
    expect(form.get_by_label("Deadline of all")).to_have_value("2031-01-31T18:00")
    expect(form.get_by_label("Harness that judges new ones")).to_have_value("standard")
    expect(form.get_by_label("MI300")).to_be_checked()
    expect(form.get_by_label("H100")).not_to_be_checked()
    expect(form.get_by_label("also apply changes that make")).to_be_checked()
    form.get_by_role("button", name="Make and update").click()
    expect(page.get_by_role("status")).to_contain_text("Done, at commit")
    made = boards.get_board(db, "double")
    assert (made.creator, made.devices, made.harness) == ("grace", ("MI300",), HarnessKind.STANDARD)
    assert f"{made.deadline:%Y-%m-%d %H:%M:%S}" == "2031-01-31 18:00:00"


def test_without_options_each_problem_says_them_and_what_is_not_here_is_told(
    client, grace, source, db
) -> None:
    answer = post(client, SYNC, repository=URL, action="sync")
    assert "device left out" in answer.text
    assert "TPU" in answer.text
    made = boards.get_board(db, "double")
    assert (made.devices, f"{made.deadline:%Y-%m-%d}") == (("H100",), "2030-12-31")
    assert "changed" in post(client, SYNC, repository=URL, action="sync", no_deadline="yes").text
    assert boards.get_board(db, "double").deadline is None


def test_results_become_incomparable_only_where_that_is_ticked(client, grace, source, db) -> None:
    post(client, SYNC, repository=URL, action="sync")
    judged(db, "ada")
    source.commit(size=128)
    assert "needs force" in post(client, SYNC, repository=URL, action="sync").text
    assert [each.user for each in standings(db, "double", "H100")] == ["ada"]
    preview = post(client, SYNC, repository=URL, action="preview", force="yes").text
    assert "would leave the ranking" in preview
    assert [each.user for each in standings(db, "double", "H100")] == ["ada"]
    done = post(client, SYNC, repository=URL, action="sync", force="yes").text
    assert "/admin/boards/double/rejudge" in done
    assert standings(db, "double", "H100") == []


def test_what_cannot_be_is_told_and_stays_in_the_form(client, grace, source, db) -> None:
    for fields, text in (
        ({"deadline": EVIL}, "is not a date or time"),
        ({"deadline": "2001-01-01T00:00"}, "has already passed"),
        ({"deadline": "2031-01-01T00:00", "no_deadline": "yes"}, "either a deadline"),
        ({"harness": EVIL}, "There is no harness"),
        ({"devices": "TPU"}, "TPU"),
        ({"branch": "other"}, "other"),
        ({"problem_set": EVIL}, "There is no problem set"),
    ):
        answer = post(client, SYNC, repository=URL, action="sync", **fields)
        assert answer.status_code == 400, fields
        assert (text in answer.text, f'value="{URL}"' in answer.text, EVIL in answer.text) == (
            True,
            True,
            False,
        )
    assert boards.list_boards(db, OPERATOR) == []
