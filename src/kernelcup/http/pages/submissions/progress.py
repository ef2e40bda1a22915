"""How far a job is, from its events."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from kernelcup.app.submissions.events import Event
from kernelcup.http.pages.submissions import report_plots
from kernelcup.http.pages.submissions.report_words import stage_text


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """A stage of an attempt that goes on."""

    name: str
    done: int
    planned: int
    verdict: str
    """Empty while it runs."""

    @property
    def cells(self) -> Markup:
        """A cell for each case."""
        return report_plots.cells(self.done, self.planned)


def steps_of(events: Iterable[Event], job_id: int) -> list[Step]:
    """Return the stages that a job's latest attempt has come to, in order."""
    found: dict[str, Step] = {}
    for event in events:
        if event.job_id != job_id:
            continue
        if event.kind in ("started", "queued", "rejudging"):
            found = {}
        elif event.kind == "progress":
            name = stage_text(str(event.data.get("stage", "")))
            found[name] = _further(found.get(name), name, event)
    return list(found.values())


def _further(before: Step | None, name: str, event: Event) -> Step:
    planned = event.data.get("cases") or (before.planned if before is not None else 0)
    done = before.done if before is not None else 0
    if isinstance(case := event.data.get("case"), int):
        done = max(done, case + 1)
    verdict = str(event.data.get("verdict", ""))
    return Step(name=name, done=planned if verdict == "accepted" else done, planned=planned, verdict=verdict)
