"""Finals in words."""

from __future__ import annotations

import dataclasses

from kernelcup.domain import Compared, Final, Meeting
from kernelcup.reporting.phrases import duel_sentence, plural
from kernelcup_harness.protocol import DuelResult, DuelVerdict

OFFICIAL = "official order"
DELETED = "a deleted submission"
SIMULTANEOUS = "simultaneous interval"


def state_text(final: Final) -> str:
    """Return when a final was held and how certain it is, or how far it is."""
    told = f"{plural(final.entries, 'submission')}, {plural(len(final.meetings), 'meeting')}"
    if final.ended_at is None:
        duel = f"; the duel in the queue is #{final.waiting}" if final.waiting is not None else ""
        return f"The final is being held: {told} so far{duel}."
    void = ", ".join(f"#{each}" for each in final.void)
    lost = f" It is void: the result of {void} was put aside since, so another final is due." if void else ""
    return (
        f"Held on {final.ended_at:%Y-%m-%d %H:%M} UTC: {told}. All intervals hold together in at least "
        f"{100 * (1 - final.error):g} % of finals; entries that cannot be told apart share a place.{lost}"
    )


def meeting_sentence(meeting: Meeting) -> str:
    """Return which of two is faster, and how that was found."""
    first, second = f"#{meeting.first}", f"#{meeting.second}"
    found = duel_sentence(_as_duel(meeting), first, second, interval=SIMULTANEOUS)
    if meeting.by is Compared.DUEL:
        return found
    found = f"nothing tells {first} and {second} apart." if meeting.ratio is None else found
    return f"Not decided by a duel, since {meeting.why}; by their ranked times, {found}"


def in_words(final: Final) -> Final:
    """Return a final with its sentences."""
    meetings = [dataclasses.replace(each, sentence=meeting_sentence(each)) for each in final.meetings]
    return dataclasses.replace(final, meetings=meetings, sentence=state_text(final))


def _as_duel(meeting: Meeting) -> DuelResult:
    if meeting.ratio is None or meeting.low is None or meeting.high is None:
        return DuelResult()
    verdict = DuelVerdict.TIED
    if meeting.faster is not None:
        verdict = DuelVerdict.FASTER if meeting.faster == meeting.first else DuelVerdict.SLOWER
    return DuelResult(ratio=meeting.ratio, low=meeting.low, high=meeting.high, verdict=verdict)
