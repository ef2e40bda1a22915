"""Budgets of launchers: once their machines have cost so much in a time, they begin no more jobs until it is over."""

from __future__ import annotations

from datetime import datetime, timedelta

from kernelcup.app.results.queries import run_costs
from kernelcup.app.rules.queries import limits
from kernelcup.engine import Session


def used_up(session: Session, now: datetime) -> dict[str, datetime]:
    """Return the launchers whose budget is used up, and until when."""
    found: dict[str, datetime] = {}
    for each in limits.of_launchers(session):
        assert each.launcher is not None
        window = timedelta(seconds=each.window_s)
        if run_costs.of_launcher(session, each.launcher, since=now - window) < each.amount:
            continue
        left, until = 0.0, now
        for at, cost in run_costs.newest_of_launcher(session, each.launcher, since=now - window):
            left += cost
            if left >= each.amount:
                until = at + window
                break
        found[each.launcher] = max(until, found.get(each.launcher, until))
    return found
