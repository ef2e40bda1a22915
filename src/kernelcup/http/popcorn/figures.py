"""Statistics under the names of the existing service."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from kernelcup.app.stats import Stats

_DURATION = TypeAdapter(timedelta)


def figures(found: Stats) -> dict[str, Any]:
    """Return statistics, durations in the form of ISO 8601."""
    named: dict[str, Any] = {
        "num_submissions": found.submissions,
        "sub_waiting": found.waiting,
        "sub_running": found.running,
        "num_users": found.users,
    }
    for each in found.devices:
        named |= {
            f"num_run.{each.device}": each.runs,
            f"runs_passed.{each.device}": each.passed,
            f"runs_scored.{each.device}": each.scored,
            # A ranked run is both secret and scored; there are no others.
            f"runs_secret.{each.device}": each.scored,
            f"max_delay.{each.device}": _duration(each.longest_delay_s),
            f"avg_delay.{each.device}": _duration(each.mean_delay_s),
            f"total_runtime.{each.device}": _duration(each.run_s),
        }
    if found.since is None:
        return named | {"num_unique_codes": found.unique_codes}
    return named | {f"total.{each.user}": _duration(each.run_s) for each in found.top_users}


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return str(_DURATION.dump_python(timedelta(seconds=round(seconds, 3)), mode="json"))
