"""The outcome of a call as JSON, for launchers whose machines answer over a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from kernelcup import errors
from kernelcup.errors import BadReport, UnfitDevice
from kernelcup.launchers.base import Event, LaunchResult
from kernelcup_harness.protocol import (
    LONGEST_MESSAGE,
    MOST_EVENTS,
    Failed,
    Failure,
    JobEvent,
    Judged,
    ProtocolError,
    Unfit,
    from_json,
    to_json,
)

LARGEST_REPORT_BYTES = 64 << 20
"""The largest outcome that a machine may send."""


def encode(outcome: LaunchResult | Exception) -> dict[str, Any]:
    """Return an outcome as an object of JSON."""
    if isinstance(outcome, LaunchResult):
        return {
            "report": to_json(outcome.report),
            "harness": outcome.harness_hash,
            "unfit": None if outcome.unfit is None else encode(outcome.unfit),
            "facts": None if outcome.facts is None else to_json(outcome.facts),
        }
    text = str(outcome)[:LONGEST_MESSAGE]
    if isinstance(outcome, UnfitDevice):
        return {"unfit": text, "gpus": list(outcome.gpus), "spoils": outcome.spoils}
    kind = type(outcome).__name__
    return {"error": kind if kind in list(Failure) else "LaunchError", "text": text}


def files_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files in an encoded outcome, for changes in place."""
    report = body.get("report") or {}
    return [*report.get("files", ()), *(report.get("counters") or {}).get("files", ())]


def check_events(events: Sequence[Any]) -> list[Event]:
    """Return the events that a machine sent, each with all its fields. Raise ``ProtocolError`` for anything else."""
    return [to_json(from_json(cast("type[JobEvent]", JobEvent), each)) for each in events]


def decode(body: Any, *, machine: str) -> LaunchResult | Exception:
    """Return the outcome that a machine sent; one that cannot be read is a ``BadReport``."""
    return decode_all(body, machine=machine)[0]


def decode_all(body: Any, *, machine: str) -> tuple[LaunchResult | Exception, list[Event]]:
    """Return the outcome of a machine that can say nothing before, and its events."""
    try:
        found = read(body)
    except ProtocolError as error:
        return BadReport(f"the report of {machine} cannot be read: {error}"), []
    events = found.events[-MOST_EVENTS:] if isinstance(found, Judged) else []
    return _outcome(found, machine), [to_json(each) for each in events]


def read(body: Any) -> Judged | Unfit | Failed:
    """Return the outcome that a machine sent. Raise ``ProtocolError`` for anything else."""
    if not isinstance(body, dict):
        raise ProtocolError("outcome: expected an object")
    try:
        if "report" in body:
            return from_json(Judged, body)
        return from_json(Unfit, body) if "unfit" in body else from_json(Failed, body)
    except RecursionError as error:
        raise ProtocolError("outcome: nested too deeply") from error


def _outcome(found: Judged | Unfit | Failed, machine: str) -> LaunchResult | Exception:
    match found:
        case Failed():
            error: Exception = getattr(errors, found.error.value)(found.text)
            return error
        case Unfit():
            return _unfit(found)
    unfit = None if found.unfit is None else _unfit(found.unfit)
    harness, facts = found.harness, found.facts
    return LaunchResult(report=found.report, machine=machine, harness_hash=harness, unfit=unfit, facts=facts)


def _unfit(found: Unfit) -> UnfitDevice:
    return UnfitDevice(found.unfit, gpus=found.gpus, spoils=found.spoils)
