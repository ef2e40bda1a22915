"""The winners of a leaderboard in one zip: table, code, reports, hashes, and a page that opens from the disk."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from typing import Annotated

from kernelcup.app.boards.boards import find_managed
from kernelcup.app.operation import Archive, Board, Given, operation, parts_of
from kernelcup.app.results import finals, standings
from kernelcup.app.results.dataset import licence_text
from kernelcup.app.results.handed_in import folder_name
from kernelcup.app.submissions import redaction
from kernelcup.app.submissions.submissions import get_code, show_submission
from kernelcup.clean_text import plain
from kernelcup.domain import Actor, Leaderboard, Standing
from kernelcup.engine import Database
from kernelcup.reporting.phrases import code_rule, place_time, rank_text, score_interval
from kernelcup_harness.protocol import to_json


@dataclass(frozen=True, kw_only=True, slots=True)
class Winner:
    """A place in a ranking, with the folder of its files."""

    device: str
    standing: Standing
    folder: str
    files: tuple[str, ...] = ()
    """Paths of its code in the zip."""

    @property
    def cells(self) -> tuple[str, ...]:
        """Device, class, rank, name, score and its interval, as people read them."""
        place = self.standing
        time = place_time(place.score_s, place.ranked_by, place.score.speedup)
        rank = rank_text(place.rank, tied=place.tied)
        return (self.device, place.host_class, rank, place.shown, time, score_interval(place.score))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Written:
    """A zip that is being written, with the hash of each file."""

    archive: zipfile.ZipFile
    hashes: dict[str, str] = field(default_factory=dict)

    def write(self, path: str, text: str) -> str:
        """Add a file and return its path."""
        content = text.encode()
        self.hashes[path] = hashlib.sha256(content).hexdigest()
        self.archive.writestr(path, content)
        return path


@operation(
    "GET",
    "/leaderboards/{name}/winners.zip",
    "board export winners",
    subject="leaderboards",
    is_slow=True,
    is_aside=True,
)
def export_winners(
    db: Database,
    actor: Actor,
    board: Board,
    *,
    places: Annotated[
        int, Given(options=("--places",), least=1, most=100, help="Places of each ranking.")
    ] = 3,
    now: datetime,
) -> Archive:
    """Export the first places of each ranking: table, code, reports, hashes, and a page that opens from the disk.

    A shared last place is exported with all who share it. For the organisers: the code is in it whether or not the
    leaderboard publishes it, which the page says.

    Raises:
        NotFound, SignInNeeded, Forbidden, ScopeMissing: The actor does not manage the leaderboard.
    """
    with db.read() as session:
        found = find_managed(session, board, actor)
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed when its parts were read
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        written = _Written(archive=archive)
        winners = [
            _winner(db, actor, written, device, place)
            for device in found.devices
            for ranking in standings.rankings(db, found.name, device, viewer=actor)
            for place in ranking
            if place.rank <= places
        ]
        orders = {
            device: final.sentence
            for device in found.devices
            if (final := finals.show(db, found.name, device, viewer=actor, now=now)) is not None
        }
        written.write("winners.csv", _table(winners))
        written.write("index.html", page(found, winners, orders, now))
        sums = "".join(f"{sum_}  {path}\n" for path, sum_ in written.hashes.items())
        archive.writestr("SHA256SUMS", sums)
    return Archive(name=f"{found.name}-winners.zip", parts=parts_of(file))


def _winner(db: Database, actor: Actor, written: _Written, device: str, place: Standing) -> Winner:
    folder = f"{folder_name(device)}/{place.rank}-{folder_name(place.user)}-{place.submission_id}"
    code = get_code(db, place.submission_id, viewer=actor)
    files = tuple(written.write(f"{folder}/code/{path}", text) for path, text in code.files.items())
    for job in show_submission(db, place.submission_id, viewer=actor).jobs:
        if job.device == device and job.report is not None:
            written.write(
                f"{folder}/report.json", json.dumps(to_json(redaction.evidence(job.report)), indent=1)
            )
    return Winner(device=device, standing=place, folder=folder, files=files)


HEADINGS = ("Device", "Class", "Rank", "Who", "Score", "95 % interval")


def _table(winners: Sequence[Winner]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        "device class rank user shown_name seconds low_s high_s speedup trust submission folder".split()
    )
    for each in winners:
        place = each.standing
        cells = [each.device, place.host_class, place.rank, place.user, place.shown_name, *place.times_s]
        cells += [place.score.speedup, place.trust, place.submission_id, each.folder]
        # A name that begins with a sign of a formula stays text in a spreadsheet.
        writer.writerow([f"'{cell}" if str(cell)[:1] in tuple("=+-@\t") else cell for cell in cells])
    return text.getvalue()


def page(board: Leaderboard, winners: Sequence[Winner], orders: dict[str, str], now: datetime) -> str:
    """Return the page: no script, no other host, links to the files beside it."""
    head = "".join(f"<th scope=col>{name}</th>" for name in (*HEADINGS, "Code", "Report"))
    rows = "".join(f"<tr>{_row(each)}</tr>" for each in winners)
    finals_ = "".join(f"<p>{escape(device)}: {escape(told)}</p>" for device, told in orders.items())
    closed = (
        f", {'closed' if board.deadline <= now else 'closes'} {board.deadline:%Y-%m-%d %H:%M} UTC"
        if board.deadline
        else ""
    )
    name = escape(board.name)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Winners of {name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><style>'
        "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
        "div{overflow-x:auto}table{border-collapse:collapse}th,td{padding:.3rem .7rem;text-align:left;"
        "border-bottom:1px solid #ccc;white-space:nowrap}"
        "@media(max-width:35rem){th,td{white-space:normal;padding:.2rem;font-size:.8rem}}</style>"
        f"<h1>Winners of {name}</h1><p>By {escape(board.creator)}{closed}. Written {now:%Y-%m-%d %H:%M} UTC.</p>"
        f"{finals_}<div tabindex=0 role=region aria-label=Winners><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div>"
        "<p>Who shares a rank cannot be told apart by the intervals. <a href=winners.csv>The table as CSV</a>, "
        "<a href=SHA256SUMS>the hashes of all files</a>: <code>sha256sum -c SHA256SUMS</code>.</p>"
        f"<h2>Before you publish this</h2><p>{escape(code_rule(board))} Reports have what everybody may see. "
        f"{escape(licence_text(board.licence))}</p></html>\n"
    )


def _row(each: Winner) -> str:
    cells = "".join(f"<td>{escape(plain(cell))}</td>" for cell in each.cells)
    links = " ".join(
        f'<a href="{escape(path)}">{escape(plain(path.removeprefix(each.folder + "/code/")))}</a>'
        for path in each.files
    )
    return f'{cells}<td>{links}</td><td><a href="{escape(each.folder)}/report.json">report.json</a></td>'
