"""Answers in words."""

from __future__ import annotations

import dataclasses
import re

import pytest

from kernelcup.app.boards.changes import Affected, UpdatePreview
from kernelcup.app.boards.task_diff import CaseChange, FileChange
from kernelcup.bot.commands import change_board
from kernelcup.bot.messages import boards, replies, texts
from kernelcup.errors import (
    InvalidTask,
    NotFound,
    Problem,
    RateLimited,
    ScopeMissing,
    ServerUnavailable,
    SignInNeeded,
)

HOSTILE = "@everyone **x** <@1> [a](https://evil.example) ```"


def outside_of_code(text: str) -> str:
    """Return what Discord would read as markdown."""
    return "".join(re.sub(r"\\.", "", text).split("`")[::2])


@pytest.mark.parametrize(("count", "length"), [(1, 5000), (30, 250), (500, 5)])
def test_what_is_wrong_with_a_task_fits_one_message(count: int, length: int) -> None:
    found = [Problem(file="task.yml", line=n, column=1, text=f"{HOSTILE} " * length) for n in range(count)]
    text = replies.explain(InvalidTask(found))
    assert len(text) <= texts.ROOM
    assert text.count("```") == 2
    assert "task.yml:0:1" in text
    left = re.search(r"and (\d+) more\n```$", text)
    assert text.count("task.yml:") + (int(left[1]) if left else 0) == count


def test_a_limit_says_once_when_one_may_try_again() -> None:
    error = RateLimited("The limit is 2 a day; try again in 3600 s.", retry_after_s=3600)
    text = replies.explain(error)
    assert text.lower().count("try again") == 1
    assert "<t:" in text


def test_tokens_are_not_the_persons_trouble() -> None:
    assert "The operator must check it" in replies.explain(SignInNeeded("sign in again"))
    for error in (SignInNeeded("sign in again"), ScopeMissing("This token lacks the scope; sign in again")):
        assert "sign in" not in replies.explain(error)
        assert "This token" not in replies.explain(error)


def test_errors_do_nothing() -> None:
    error = NotFound(HOSTILE)
    error.add_note(HOSTILE)
    for text in (replies.explain(error), replies.explain(RuntimeError(HOSTILE))):
        assert "@everyone" not in text
        assert "<@1>" not in text
        assert "](http" not in text
    assert "does not answer" in replies.explain(ServerUnavailable("http://secret.example"))
    assert "secret" not in replies.explain(ServerUnavailable("http://secret.example"))


@pytest.mark.parametrize(("lang", "comment"), [("py", "#"), ("cu", "//")])
def test_a_template_is_a_file_in_its_own_language(lang: str, comment: str) -> None:
    board = {"name": "b", "deadline": None, "devices": ["H100"]}
    file = boards.template_file(board, {"lang": lang, "description": "Do\nit."}, "code\n", "Triton")
    *header, code = file.data.decode().splitlines()
    assert file.name == f"b-triton.{lang}"
    assert header[0] == f"{comment}!POPCORN leaderboard b"
    assert code == "code"
    assert all(line.startswith(comment) for line in header if line)


SEEN = UpdatePreview(
    board="b",
    fingerprint="f",
    settings={},
    files=(),
    cases=(CaseChange(group="tests", kind="changed", old=None, new=None),),
    hidden={},
    needs_rejudge=True,
    reasons=("benchmarks changed",),
    affected=(Affected(device="H100", entries=1, jobs=3, gpu_s=None),),
    estimated_gpu_s=None,
    removed_in_use=(),
)


def test_what_a_change_means_does_nothing() -> None:
    seen = dataclasses.replace(
        SEEN,
        board=HOSTILE,
        settings={HOSTILE: (HOSTILE, [HOSTILE])},
        files=(FileChange(name=HOSTILE, kind="changed", added=1, removed=2, diff=""),),
        hidden={"tests": (1, 2)},
        reasons=(HOSTILE,),
        removed_in_use=(HOSTILE,),
    )
    for rejudge in (True, False):
        text = outside_of_code(change_board.preview_text(seen, rejudge=rejudge))
        assert "@everyone" not in text
        assert "<@1>" not in text
        assert "](http" not in text


def test_a_change_without_a_rejudge_names_the_command_for_it() -> None:
    told = "3 ranked results leave the standings until `/admin rejudge` judges them again."
    assert told in change_board.preview_text(SEEN, rejudge=False)
