"""The upkeep of the service: backups, what is out of order, and the end of old data."""

from __future__ import annotations

import logging
import os
import re
import shutil
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from operator import itemgetter
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from kernelcup.app import access
from kernelcup.app.boards.queries import boards
from kernelcup.app.machines.machines import MachineState, state_of
from kernelcup.app.machines.outages import outage_text, outages
from kernelcup.app.machines.queries import machines
from kernelcup.app.operation import Given, operation
from kernelcup.app.people.queries import audit_log
from kernelcup.app.results.queries import old_data
from kernelcup.app.rules.queries import gpu_uses
from kernelcup.clean_text import plain
from kernelcup.domain import OPERATOR, Actor, Role, Scope
from kernelcup.domain.answers import AuditEntry, CheckResult, check
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue, StorageUnavailable
from kernelcup.reporting.phrases import plural

BACKED_UP, ALERT = "db.backup", "service.alert"
"""Actions in the log by which all servers know when the last backup was made, and of what admins were told."""
BACKUP_AGE = timedelta(days=2)
TOLD_EVERY = timedelta(days=1)
"""How often admins are told of a problem that lasts."""
LONGEST_LINE = 300
TLS_S = 5.0
YOUNGEST = timedelta(days=30)
"""Status and alerts read events and the log that far back."""
AT_ONCE = 500
"""How many are deleted in one transaction, since other writers wait for it."""
ITSELF = Actor(user_id=None, name="kernelcup", role=Role.NOBODY, scopes=frozenset())

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class CleanedUp:
    """What was deleted, or would be."""

    before: datetime
    reports: int
    events: int
    log: int


def back_up(db: Database, file: Path, *, now: datetime) -> int:
    """Write a copy of the database to a new file, and return its size in bytes. Raise as ``backups.back_up``."""
    from kernelcup.engine import backups  # here: it needs the storage's library

    size = backups.back_up(db, file)
    # The copy of a database that takes no writes is worth the most.
    with suppress(StorageUnavailable), db.write() as session:
        audit_log.record(session, OPERATOR, BACKED_UP, "service", {"file": str(file), "bytes": size}, now)
    return size


@operation("GET", "/checks", subject="administration")
def checks(db: Database, actor: Actor, *, now: datetime, server: str, home: Path) -> list[CheckResult]:
    """Check machines, backups, the certificate as it was last read, and the server's disk. For admins."""
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    with db.read() as session:
        read = audit_log.last(session, f"certificate:{urlsplit(server).hostname}", ALERT)
    known = [CheckResult(**read.detail)] if read is not None and now - read.at <= 2 * TOLD_EVERY else []
    return look(db, now, home) + known


def parse_age(text: str, now: datetime) -> datetime:
    """Return the moment that is so many days ago. Raise ``InvalidValue``."""
    if re.fullmatch(r"[0-9]{1,5}d", text) is None:
        raise InvalidValue(f"{text!r} is no age in days; expected for example 180d.")
    return now - timedelta(days=int(text[:-1]))


@operation("POST", "/cleanup", "admin cleanup", subject="administration", is_slow=True, is_aside=True)
def clean_up(
    db: Database,
    actor: Actor,
    *,
    before: Annotated[
        datetime,
        Given(options=("--older-than",), parse=parse_age, help="Age, for example 180d; at least 30d."),
    ],
    dry_run: Annotated[bool, Given(options=("--dry-run",), help="Only count.")] = False,
    now: datetime,
) -> CleanedUp:
    """Delete old events of submissions, old entries of the log, and what old reports have beside the verdict.

    For ever stay: people, leaderboards, tasks, submissions with their code, verdict and times of each run,
    standings, finals and reviews; and the whole report of a run that ranks, was its author's best once, was
    reviewed or decided a final.

    Raises:
        InvalidValue: It is too young.
    """
    access.require(actor, Scope.ADMIN, role=Role.ADMIN)
    if now - before < YOUNGEST:
        raise InvalidValue(f"Data of the last {YOUNGEST.days} days is never deleted.")
    counts = dict.fromkeys(old_data.TABLES, 0)
    for kind in counts:
        found = [0]
        while found:
            with db.read() if dry_run else db.write() as session:
                found = old_data.ids(session, kind, before=before, after_id=found[-1], limit=AT_ONCE)
                if not dry_run:
                    old_data.remove(session, kind, found)
            counts[kind] += len(found)
    if not dry_run:
        with db.write() as session:
            detail = {"before": before.isoformat(), **counts}
            audit_log.record(session, actor, "data.cleanup", "service", detail, now)
    return CleanedUp(before=before, **counts)


def look(db: Database, now: datetime, home: Path) -> list[CheckResult]:
    """Check all that needs no network."""
    out = _line(outage_text(outages(db, now=now)))
    how = "they return once they are clean; kernelcup admin device-up NAME brings them back now"
    with db.read() as session:
        known = [each for each in machines.every(session) if each.seen_at and not each.is_draining]
        busy = gpu_uses.count_not_measured(session, now - timedelta(days=1))
    found = [_backup(db, now), disk(home), check("gpus", not out, out or "each is in service", how)]
    text = f"{plural(busy, 'run')} of the last day not measured: three times the machine was busy"
    found.append(check("busy", not busy, text if busy else "no run", "judge fewer jobs at once there"))
    for each in known:
        state, trouble = state_of(each, now), _line(each.trouble)
        text = f"{state}{trouble and ': '}{trouble}, last seen {each.seen_at:%Y-%m-%d %H:%M} UTC"
        how = f"start what judges there, or: kernelcup admin machines drain {each.name}"
        found.append(check(f"machine:{each.name}", state is MachineState.UP, text, how))
    return found


def _line(text: str) -> str:
    # A lent machine may say anything.
    return plain(" ".join(text.split()))[:LONGEST_LINE]


def _backup(db: Database, now: datetime) -> CheckResult:
    # PostgreSQL has backups of its own, which we do not see; a new service has little to lose.
    is_ours = db.engine.dialect.name == "sqlite"
    with db.read() as session:
        last = audit_log.last(session, "service", BACKED_UP)
        began = [board.created_at for board in boards.every(session, limit=1) if is_ours]
    text = f"the last is of {last.at:%Y-%m-%d %H:%M} UTC" if last else "none by `kernelcup db backup`"
    good = now - (last.at if last else next(iter(began), now)) <= BACKUP_AGE
    return check("backup", good, text, "let a timer call: kernelcup db backup --keep 14")


def disk(folder: Path) -> CheckResult:
    """Check that a folder, which need not exist yet, can be written and has a twentieth free: from 1 to 20 GB."""
    folder = next(each for each in (folder, *folder.parents) if each.exists())
    usage, closed = shutil.disk_usage(folder), "" if os.access(folder, os.W_OK) else ", not writable"
    good = not closed and usage.free >= max(1e9, min(usage.total / 20, 20e9))
    text = f"{usage.free / 1e9:.1f} GB free at {folder}{closed}"
    how = "make room; kernelcup admin cleanup deletes old data"
    return check(f"disk:{socket.gethostname()}", good, text, how)


def certificate(url: str, now: datetime) -> list[CheckResult]:
    """Check the certificate of an address; nothing for one without TLS, or that cannot be reached.

    It has to be renewed once two weeks are left, or a quarter of its time if that is shorter.
    """
    parts = urlsplit(url)
    host, port, name = parts.hostname or "", parts.port or 443, f"certificate:{parts.hostname}"
    if parts.scheme != "https":
        return []
    context = ssl.create_default_context()
    try:
        with (
            socket.create_connection((host, port), TLS_S) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            dates = itemgetter("notBefore", "notAfter")(secure.getpeercert() or {})
    except ssl.SSLCertVerificationError as error:
        return [check(name, False, error.verify_message, f"the proxy needs one for {host}, with its chain")]
    except OSError:
        return []
    begins, ends = (datetime.fromtimestamp(ssl.cert_time_to_seconds(date), UTC) for date in dates)
    good = ends - now >= min(timedelta(days=14), (ends - begins) / 4)
    return [check(name, good, f"valid for {plural((ends - now).days, 'day')}", "renew it")]


def tell(db: Database, *, now: datetime, server: str, home: Path, send: Callable[[str], None] | None) -> None:
    """Tell admins of problems, once a day while they last, and of their end: in both logs, and by ``send``.

    What ``send`` raises is raised, and the next call tells it again.
    """
    found = [*look(db, now, home), *certificate(server, now)]
    with db.read() as session:
        news = [each for each in found if _is_news(each, audit_log.last(session, each.name, ALERT), now)]
    lines = [f"{each.name}: {each.text}" for each in news]
    for line in lines:
        logger.warning(line)
    if news and send is not None:
        send("\n".join(lines))
    for each in news:
        with db.write() as session:
            audit_log.record(session, ITSELF, ALERT, each.name, asdict(each), now)


def _is_news(found: CheckResult, last: AuditEntry | None, now: datetime) -> bool:
    if last is None or last.detail["state"] == "ok":
        return found.state != "ok"
    return found.state == "ok" or now - last.at >= TOLD_EVERY
