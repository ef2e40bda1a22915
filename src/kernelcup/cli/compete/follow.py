"""Follow a submission at a server: its place in the queue and its stages, each shown once."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from kernelcup.cli.show.render import StageLines
from kernelcup.client.core import StreamEvent
from kernelcup.client.models import read
from kernelcup.reporting.results import SubmissionInfo, Waiting
from kernelcup.reporting.words import place_text
from kernelcup_harness.protocol import Verdict


class Follower:
    """Turns events into lines; lines for a terminal replace each other."""

    def __init__(self, submission: SubmissionInfo, *, quiet: bool = False, lines: StageLines | None = None):
        self._lines = lines or StageLines(quiet=quiet)
        self._devices = {job.id: job.device for job in submission.jobs}
        self._first = {job.id: job.waiting for job in submission.jobs if job.waiting is not None}
        self._told: dict[int, tuple[int | None, str]] = {}

    def __enter__(self) -> Follower:
        self._lines.__enter__()
        for job_id, waiting in self._first.items():
            self._wait(job_id, waiting)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lines.__exit__(kind, error, trace)

    def take(self, event: StreamEvent) -> None:
        """Show one event; skip events of an unknown kind or form."""
        if not isinstance(event.data, dict):
            return
        if event.kind == "waiting":
            self._take_waiting(event.data.get("jobs"))
            return
        job_id, data = event.data.get("job"), event.data.get("data")
        if not isinstance(data, dict) or job_id not in self._devices:
            return
        self._take_job(job_id, event.kind, data)

    def _take_job(self, job_id: int, kind: str, data: Mapping[str, Any]) -> None:
        device = self._devices[job_id]
        if kind == "progress":
            self._progress(device, data)
        elif kind == "started":
            self._told.pop(job_id, None)
            self._lines.say(f"{device}: started{_again(data.get('attempt'))}")
        elif kind == "queued":
            self._lines.say(f"{device}: back in the queue: {data.get('reason', '')}")
        elif kind == "quarantined":
            self._lines.say(f"{device}: a person reviews the result before it counts")
        elif kind in ("released", "rejudging", "cancelled"):
            self._lines.say(f"{device}: {_reason(kind, data)}")

    def _progress(self, device: str, data: Mapping[str, Any]) -> None:
        stage, cases = str(data.get("stage", "")), data.get("cases")
        planned = cases if isinstance(cases, int) else 0
        if "verdict" in data:
            try:
                verdict = Verdict(data["verdict"])
            except ValueError:
                return
            # The report has the number of cases that passed in a failed stage.
            counted = planned if verdict is Verdict.ACCEPTED else 0
            self._lines.end_stage(f"{device} {stage}", verdict, counted, counted)
        elif "case" in data:
            self._lines.show(f"{device}: {stage} case {data['case']}{f' of {planned}' if planned else ''}")
        else:
            self._lines.show(f"{device}: {stage}")

    def _take_waiting(self, jobs: object) -> None:
        if not isinstance(jobs, dict):
            return
        for number, told in jobs.items():
            job_id = int(number) if str(number).isdecimal() else None
            if job_id not in self._devices or not isinstance(told, dict):
                continue
            try:
                self._wait(job_id, read(Waiting, told))
            except (KeyError, TypeError):
                continue

    def _wait(self, job_id: int, waiting: Waiting) -> None:
        text = f"{self._devices[job_id]}: {place_text(waiting)}"
        self._lines.show(text)
        # A changed estimate does not deserve a line.
        news = (waiting.position, waiting.reason)
        if self._told.get(job_id) != news:
            self._told[job_id] = news
            self._lines.say(text)


def _again(attempt: object) -> str:
    return f" (attempt {attempt})" if isinstance(attempt, int) and attempt > 1 else ""


def _reason(kind: str, data: Mapping[str, Any]) -> str:
    words = {"rejudging": "is judged again", "cancelled": "cancelled", "released": "the result counts"}
    reason = data.get("reason")
    return f"{words[kind]}{f' ({reason})' if reason else ''}"
