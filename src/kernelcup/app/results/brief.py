"""A leaderboard in one answer, for readers who have nothing else, such as coding agents."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from kernelcup.app.operation import Board, operation
from kernelcup.app.results.overview import DeviceSummary, show_summary
from kernelcup.app.rules.queries import limits
from kernelcup.app.submissions.handout import hand_out, show_task
from kernelcup.domain import OPERATOR, Actor, Device, TaskInfo
from kernelcup.engine import Database
from kernelcup.reporting.rules import answers_text, refusals, rules_of
from kernelcup.tasks.sources.files import LENT
from kernelcup.tasks.sources.trees import FileName
from kernelcup_harness.protocol import Mode, Work

SIGNATURE = re.compile(r"^(?:def|\w+) +custom_kernel\([^)]*\)(?: *->[^:\n]+)?", re.MULTILINE)
COMPARISON = re.compile(
    r"^(?!\s*(?:from|import)\b).*(?:[ar]tol|equal|close|match_reference).*$", re.MULTILINE
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A call on the way to a place, by HTTP or by command; `ID` is the number of the submission."""

    text: str
    http: str
    """Method and address."""
    body: Mapping[str, Any] | None = None
    command: str = ""
    """Empty where the command of the step before waits and shows the report."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Brief:
    """All that a submission has to know of its leaderboard."""

    leaderboard: FileName
    opens_at: datetime | None
    deadline: datetime | None
    task: TaskInfo
    work: Sequence[Work]
    """The least work of each benchmark; empty if the task declares none."""
    signatures: Mapping[str, str]
    """The head of the function to write, by language."""
    files: Mapping[str, FileName]
    """The name of the file to send, by language."""
    templates: Mapping[str, str]
    """Starting points, by language."""
    sources: Mapping[str, str]
    """The task's files without those that KernelCup lends: shapes and dtypes of inputs, the reference, the check."""
    answers: str
    """The form of answers; empty where the task's own harness decides."""
    comparisons: Sequence[str]
    """The lines of the sources that compare answers, with their tolerances."""
    devices: Sequence[DeviceSummary]
    rules: Mapping[str, str]
    rates: Sequence[str]
    """How much may be submitted in a time."""
    forbidden: Mapping[str, str]
    """By the reason that a report then has."""
    steps: Sequence[Step]
    """The way to a place, in order."""


@operation("GET", "/leaderboards/{name}/brief", subject="tasks", tool="task")
def show_brief(
    db: Database,
    name: Board,
    viewer: Actor = OPERATOR,
    *,
    known_devices: Sequence[Device] = (),
    home: Path | None = None,
) -> Brief:
    """Show in one answer all that a submission has to know: task, limits, what is forbidden, the next steps."""
    summary, task = show_summary(db, name, viewer=viewer), hand_out(db, name, viewer).task
    board = summary.board
    sources = {name: text for name, text in task.sources.items() if name not in LENT}
    heads = {language: SIGNATURE.search(text) for language, text in task.templates.items()}
    files = {language: task.submission_name_of(text) for language, text in task.templates.items()}
    with db.read() as session:
        rates = limits.applying(
            session, board_id=board.id, user_id=viewer.user_id, devices=board.devices, group=None
        )
    return Brief(
        leaderboard=board.name,
        opens_at=board.opens_at,
        deadline=board.deadline,
        task=show_task(db, name, viewer, known_devices=known_devices, home=home),
        work=task.work,
        signatures={language: found[0] for language, found in heads.items() if found is not None},
        files=files,
        templates=task.templates,
        sources=sources,
        answers=answers_text(task),
        comparisons=[line.strip() for text in sources.values() for line in COMPARISON.findall(text)],
        devices=summary.devices,
        rules=dict(rules_of(board, task)),
        rates=[each.text for each in rates],
        forbidden=refusals(task, board.harness),
        steps=steps(board.name, board.devices[0], next(iter(files.values()), task.submission_name)),
    )


def steps(board: str, device: str, file: str) -> list[Step]:
    """Return the way to a place on a leaderboard."""
    submit = shlex.join(["kernelcup", "submit", file, "--board", board, "--device", device])
    body = {"leaderboard": board, "devices": [device], "file_name": file, "code": "(the text of the file)"}
    of_device = quote(device, safe="")

    def submitting(text: str, mode: Mode, command: str) -> list[Step]:
        made = body | {"mode": mode.value}
        waiting = (
            "Wait: the answer ends after the event `done`. If it breaks off, ask with `after=` the last `id`."
        )
        reading = "Read the report: the verdict, why, each case with its times, what to do next."
        address = "GET /api/v1/submissions/ID"
        return [
            Step(text=text, http="POST /api/v1/submissions", body=made, command=command),
            Step(text=waiting, http=f"{address}/events?after=0"),
            Step(text=reading, http=f"{address}/report"),
        ]

    return [
        Step(
            text="See how much you may still submit; without a limit there is nothing to see.",
            http=f"GET /api/v1/budget?leaderboard={board}&device={of_device}",
            command=f"kernelcup budget {board}",
        ),
        *submitting(
            "Submit it as a test: all test cases, no times, no place.", Mode.TEST, f"{submit} --mode test"
        ),
        *submitting("If it was accepted, submit it ranked.", Mode.LEADERBOARD, submit),
        Step(
            text="See your place.",
            http=f"GET /api/v1/leaderboards/{board}/standings/{of_device}/me",
            command=f"kernelcup standings {board}",
        ),
    ]
