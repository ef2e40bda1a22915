"""A leaderboard's open data, and its winners in a folder."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from datetime import timedelta

import pytest
from pyarrow import parquet

from builders import NOW, make_actor, make_board
from hand_judging import Judging
from kernelcup.app.events import events
from kernelcup.app.results import dataset, winners
from kernelcup.app.results.standings import standings
from kernelcup.domain import OPERATOR, CodePolicy, Role
from kernelcup.errors import Forbidden

DEADLINE = NOW + timedelta(days=1)
AFTER = NOW + timedelta(days=2)


def board_of_three(db, clock, **settings) -> Judging:
    make_board(db, deadline=DEADLINE, **settings)
    judging = Judging(db, clock)
    for time_ns, user in ((3000, "ada"), (2000, "bob"), (2500, "ada"), (1000, "eve")):
        judging.judge(time_ns, user)
    return judging


def files_of(archive) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(b"".join(archive.parts))) as found:
        return {name: found.read(name) for name in found.namelist()}


def test_standings_follow_from_the_dataset_in_both_formats(db, clock) -> None:
    board_of_three(db, clock)
    files = files_of(dataset.export_dataset(db, OPERATOR, "double", now=NOW))
    table = parquet.read_table(io.BytesIO(files["results.parquet"])).to_pylist()
    lines = [json.loads(line) for line in files["results.jsonl"].splitlines()]
    assert [row | {"submitted_at": row["submitted_at"].isoformat()} for row in table] == lines
    best: dict[str, float] = {}
    for row in table:
        best[row["user"]] = min(row["rank_s"], best.get(row["user"], row["rank_s"]))
    places = standings(db, "double", "H100")
    assert sorted(best, key=best.__getitem__) == [each.user for each in places] == ["eve", "bob", "ada"]
    assert [best[each.user] for each in places] == [pytest.approx(each.score_s) for each in places]
    assert "4 results of 3 participants on H100" in files["README.md"].decode()


def test_code_is_in_the_dataset_once_the_leaderboard_publishes_it(db, clock) -> None:
    board_of_three(db, clock, code_policy=CodePolicy.AFTER_DEADLINE)
    before, after = (dataset.dataset_of(db, OPERATOR, "double", now=at) for at in (NOW, AFTER))
    assert {row["code"] for row in before.rows} == {row["code_hash"] for row in before.rows} == {None}
    assert all("custom_kernel" in row["code"] for row in after.rows)


def test_pseudonyms_stay_and_what_a_freeze_hides_is_left_out(db, clock) -> None:
    judging = board_of_three(
        db,
        clock,
        pseudonymous=True,
        code_policy=CodePolicy.AFTER_DEADLINE,
        freeze_at=NOW + timedelta(hours=1),
    )
    clock.now = NOW + timedelta(hours=2)
    judging.judge(500, "flo")
    found = dataset.dataset_of(db, OPERATOR, "double", now=AFTER)
    assert {row["user"] for row in found.rows} == {"participant 1", "participant 2", "participant 4"}
    assert {row["code"] for row in found.rows} == {None}
    assert {row["file_name"] for row in found.rows} == {""}


def test_the_dataset_of_an_event_has_the_results_of_its_leaderboards(db, clock) -> None:
    judging = board_of_three(db, clock, event="spring")
    make_board(db, name="other", event="spring")
    judging.judge(700, "ada", board="other")
    files = files_of(events.export_event(db, OPERATOR, "spring", now=NOW))
    rows = [json.loads(line) for line in files["results.jsonl"].splitlines()]
    assert [row["leaderboard"] for row in rows] == ["double"] * 4 + ["other"]
    card = files["README.md"].decode()
    assert "## double\n\n4 results of 3 participants on H100." in card
    assert "## other\n\n1 result of 1 participant on H100." in card


def test_winners_have_table_code_reports_hashes_and_a_page_for_the_disk(db, clock) -> None:
    board_of_three(db, clock)
    files = files_of(winners.export_winners(db, OPERATOR, "double", places=2, now=AFTER))
    sums = dict(line.split("  ")[::-1] for line in files.pop("SHA256SUMS").decode().splitlines())
    assert sums == {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}
    assert sorted(files) == [
        "H100/1-eve-4/code/kernel.py",
        "H100/1-eve-4/report.json",
        "H100/2-bob-2/code/kernel.py",
        "H100/2-bob-2/report.json",
        "index.html",
        "winners.csv",
    ]
    assert [line.split(",")[2:4] for line in files["winners.csv"].decode().splitlines()[1:]] == [
        ["1", "eve"],
        ["2", "bob"],
    ]
    page = files["index.html"].decode()
    assert 'href="H100/1-eve-4/code/kernel.py"' in page
    assert ", closed 20" in page
    assert "<script" not in page
    assert json.loads(files["H100/1-eve-4/report.json"])["verdict"] == "accepted"


def test_only_managers_export(db, clock) -> None:
    board_of_three(db, clock)
    ada = make_actor(db, "ada", role=Role.PARTICIPANT)
    for call in (dataset.export_dataset, winners.export_winners):
        with pytest.raises(Forbidden):
            call(db, ada, "double", now=NOW)
