"""The files of runs: into the store when a run is stored, out of it for those who may see the run's report."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import gzip
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from kernelcup.app.results.queries import runs
from kernelcup.engine import Database, file_store
from kernelcup.errors import NotFound
from kernelcup_harness.protocol import KeptFile, RunReport, to_json

KEPT_FOR = timedelta(days=90)
UPLOADS_KEPT_FOR = timedelta(days=1)
"""Until the report that names them was stored, also by a dispatcher that was down meanwhile."""


def keep(db: Database, report: RunReport, *, uploads: str = "") -> RunReport:
    """Store the files of a report, and the report itself if it is too large for a row.

    Return it without the content of its files. Damaged ones are left out.

    Args:
        uploads: The sender of files that were uploaded before.
    """
    found = report.counters
    if found is not None:
        found = dataclasses.replace(found, files=_all_kept(db, found.files, uploads))
    kept = dataclasses.replace(report, counters=found, files=_all_kept(db, report.files, uploads))
    whole = file_store.large_json(to_json(kept))
    if whole is not None:
        db.files.put(gzip.compress(whole))
    return kept


def files_of(report: RunReport) -> list[KeptFile]:
    """Return the files of a run: what is kept of a ranked one, or those of a profile."""
    return [*report.files, *(report.counters.files if report.counters is not None else [])]


def _all_kept(db: Database, files: Sequence[KeptFile], uploads: str) -> list[KeptFile]:
    return [kept for kept in (_kept(db, each, uploads) for each in files) if kept is not None]


def _kept(db: Database, file: KeptFile, uploads: str) -> KeptFile | None:
    if not file.gz64:
        return file if uploads and db.files.adopt(uploads, file.sha256) else None
    try:
        digest = db.files.put(base64.b64decode(file.gz64, validate=True))
    except (binascii.Error, ValueError):
        return None
    return dataclasses.replace(file, gz64="") if digest == file.sha256 else None


def content(db: Database, report: RunReport, name: str) -> bytes:
    """Return a file of a run. Raise ``NotFound`` if there is none, or no more."""
    try:
        return b"".join(parts(db, report, name))
    except zlib.error as error:
        raise NotFound(f"{name} is damaged.") from error


def parts(db: Database, report: RunReport, name: str) -> Iterator[bytes]:
    """Return a file of a run piece by piece. Raise ``NotFound`` if there is none, or no more."""
    file = next((each for each in files_of(report) if each.name == name), None)
    if file is None:
        raise NotFound(f"The run has no file {name!r}.")
    found = db.files.parts(file.sha256)
    if found is None:
        raise NotFound(f"{name} was deleted: files of runs are kept for {KEPT_FOR.days} days.")
    return found


def prune(db: Database, now: datetime) -> int:
    """Delete files that are too old, except those of runs that stand in a ranking; return how many."""
    with db.read() as session:
        keep = runs.files_of_bests(session)
    return db.files.prune(now - KEPT_FOR, uploaded_before=now - UPLOADS_KEPT_FOR, keep=keep)
