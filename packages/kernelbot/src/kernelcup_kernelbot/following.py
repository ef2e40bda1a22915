"""Send what is submitted to KernelBot to silent leaderboards here, for a week side by side.

KernelBot tells the GPU of a submission only by its runs, so a submission is sent once it is done there. What was
sent is written to a journal afterwards. If the follower dies between the two, it sends that submission again with
the same key, which the server answers with the first submission.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa

from kernelcup.client.transport import Client
from kernelcup.errors import (
    Banned,
    Forbidden,
    InvalidValue,
    NotFound,
    Paused,
    RateLimited,
    ServerUnavailable,
    SignInNeeded,
    UserError,
)
from kernelcup_kernelbot.importing.people import provider_of
from kernelcup_kernelbot.importing.source import SCHEMA, Source, opened

KEY = "kernelbot-{}"
AT_ONCE = 200
LEADERBOARD = re.compile(r"^((?:#|//)!POPCORN\s+leaderboard\s+)\S+", re.MULTILINE)
RANKED = ("leaderboard", "private")
FIELDS = ("kernelbot", "here", "note")
READ = """
SELECT s.*, b.name AS board, u.user_name, u.cli_auth_provider, c.code, r.runners, r.modes
FROM {submission} s JOIN {leaderboard} b ON b.id = s.leaderboard_id
JOIN {user_info} u ON u.id = s.user_id JOIN {code_files} c ON c.id = s.code_id
LEFT JOIN (
    SELECT submission_id, array_agg(runner ORDER BY id) AS runners, array_agg(mode) AS modes FROM {runs}
    WHERE submission_id = ANY(:numbers) GROUP BY submission_id) r ON r.submission_id = s.id
WHERE s.id = ANY(:numbers) ORDER BY s.id
"""


@dataclass(kw_only=True)
class Journal:
    """Which submissions were sent: a CSV file that only grows. Its first row says after which number it begins."""

    path: Path
    after: int = 0
    done: dict[int, int | None] = field(default_factory=dict)
    """The number here by the number there; None for what was refused here or cannot be sent."""

    @classmethod
    def open(cls, path: Path, newest: Callable[[], int]) -> Journal:
        """Read a journal, or begin one after the newest submission. Raise ``InvalidValue`` for another file."""
        journal = cls(path=path)
        if not path.exists():
            journal.after = newest()
            journal._write(",".join(FIELDS) + f"\n{journal.after},,begins after this\n")
            return journal
        text = path.read_text(encoding="utf-8")
        if not text.endswith("\n"):  # the follower died while it wrote this line
            text = text[: text.rfind("\n") + 1]
            os.truncate(path, len(text.encode()))
        rows = list(csv.DictReader(io.StringIO(text)))
        if not rows or tuple(rows[0]) != FIELDS:
            raise InvalidValue(
                f"{path}: not a journal of `kernelcup kernelbot follow`; name another with --journal."
            )
        journal.after = int(rows[0]["kernelbot"])
        journal.done = {int(row["kernelbot"]): int(row["here"]) if row["here"] else None for row in rows[1:]}
        return journal

    def add(self, there: int, here: int | None, note: str) -> None:
        """Write that a submission was sent, or why not."""
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(
            [there, "" if here is None else here, " ".join(note.split())]
        )
        self._write(line.getvalue())
        self.done[there] = here

    def _write(self, text: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())


@dataclass(kw_only=True)
class Round:
    """What one look at KernelBot's tables brought."""

    sent: int = 0
    refused: int = 0
    left: int = 0
    """What could not be sent now: the next round tries again."""
    wait_s: float = 0.0
    """How long the server asks to wait."""
    trouble: str = ""


@dataclass(kw_only=True)
class Follower:
    """Sends submissions of some leaderboards."""

    url: str
    client: Client
    boards: Mapping[str, str]
    """Leaderboard here by the leaderboard there."""
    devices: Mapping[str, str]
    """Device here by the GPU there, where they differ, in small letters."""
    journal: Path
    schema: str = SCHEMA

    def step(self) -> Round:
        """Send what is new; a server that is away or busy ends the round.

        Raises:
            SignInNeeded, Forbidden: The token cannot act for others; it needs the scopes `act` and `admin`.
            NotFound: A leaderboard is not here.
        """
        with opened(self.url, self.schema) as source:
            journal = Journal.open(self.journal, lambda: _newest(source))
            waiting = [each for each in self._done(source, journal.after) if each not in journal.done]
            rows = list(_read(source, waiting[:AT_ONCE]))
        found = Round(left=len(waiting))
        accepted: dict[str, list[str]] = {}
        for row in rows:
            try:
                here, note = self._send(row, accepted)
            except (ServerUnavailable, Paused) as error:
                found.trouble = str(error)
                return found
            except RateLimited as error:
                found.trouble, found.wait_s = str(error), error.retry_after_s
                return found
            journal.add(row["id"], here, note)
            found.left -= 1
            found.sent += here is not None
            found.refused += here is None
        return found

    def _done(self, source: Source, after: int) -> list[int]:
        sent, boards = source.tables["submission"], source.tables["leaderboard"]
        query = (
            sa.select(sent.c.id)
            .join(boards, boards.c.id == sent.c.leaderboard_id)
            .where(boards.c.name.in_(self.boards), sent.c.id > after, sent.c.done)
            .order_by(sent.c.id)
        )
        return list(source.execute(query).scalars())

    def _send(self, row: Mapping[str, Any], accepted: dict[str, list[str]]) -> tuple[int | None, str]:
        """Return the number here, or why there is none."""
        board = self.boards[row["board"]]
        if board not in accepted:
            accepted[board] = self.client.request("GET", f"/leaderboards/{quote(board, safe='')}")["devices"]
        known = {name.lower(): name for name in accepted[board]}
        named = [self.devices.get(name.lower(), name) for name in row["runners"]]
        if missing := [name for name in named if name.lower() not in known]:
            return None, f"{board} has no device {', '.join(missing)} here"
        if not named:
            return None, "it has no runs there, so its GPU is not known"
        if row["text"] is None:
            return None, "it is no text"
        body = {
            "leaderboard": board,
            "devices": [known[name.lower()] for name in named],
            "mode": row["mode"],
            "file_name": os.path.basename(row["file_name"] or "") or "submission.py",
            "code": LEADERBOARD.sub(lambda line: line[1] + board, row["text"]),
        }
        name = quote(row["user"], safe="")
        acting = {"X-KernelCup-Act-For": f"{row['provider']}:{row['user_id']}:{name}:{name}"}
        headers = {**acting, "Idempotency-Key": KEY.format(row["id"]), "X-KernelCup-Client": "kernelbot"}
        try:
            return self._post(board, body, headers, acting), ""
        except (SignInNeeded, ServerUnavailable, Paused, RateLimited):
            raise
        except (NotFound, Forbidden) as error:
            if isinstance(error, Banned):
                return None, f"{error.code}: {error}"
            raise
        except UserError as error:
            return None, f"{error.code}: {error}"

    def _post(self, board: str, body: object, headers: dict[str, str], acting: dict[str, str]) -> int:
        try:
            return int(self.client.request("POST", "/submissions", json=body, headers=headers)["id"])
        except NotFound:  # a members-only leaderboard, of which its author is no member yet
            name = quote(self.client.request("GET", "/me", headers=acting)["name"], safe="")
            self.client.request("PUT", f"/leaderboards/{quote(board, safe='')}/members/{name}", json={})
            return int(self.client.request("POST", "/submissions", json=body, headers=headers)["id"])


def _newest(source: Source) -> int:
    return source.execute(sa.select(sa.func.max(source.tables["submission"].c.id))).scalar() or 0


def _read(source: Source, numbers: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Yield submissions as they are sent; the text of a code that is none is None."""
    for row in source.execute(source.text(READ), {"numbers": numbers}).mappings():
        modes, runners = set(row["modes"] or ()), dict.fromkeys(filter(None, row["runners"] or ()))
        is_ranked = row["mode_category"] == "leaderboard" or bool(modes & set(RANKED))
        try:
            code = bytes(row["code"]).decode()
        except UnicodeDecodeError:
            code = None
        yield {
            **row,
            "mode": "leaderboard" if is_ranked else "benchmark" if "benchmark" in modes else "test",
            "runners": list(runners),
            "provider": provider_of(row["user_id"], row["cli_auth_provider"]),
            "user": (row["user_name"] or "").strip() or row["user_id"],
            "text": code,
        }
