"""What who follows a submission at a server is told."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from builders import NOW
from kernelcup.cli.compete.follow import Follower
from kernelcup.cli.show.render import StageLines
from kernelcup.client.core import StreamEvent
from kernelcup.client.models import read_submission
from kernelcup.reporting.results import Waiting
from kernelcup.reporting.words import place_text

WAITING = {"position": 3, "starts_in_s": 40.2, "runs_s": 12.0, "reason": "2 jobs are ahead"}
JOB = {
    "id": 5,
    "device": "H100",
    "state": "queued",
    "attempt": 1,
    "reason": "",
    "waiting": WAITING,
    "run": None,
    "verdict": None,
    "score_s": None,
    "low_s": None,
    "high_s": None,
    "raw_s": None,
    "remark": "",
    "best": None,
    "report": None,
}
SUBMISSION = read_submission(
    {
        "id": 7,
        "leaderboard": "double",
        "user": "ada",
        "mode": "test",
        "file_name": "k.py",
        "devices": ["H100"],
        "created_at": NOW.isoformat(),
        "ended": False,
        "jobs": [JOB],
    }
)


def followed(*events: tuple[str, Any], terminal: bool = False) -> list[str]:
    """Return the lines that events become, after the first one about the queue."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, color_system=None, width=100)
    with Follower(SUBMISSION, lines=StageLines(out=console)) as follower:
        for kind, data in events:
            follower.take(StreamEvent(id=None, kind=kind, data=data))
    first, *lines = out.getvalue().splitlines()
    if not terminal:
        assert (
            first == "H100: number 3 in the queue, starts in about 40 s, runs about 12 s (2 jobs are ahead)"
        )
    return lines


def of_job(**data: Any) -> dict[str, Any]:
    """Return the data of an event of the job."""
    return {"job": 5, "data": data}


@pytest.mark.parametrize(
    ("kind", "data", "line"),
    [
        ("started", {"attempt": 1}, "H100: started"),
        ("started", {"attempt": 2}, "H100: started (attempt 2)"),
        ("queued", {"reason": "its lease ran out"}, "H100: back in the queue: its lease ran out"),
        ("quarantined", {}, "H100: a person reviews the result before it counts"),
        ("released", {}, "H100: the result counts"),
        ("rejudging", {}, "H100: is judged again"),
        ("cancelled", {"reason": "by\x1b[31m ada"}, r"H100: cancelled (by\x1b[31m ada)"),
        (
            "progress",
            {"stage": "test", "cases": 3, "verdict": "accepted"},
            "✓ accepted  H100 test 3/3",
        ),
        (
            "progress",
            {"stage": "test", "cases": 3, "verdict": "wrong_answer"},
            "✗ wrong answer  H100 test",
        ),
    ],
)
def test_what_happens_is_a_line(kind: str, data: dict[str, Any], line: str) -> None:
    assert followed((kind, of_job(**data))) == [line]


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("progress", of_job(stage="test", cases=3)),
        ("progress", of_job(stage="test", case=1, cases=3)),
        ("progress", of_job(stage="test", cases=3, verdict="new")),
        ("finished", of_job(verdict="accepted")),
        ("accepted", {"job": None, "data": {}}),
        ("started", {"job": 99, "data": {}}),
        ("started", {"job": 5, "data": None}),
        ("started", "text"),
        ("waiting", {"jobs": None}),
        ("waiting", {"jobs": {"5": {}, "6": WAITING, "x": WAITING}}),
        ("waiting", {"jobs": {"5": WAITING | {"starts_in_s": 39.0}}}),
        ("something new", of_job()),
    ],
)
def test_what_is_no_news_or_not_understood_is_no_line(kind: str, data: Any) -> None:
    assert followed((kind, data)) == []


def test_a_new_place_is_a_line() -> None:
    nearer = WAITING | {"position": 1, "starts_in_s": 0.0, "reason": "next to start"}
    assert followed(("waiting", {"jobs": {"5": nearer}})) == [
        "H100: number 1 in the queue, starts at once, runs about 12 s (next to start)"
    ]


def test_cases_are_counted_on_a_terminal() -> None:
    lines = followed(("progress", of_job(stage="test", case=1, cases=3)), terminal=True)
    assert "H100: test case 1 of 3" in "\n".join(lines)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.0, "1 s"), (89.0, "89 s"), (100.0, "2 min"), (5000.0, "83 min"), (9000.0, "2.5 h")],
)
def test_an_estimate_is_said_roughly(seconds: float, text: str) -> None:
    waiting = Waiting(position=None, starts_in_s=seconds, runs_s=None, reason="")
    assert place_text(waiting) == f"waits, starts in about {text}"
