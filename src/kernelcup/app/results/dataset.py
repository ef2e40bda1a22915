"""The open data of a leaderboard: its ranked results as Parquet and JSONL with a card, for people and for methods that
learn from them.

It has what everybody who sees the leaderboard may see: names as its standings show them, nothing from after a freeze,
and code only once the leaderboard publishes it.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib.util import find_spec
from typing import Any

from kernelcup.app.boards import visibility
from kernelcup.app.boards.boards import find_managed
from kernelcup.app.operation import Archive, Board, operation, parts_of
from kernelcup.app.results.queries import attempts as queries
from kernelcup.app.submissions.submissions import is_published
from kernelcup.domain import Actor, Leaderboard, Role, Scope
from kernelcup.engine import Database
from kernelcup.errors import InvalidValue
from kernelcup.reporting.phrases import code_rule, plural

READER = Actor(user_id=None, name="", role=Role.PARTICIPANT, scopes=frozenset({Scope.READ}))
"""Who sees a leaderboard and does not manage it."""

COLUMNS = {
    "leaderboard": "name of the leaderboard",
    "device": "where it was judged",
    "host_class": "class of the machine",
    "submission": "number of the submission",
    "user": "its author, as the standings show them",
    "submitted_at": "when it was submitted, UTC",
    "file_name": "name of its first file; empty under pseudonyms",
    "score_s": "the score in seconds; of a speedup its reciprocal",
    "low_s": "lower end of its 95 % interval",
    "high_s": "upper end of its 95 % interval",
    "rank_s": "the seconds that it ranks by: the upper end of a wide interval, or what a duel decided",
    "speedup": "the score as a speedup; null where scores are times",
    "trust": "how the time was taken",
    "task_hash": "version of the task",
    "harness_hash": "version of the harness",
    "code_hash": "SHA-256 of its code, which tells equal files; null as long as the code is not published",
    "code": "its files by name, as a JSON object; null as long as the code is not published",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Dataset:
    """The results of a leaderboard, ready to be written."""

    board: Leaderboard
    rows: list[dict[str, Any]]
    """With the keys of ``COLUMNS``."""


@operation(
    "GET",
    "/leaderboards/{name}/dataset.zip",
    "board export dataset",
    subject="leaderboards",
    is_slow=True,
    is_aside=True,
)
def export_dataset(db: Database, actor: Actor, board: Board, *, now: datetime) -> Archive:
    """Export the ranked results of a leaderboard as Parquet and JSONL, with a data card; code only as its rules allow.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor does not manage the leaderboard.
        InvalidValue: pyarrow is not installed where this runs.
    """
    found = dataset_of(db, actor, board, now=now)
    return archive(found.board.name, [found], now)


def archive(name: str, found: Sequence[Dataset], now: datetime) -> Archive:
    """Return datasets as one zip. Raise ``InvalidValue`` without pyarrow."""
    rows = [row for each in found for row in each.rows]
    table = parquet(rows)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when its parts were read
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("README.md", card(name, found, now))
        written.writestr("results.jsonl", jsonl(rows))
        written.writestr("results.parquet", table)
    return Archive(name=f"{name}-dataset.zip", parts=parts_of(file))


def dataset_of(db: Database, actor: Actor, board: str, *, now: datetime) -> Dataset:
    """Return the results of a leaderboard as everybody who sees it may see them. Raise as :func:`export_dataset`."""
    with db.read() as session:
        found = find_managed(session, board, actor)
        since = visibility.hidden_since(found, READER)
        published = is_published(session, found, now=now)
        rows = queries.results(session, found.id, since=since, with_code=published)
        people = {row["user_id"]: row["user"] for row in rows}
        names = visibility.shown_names(session, found, people, READER)
    for row in rows:
        shown = published and row["withdrawn_at"] is None
        row |= {
            "leaderboard": found.name,
            "user": names[row["user_id"]].user,
            "file_name": "" if found.pseudonymous else row["file_name"],
            "code_hash": row["code_hash"] if shown else None,
            "code": json.dumps(row["code"]) if shown else None,
        }
    return Dataset(board=found, rows=[{name: row[name] for name in COLUMNS} for row in rows])


def jsonl(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as JSON, a line each."""
    return "".join(f"{json.dumps(row, ensure_ascii=False, default=datetime.isoformat)}\n" for row in rows)


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as Parquet. Raise ``InvalidValue`` without pyarrow."""
    if find_spec("pyarrow") is None:
        raise InvalidValue(
            "A dataset needs pyarrow on the server: pip install '.[data]' in a copy of the project."
        )
    import pyarrow
    from pyarrow import parquet as files

    kinds = {"submission": pyarrow.int64(), "submitted_at": pyarrow.timestamp("us", tz="UTC")}
    kinds |= dict.fromkeys(("score_s", "low_s", "high_s", "rank_s", "speedup"), pyarrow.float64())
    schema = pyarrow.schema([(name, kinds.get(name, pyarrow.string())) for name in COLUMNS])
    sink = io.BytesIO()
    files.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows], schema=schema), sink)
    return sink.getvalue()


def card(name: str, found: Sequence[Dataset], now: datetime) -> str:
    """Return the data card: what the rows are, how they came about, and what may be done with them."""
    parts = [
        f"## {each.board.name}\n\n{plural(len(each.rows), 'result')} "
        f"of {plural(len({row['user'] for row in each.rows}), 'participant')} "
        f"on {', '.join(each.board.devices)}. {code_rule(each.board)} {licence_text(each.board.licence)}\n"
        for each in found
    ]
    columns = "\n".join(f"| `{column}` | {text} |" for column, text in COLUMNS.items())
    return CARD.format(
        name=name,
        quoted=json.dumps(name),
        made_at=f"{now:%Y-%m-%d %H:%M} UTC",
        boards="\n".join(parts),
        columns=columns,
    )


def licence_text(licence: str) -> str:
    """Return what may be done with the code, as far as that is known."""
    if licence:
        return f"Participants submitted their code under this licence: {licence}."
    return "No licence of the code is known. Ask its authors before you use it for more than reading."


CARD = """\
---
pretty_name: {quoted}
tags: [gpu, kernels, kernelcup]
configs:
- config_name: default
  data_files: results.parquet
---

# {name}

Exported from KernelCup on {made_at}. A row is one ranked result that counts: a submission was judged right on a
device, and timed. Results that were rejected, wait for a review, came after the deadline or after a freeze, or were
judged against an earlier version of the task are not in it. Where `code` is null, it was not public then.

The standings follow from the rows: for each leaderboard, device and class of machines take each user's row with the
least `rank_s`, and order them by it. Where two share a rank is said by the intervals `low_s` to `high_s`.

{boards}
## Columns

| column | meaning |
|---|---|
{columns}
"""
