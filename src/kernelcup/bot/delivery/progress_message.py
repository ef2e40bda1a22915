"""The progress of a submission, in one message that is kept up to date."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from kernelcup.bot.api import Happening
from kernelcup.bot.messages import texts
from kernelcup.reporting import phrases, words
from kernelcup.reporting.results import Waiting

MODES = {"leaderboard": "ranked"}
STAGES = {
    "import": "compiling",
    "test": "testing",
    "benchmark": "benchmarking",
    "ranked": "measuring for the ranking",
    "profile": "profiling",
}
ENDED = ("done", "cancelled", "quarantined", "rejected")


@dataclass(slots=True, kw_only=True)
class JobLine:
    """The line of one device."""

    device: str
    state: str = "queued"
    reason: str = ""
    position: int | None = None
    starts_in_s: float | None = None
    stage: str = ""
    case: int | None = None
    cases: int | None = None
    verdict: str | None = None
    score_s: float | None = None
    speedup: float | None = None

    def text(self) -> str:
        device = f"**{texts.plain(self.device)}**"
        match self.state:
            case "queued":
                return f"⏳ {device}: {self._waits()}"
            case "running":
                return f"🏃 {device}: {self._runs()}"
            case "cancelled":
                return f"🚫 {device}: cancelled"
            case "quarantined":
                return f"🔎 {device}: finished; a person reviews the result before it counts"
            case "rejected":
                return f"🔎 {device}: finished; a person rejected this result"
        if self.verdict == "accepted":
            score_s, speedup = self.score_s, self.speedup
            return f"✅ {device}: {'success' if score_s is None else phrases.score_value(score_s, speedup)}"
        return f"❌ {device}: {words.verdict_text(self.verdict or 'no result')}"

    def _waits(self) -> str:
        place = Waiting(position=self.position, starts_in_s=self.starts_in_s, runs_s=None, reason=self.reason)
        return texts.plain(words.place_text(place), 300)

    def _runs(self) -> str:
        if not self.stage:
            return "starting"
        name = STAGES.get(self.stage, texts.plain(self.stage))
        if self.case is None or not self.cases:
            return name
        return f"{name}, {min(self.case + 1, self.cases)} of {self.cases} cases"


FIELDS = tuple(each.name for each in fields(JobLine))
"""The fields of a line that are stored; another version of the bot may have stored others."""


class Live:
    """A submission's state according to its events."""

    def __init__(self, jobs: dict[int, JobLine]) -> None:
        self.jobs = jobs

    @classmethod
    def of(cls, submission: Mapping[str, Any], told: Mapping[str, Any]) -> Live:
        """Start from the API's state and the stored progress."""
        jobs = {}
        for job in submission["jobs"]:
            line = JobLine(device=job["device"])
            if (before := told.get(str(job["id"]))) is not None:
                line = JobLine(**{name: before[name] for name in FIELDS if name in before})
            _show(line, job)
            jobs[int(job["id"])] = line
        return cls(jobs)

    def apply(self, happening: Happening) -> None:
        """Apply an event."""
        if happening.kind == "waiting":
            for job_id, told in happening.data.items():
                if (line := self.jobs.get(int(job_id))) is not None and line.state == "queued":
                    _wait(line, told)
            return
        if happening.job is not None and (line := self.jobs.get(happening.job)) is not None:
            _move(line, happening.kind, happening.data)

    def progress(self) -> dict[str, Any]:
        """Return the state to store."""
        return {str(job_id): asdict(line) for job_id, line in self.jobs.items()}

    @property
    def ended(self) -> bool:
        """Return whether no job waits or runs."""
        return all(line.state in ENDED for line in self.jobs.values())

    @property
    def mark(self) -> str:
        """Return one symbol for the whole submission."""
        if not self.ended:
            return "⏳"
        states = {line.state for line in self.jobs.values()}
        if states & {"quarantined", "rejected"}:
            return "🔎"
        if states == {"cancelled"}:
            return "🚫"
        return "✅" if all(line.verdict == "accepted" for line in self.jobs.values()) else "❌"


def render(submission: Mapping[str, Any], live: Live, url: str) -> str:
    mode = MODES.get(submission["mode"], submission["mode"])
    head = f"## Submission #{submission['id']}: {texts.code(submission['file_name'])}"
    where = f"{mode} · {texts.code(submission['leaderboard'])} · <{url}>"
    return "\n".join([head, where, *(line.text() for line in live.jobs.values())])[: texts.ROOM]


def duration(seconds: float) -> str:
    """Return a time with a unit and four digits."""
    return phrases.duration(seconds * 1e9)


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th."""
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _show(line: JobLine, job: Mapping[str, Any]) -> None:
    line.state, line.reason = job["state"], job["reason"]
    line.verdict, line.score_s, line.speedup = job["verdict"], job["score_s"], job.get("speedup")
    if job.get("waiting"):
        _wait(line, job["waiting"])


def _wait(line: JobLine, told: Mapping[str, Any]) -> None:
    line.position, line.starts_in_s, line.reason = told["position"], told["starts_in_s"], told["reason"]


def _move(line: JobLine, kind: str, data: Mapping[str, Any]) -> None:
    if kind in ("queued", "rejudging"):
        line.state, line.reason = "queued", str(data.get("reason", ""))
        line.position = line.starts_in_s = None
    elif kind == "started":
        line.state, line.stage, line.case, line.cases = "running", "", None, None
    elif kind == "progress":
        line.state, line.stage = "running", str(data.get("stage", ""))
        line.case, line.cases = data.get("case"), data.get("cases")
    elif kind == "finished":
        line.state, line.verdict = "done", data.get("verdict")
        line.score_s, line.speedup = data.get("score_s"), data.get("speedup")
    elif kind in ("cancelled", "quarantined", "rejected"):
        line.state = kind
    elif kind == "released":
        line.state = "done"
