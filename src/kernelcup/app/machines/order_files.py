"""Kept binaries in the orders of agents: the database has their hashes, and an agent gets their content."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernelcup.engine import Database


def without_content(spec: dict[str, Any]) -> dict[str, Any]:
    """Return a job as JSON without the content of its kept binaries, for the database."""
    return _with_files(spec, lambda _digest: "")


def filled(db: Database, spec: dict[str, Any]) -> dict[str, Any]:
    """Return such a job with the content again; a file that is gone meanwhile, or cannot be reached, stays empty."""
    return _with_files(spec, db.files.gz64)


def _with_files(spec: dict[str, Any], content: Callable[[str], str]) -> dict[str, Any]:
    changed = {
        side: {**kept, "files": [{**each, "gz64": content(each["sha256"])} for each in kept["files"]]}
        for side in ("binary", "rival_binary")
        if (kept := spec.get(side)) is not None
    }
    return {**spec, **changed}
