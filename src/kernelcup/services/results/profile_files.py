"""The files of profiles: into the store when a run is stored, out of it for those who may see the run's report."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from datetime import datetime, timedelta

from kernelcup.errors import NotFound
from kernelcup.storage.engine.database import Database
from kernelcup_harness.protocol import ProfileFile, RunReport

KEPT_FOR = timedelta(days=90)


def keep(db: Database, report: RunReport) -> RunReport:
    """Store the files of a report, and return it without their content. Damaged ones are left out."""
    if report.counters is None:
        return report
    files = [kept for kept in (_kept(db, each) for each in report.counters.files) if kept is not None]
    return dataclasses.replace(report, counters=dataclasses.replace(report.counters, files=files))


def _kept(db: Database, file: ProfileFile) -> ProfileFile | None:
    try:
        digest = db.files.put(base64.b64decode(file.gz64, validate=True))
    except (binascii.Error, ValueError):
        return None
    return dataclasses.replace(file, gz64="") if digest == file.sha256 else None


def content(db: Database, report: RunReport, name: str) -> bytes:
    """Return a file of a profile. Raise ``NotFound`` if there is none, or no more."""
    files = report.counters.files if report.counters is not None else []
    file = next((each for each in files if each.name == name), None)
    if file is None:
        raise NotFound(f"The profile has no file {name!r}.")
    found = db.files.get(file.sha256)
    if found is None:
        raise NotFound(f"{name} was deleted: files of profiles are kept for {KEPT_FOR.days} days.")
    return found


def prune(db: Database, now: datetime) -> int:
    """Delete files that are too old; return how many."""
    return db.files.prune(now - KEPT_FOR)
