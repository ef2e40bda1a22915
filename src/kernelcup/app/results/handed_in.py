"""What people handed in to a leaderboard, for its managers: all files in one zip, and files that are alike."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Annotated

from kernelcup.app import access
from kernelcup.app.boards.boards import find_board
from kernelcup.app.boards.queries import task_versions
from kernelcup.app.courses.queries import members
from kernelcup.app.operation import Archive, Board, Given, operation, parts_of
from kernelcup.app.results.queries import attempts as queries
from kernelcup.app.submissions.queries import submissions
from kernelcup.domain import Actor, Leaderboard
from kernelcup.engine import Database, Session
from kernelcup_harness.protocol import SourceTree

MOST_FILES = 1000
"""Pairs grow with the square: a thousand files are half a million."""
MOST_TOKENS = 20_000
MOST_PAIRS = 500
LEAST_TOKENS = 20
"""Shorter files are alike by chance."""


QUOTES = re.compile(r"""^\w*(["']{3}|["'])|(["']{3}|["'])$""")
NO_CODE = ("Comment", "Literal.String.Doc")
MOST_INLINE = 30
"""A longer string of Python is read as code."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HandedIn:
    """A submission that is one's best on a device, or one's last."""

    submission: int
    user: str
    label: str
    """From the class list; empty without one."""
    kind: str
    """``best`` or ``last``."""
    device: str
    """Of a best; empty otherwise."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pair:
    """Two files of different people, and how much of their tokens are the same."""

    first: HandedIn
    second: HandedIn
    percent: float
    """100 where they differ in names, comments and spaces at most."""
    is_same_text: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Likeness:
    """Files that are alike: a hint to look, never a verdict."""

    compared: int
    """The number of submissions."""
    pairs: tuple[Pair, ...]
    """The most alike first."""


@operation(
    "GET",
    "/leaderboards/{name}/code.zip",
    "board export code",
    subject="leaderboards",
    is_slow=True,
    is_aside=True,
)
def code_zip(db: Database, actor: Actor, board: Board) -> Archive:
    """Export the best and the last file of everyone as a zip, in folders by label, or by user without a class list.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not see all of the leaderboard.
    """
    with db.read() as session:
        found = _inspected(session, actor, board)
        file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when its parts were read
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            for each in _handed_in(session, found):
                which = "-".join(filter(None, (each.kind, each.device, str(each.submission))))
                folder = f"{folder_name(each.label or each.user)}/{folder_name(which)}"
                for path, text in submissions.code(session, each.submission).files.items():
                    archive.writestr(f"{folder}/{path}", text)
    return Archive(name=f"{found.name}-code.zip", parts=parts_of(file))


@operation(
    "GET",
    "/leaderboards/{name}/likeness",
    "board export likeness",
    subject="leaderboards",
    is_slow=True,
    is_aside=True,
)
def likeness(
    db: Database,
    actor: Actor,
    board: Board,
    *,
    least: Annotated[
        int, Given(options=("--least",), least=50, most=100, help="Least percentage of equal tokens.")
    ] = 80,
) -> Likeness:
    """List pairs of equal and near-equal files of different people: hints, never a verdict.

    Python, C++ and CUDA C++ are compared by their tokens, without comments and docstrings, and with one word for
    all names. What a file shares with the task's own templates is common to all, so those are left out.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor may not see all of the leaderboard.
    """
    with db.read() as session:
        found = _inspected(session, actor, board)
        files = _handed_in(session, found)[:MOST_FILES]
        codes = {each.submission: submissions.code(session, each.submission) for each in files}
        task = task_versions.load(session, found.task_hash)
    given = {
        tuple(tokens(SourceTree.of(text, task.submission_name_of(text)))) for text in task.templates.values()
    }
    read = {number: tuple(tokens(code)) for number, code in codes.items()}
    one_each: dict[int, HandedIn] = {}
    for each in files:
        if read[each.submission] not in given:
            one_each.setdefault(each.submission, each)  # a best before a last
    pairs = sorted(_pairs(list(one_each.values()), codes, read, least), key=lambda pair: -pair.percent)
    return Likeness(compared=len(one_each), pairs=tuple(pairs[:MOST_PAIRS]))


def tokens(code: SourceTree) -> list[str]:
    """Return the tokens of a submission, alike for texts that differ in names, comments and spaces at most."""
    found: list[str] = []
    for name, text in code.in_order.items():
        found += _words(text, "cuda" if name.lower().endswith((".cu", ".cuh", ".cpp", ".h")) else "python")
    return found[:MOST_TOKENS]


def _words(text: str, language: str) -> list[str]:
    """Return a text's tokens; in Python a string of several lines is read as the CUDA C++ that it often is."""
    from pygments.lexers import get_lexer_by_name

    found: list[str] = []
    kinds = ((".".join(kind), word) for kind, word in get_lexer_by_name(language).get_tokens(text))
    # The lexer divides a string where it could be a template.
    for is_string, part in groupby(kinds, key=lambda each: each[0].startswith("Literal.String")):
        some = [(of, word) for of, word in part if word.strip() and not of.startswith(NO_CODE)]
        string = QUOTES.sub("", "".join(word for _, word in some)) if is_string else ""
        if language == "python" and len(string) > MOST_INLINE:
            found += _words(string, "cuda")
        else:
            found += ["name" if of.startswith("Name") else word for of, word in some]
    return found


def _pairs(
    files: Sequence[HandedIn],
    codes: Mapping[int, SourceTree],
    read: Mapping[int, tuple[str, ...]],
    least: int,
) -> list[Pair]:
    from rapidfuzz.distance import Indel

    found = []
    for first, second in combinations(files, 2):
        one, other = read[first.submission], read[second.submission]
        if first.user == second.user or min(len(one), len(other)) < LEAST_TOKENS:
            continue
        share = 100 * Indel.normalized_similarity(one, other, score_cutoff=least / 100)
        if share >= least:
            same = codes[first.submission].files == codes[second.submission].files
            found.append(Pair(first=first, second=second, percent=round(share, 1), is_same_text=same))
    return found


def _inspected(session: Session, actor: Actor, name: str) -> Leaderboard:
    board = find_board(session, name, actor)
    access.check_inspects_board(session, actor, board)
    return board


def _handed_in(session: Session, board: Leaderboard) -> list[HandedIn]:
    register = [] if board.course_id is None else members.register(session, board.course_id)
    labels = {each.user: each.label for _, each in register}
    return [
        HandedIn(
            submission=number,
            user=user,
            label=labels.get(user, ""),
            kind="best" if device else "last",
            device=device,
        )
        for user, number, device in queries.bests_and_lasts(session, board.id)
    ]


def folder_name(text: str) -> str:
    """Return a text as the name of a folder: letters, digits and a few signs."""
    return re.sub(r"[^\w.@+-]+", "_", text).strip(".") or "_"
