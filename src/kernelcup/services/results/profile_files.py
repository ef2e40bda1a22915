"""The files of runs: into the store when a run is stored, out of it for those who may see the run's report."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from collections.abc import Sequence
from datetime import datetime, timedelta

from kernelcup.errors import NotFound
from kernelcup.storage.engine.database import Database
from kernelcup_harness.protocol import KeptFile, RunReport

KEPT_FOR = timedelta(days=90)


def keep(db: Database, report: RunReport) -> RunReport:
    """Store the files of a report, and return it without their content. Damaged ones are left out."""
    found = report.counters
    if found is not None:
        found = dataclasses.replace(found, files=_all_kept(db, found.files))
    return dataclasses.replace(report, counters=found, files=_all_kept(db, report.files))


def files_of(report: RunReport) -> list[KeptFile]:
    """Return the files of a run: what is kept of a ranked one, or those of a profile."""
    return [*report.files, *(report.counters.files if report.counters is not None else [])]


def _all_kept(db: Database, files: Sequence[KeptFile]) -> list[KeptFile]:
    return [kept for kept in (_kept(db, each) for each in files) if kept is not None]


def _kept(db: Database, file: KeptFile) -> KeptFile | None:
    try:
        digest = db.files.put(base64.b64decode(file.gz64, validate=True))
    except (binascii.Error, ValueError):
        return None
    return dataclasses.replace(file, gz64="") if digest == file.sha256 else None


def content(db: Database, report: RunReport, name: str) -> bytes:
    """Return a file of a run. Raise ``NotFound`` if there is none, or no more."""
    file = next((each for each in files_of(report) if each.name == name), None)
    if file is None:
        raise NotFound(f"The run has no file {name!r}.")
    found = db.files.get(file.sha256)
    if found is None:
        raise NotFound(f"{name} was deleted: files of runs are kept for {KEPT_FOR.days} days.")
    return found


def prune(db: Database, now: datetime) -> int:
    """Delete files that are too old; return how many."""
    return db.files.prune(now - KEPT_FOR)
