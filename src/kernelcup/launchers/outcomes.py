"""The outcome of a call as JSON, for launchers whose machines answer over a network."""

from __future__ import annotations

from typing import Any

from kernelcup import errors
from kernelcup.errors import BadReport, LaunchError, UnfitDevice
from kernelcup.launchers.base import LaunchResult
from kernelcup_harness.protocol import DeviceFacts, ProtocolError, RunReport, from_json, to_json

LARGEST_REPORT_BYTES = 64 << 20
"""The largest outcome that a machine may send."""

_ERRORS = ("LaunchLost", "LaunchTimeout", "LaunchCancelled", "BadReport", "LaunchError")


def encode(outcome: LaunchResult | Exception) -> dict[str, Any]:
    """Return an outcome as an object of JSON."""
    if isinstance(outcome, LaunchResult):
        return {
            "report": to_json(outcome.report),
            "harness": outcome.harness_hash,
            "unfit": None if outcome.unfit is None else encode(outcome.unfit),
            "facts": None if outcome.facts is None else to_json(outcome.facts),
        }
    if isinstance(outcome, UnfitDevice):
        return {"unfit": str(outcome), "gpus": list(outcome.gpus), "spoils": outcome.spoils}
    kind = type(outcome).__name__ if isinstance(outcome, LaunchError) else "LaunchError"
    return {"error": kind if kind in _ERRORS else "LaunchError", "text": str(outcome)}


def files_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the files in an encoded outcome, for changes in place."""
    report = body.get("report") or {}
    return [*report.get("files", ()), *(report.get("counters") or {}).get("files", ())]


def decode(body: Any, *, machine: str) -> LaunchResult | Exception:
    """Return the outcome that a machine sent; one that cannot be read is a ``BadReport``."""
    try:
        return _decode(body, machine)
    except (ProtocolError, RecursionError, KeyError, TypeError, ValueError) as error:
        return BadReport(f"the report of {machine} cannot be read: {error}")


def _decode(body: Any, machine: str) -> LaunchResult | Exception:
    if "report" in body:
        unfit = None if body.get("unfit") is None else _unfit(body["unfit"])
        facts = None if body.get("facts") is None else from_json(DeviceFacts, body["facts"])
        report = from_json(RunReport, body["report"])
        harness = str(body["harness"])
        return LaunchResult(report=report, machine=machine, harness_hash=harness, unfit=unfit, facts=facts)
    if "unfit" in body:
        return _unfit(body)
    kind = body["error"]
    if kind not in _ERRORS:
        raise ValueError(f"unknown kind of error {kind!r}")
    error: Exception = getattr(errors, kind)(str(body.get("text", "")))
    return error


def _unfit(body: dict[str, Any]) -> UnfitDevice:
    return UnfitDevice(
        str(body["unfit"]), gpus=[str(gpu) for gpu in body["gpus"]], spoils=body["spoils"] is True
    )
