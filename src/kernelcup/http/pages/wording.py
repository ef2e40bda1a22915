"""Sentences and words of pages that are put together in Python; all others are in the templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernelcup.app.results.duel_list import ShownDuel
from kernelcup.config.sign_in import title_of
from kernelcup.domain import JobState, Leaderboard, Standing
from kernelcup.reporting.phrases import (
    about,
    after_rule,
    code_rule,
    duel_remark,
    duel_sentence,
    licence_rule,
    plural,
    remark,
    trust_text,
)
from kernelcup.reporting.results import JobInfo, SubmissionInfo
from kernelcup.reporting.words import verdict_text
from kernelcup_harness.protocol import Backend, DuelResult, Mode, Verdict

ERROR_TITLES = {
    400: "That cannot be done",
    401: "Sign in first",
    403: "That is not allowed",
    404: "There is no such page",
    405: "This page does not accept that",
    409: "That conflicts with the current state",
    413: "That is too large",
    422: "That cannot be read",
    429: "Too many requests",
    503: "The server is busy",
}
BUG_TITLE = "Something is wrong here"

WITHOUT_GPU = {
    Backend.EMULATED: "It is emulated: a processor answers in place of a GPU. These times mean nothing for a GPU.",
    Backend.CPU: "It is a processor, timed by the wall clock. These times mean nothing for a GPU. Their intervals "
    "cover calls of one process, not a rerun.",
}
"""What the times of devices without a GPU mean."""

VERDICT_KINDS = {Verdict.ACCEPTED: "good", Verdict.INTERNAL_ERROR: "warn"}
"""Style classes of verdicts; all others are ``bad``."""


def error_title(status: int) -> str:
    """Return the heading of an error page."""
    return ERROR_TITLES.get(status, ERROR_TITLES[400] if status < 500 else BUG_TITLE)


def verdict_kind(verdict: str) -> str:
    """Return the style class of a verdict: ``good``, ``bad`` or ``warn``."""
    return VERDICT_KINDS.get(Verdict(verdict), "bad")


def value_text(value: object) -> str:
    """Return data as a person reads it: ``size 1024, seed 7``; nested data in parentheses."""
    if isinstance(value, Mapping):
        named = (f"{str(name).replace('_', ' ')} {_nested(each)}" for name, each in value.items())
        return ", ".join(named) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(map(_nested, value)) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None or value == "" else str(value)


def _nested(value: object) -> str:
    inner = value_text(value)
    return f"({inner})" if isinstance(value, Mapping | list | tuple) and len(value) > 1 else inner


def page_links(count: int, after: int, size: int, url: Callable[[int], str]) -> list[tuple[int, str]]:
    """Return the numbers and addresses of the pages of a long table: the ends and those near the current one.

    The current page has no address, and 0 stands for those left out. There are none of a table of one page.
    """
    last, current = -(-count // size), after // size + 1
    if last <= 1:
        return []
    links: list[tuple[int, str]] = []
    for number in range(1, last + 1):
        if number in (1, last) or abs(number - current) <= 2:
            links.append((number, "" if number == current else url((number - 1) * size)))
        elif links[-1][0]:
            links.append((0, ""))
    return links


def wait_text(seconds: float | None) -> str:
    """Return an estimate of a wait: ``about 3 min``."""
    if seconds is None:
        return "not known"
    if seconds < 1:
        return "none"
    return f"about {about(seconds)}"


@dataclass(frozen=True, kw_only=True, slots=True)
class OwnResult:
    """The outcome of a submission that the ranking does not show."""

    submission_id: int
    file_name: str
    text: str
    kind: str
    """The style class of its line."""


def own_result(
    view: SubmissionInfo, board: Leaderboard, device: str, own: Standing | None
) -> OwnResult | None:
    """Explain why the reader's own submission is not in a ranking; None if it is, or belongs elsewhere."""
    job = next((each for each in view.jobs if each.device == device), None)
    if job is None or (own is not None and own.submission_id == view.id):
        return None
    text, kind = not_ranked(job, view.mode, board, own)
    return OwnResult(submission_id=view.id, file_name=view.file_name, text=text, kind=kind)


def not_ranked(job: JobInfo, mode: Mode, board: Leaderboard, own: Standing | None = None) -> tuple[str, str]:
    """Explain why one's own result is not in a ranking; return the sentence and its style class."""
    if job.state is JobState.QUEUED:
        return "waits to be judged", "told"
    if job.state is JobState.RUNNING:
        return "is being judged", "told"
    if job.state is JobState.CANCELLED:
        return "is not ranked: it was cancelled", "held"
    if job.verdict is None:
        return "has no result yet", "told"
    if job.verdict is not Verdict.ACCEPTED:
        return f"is not ranked: {verdict_text(job.verdict)}", "wrong"
    if mode is not Mode.LEADERBOARD:
        return f"is accepted; a {mode.value} run is not ranked", "told"
    why = remark(job, board)
    if why:
        return f"is judged. {why}", "held"
    if own is not None and job.score is not None and job.score.score_s >= own.score_s:
        return "is not ranked: your best is faster", "told"
    return "is judged", "told"


def duel_text(duel: ShownDuel, result: DuelResult | None) -> str:
    """Describe how a duel ended."""
    if result is None or not duel.rival:
        return duel_remark(duel.outcome, duel.rival_id)
    return duel_sentence(result, f"{duel.user}’s #{duel.submission_id}", f"{duel.rival}’s #{duel.rival_id}")


FILTERS = {
    "after_rule": after_rule,
    "code_rule": code_rule,
    "licence_rule": licence_rule,
    "trust_text": trust_text,
    "provider_title": title_of,
    "wait_text": wait_text,
    "verdict_text": verdict_text,
    "verdict_kind": verdict_kind,
    "plural": plural,
    "value_text": value_text,
}
