"""What first users of the command line stumbled over: waits, exit codes, live lines, narrow terminals."""

from __future__ import annotations

import dataclasses
import io
import os
import signal
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
import typer
from rich.console import Console
from test_cli_commands import Command, command, home
from test_cli_compare import FASTER, GIVEN, NAMES
from test_cli_remote import ada, db_url, server

from builders import (
    NOW,
    SUBMISSION,
    jobs_of,
    make_board,
    make_calibration,
    make_device,
    make_report,
    make_submission,
    make_task,
)
from kernelcup.app.machines import dispatchers
from kernelcup.app.machines.queries.calibrations import CalibrationRecord
from kernelcup.app.queue.progress import JobProgress
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.cli import exit_codes, wiring
from kernelcup.cli.backend.local import LocalBackend
from kernelcup.cli.compete.compare import show_report
from kernelcup.cli.compete.submit import no_longer_than
from kernelcup.cli.operate.serve import Service
from kernelcup.cli.show import calibration, ranking
from kernelcup.domain import Device, Score, Standing
from kernelcup.engine.database import Database
from kernelcup.errors import WaitOver
from kernelcup_harness.protocol import DuelResult

__all__ = ["ada", "command", "db_url", "home", "server"]


# ------------------------------------------------------------------------------------------ point 22


def test_a_wait_at_a_server_ends_when_it_was_told(command: Command, ada, db) -> None:
    make_board(db)
    command("submit", "kernel.py", "--board", "double", "--no-wait")
    ended = command("watch", "1", "--timeout", "0.2")
    assert ended.code == 9
    assert "error (wait_over): submission 1 has not ended within 0.2 s; it continues" in ended.err
    assert "Next: kernelcup watch 1\n" in ended.err
    assert not show_submission(db, 1).ended


def test_a_wait_ends_although_the_first_alarm_was_swallowed() -> None:
    def wait() -> None:
        with no_longer_than(0.01, "it", "back"):
            with suppress(WaitOver):
                signal.pause()
            signal.pause()

    with pytest.raises(WaitOver):
        wait()


@pytest.mark.parametrize(
    ("duel", "code"),
    [
        (None, exit_codes.NO_RESULT),
        (dataclasses.replace(FASTER, verdict="", rival_message="it crashed"), exit_codes.NO_RESULT),
        (dataclasses.replace(FASTER, verdict="not_held"), exit_codes.NO_RESULT),
        (dataclasses.replace(FASTER, verdict="tied", low=0.0, high=float("inf")), exit_codes.NO_RESULT),
        (dataclasses.replace(FASTER, verdict="tied", low=0.99, high=1.01), 0),
        (FASTER, 0),
    ],
)
def test_a_comparison_without_a_result_has_an_exit_code(duel: DuelResult | None, code: int) -> None:
    with pytest.raises(typer.Exit) as ended:
        show_report(make_report(duel=duel), "cpu", NAMES, GIVEN, as_json=False)
    assert ended.value.exit_code == code


@pytest.mark.parametrize("devices", [[make_device()], []], ids=["judging", "without a judge"])
def test_a_database_in_use_is_not_replaced(command: Command, home: Path, devices: list[Device]) -> None:
    command("db", "backup", "copy")
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as here:
        now = datetime.now(UTC)
        dispatchers.check_in(
            here, owner="elsewhere:1:x", devices=devices, started_at=now, draining=False, now=now
        )
        make_board(here)
        refused = command("db", "restore", "copy", "--yes")
        assert (refused.code, "a server is running: elsewhere:1:x" in refused.err) == (3, True)
        assert "Next: stop `kernelcup serve`" in refused.err
        assert "double" in command("board", "list").out
        dispatchers.check_out(here, "elsewhere:1:x")
    assert command("db", "restore", "copy", "--yes").code == 0
    assert "double" not in command("board", "list").out


def test_a_copy_made_while_a_server_ran_does_not_bring_the_server_back(command: Command, home: Path) -> None:
    command("db", "upgrade")
    with Database.open(f"sqlite:///{home / 'kernelcup.db'}") as here:
        now = datetime.now(UTC)
        dispatchers.check_in(here, owner="elsewhere:1:x", devices=[], started_at=now, draining=False, now=now)
        command("db", "backup", "copy")
        dispatchers.check_out(here, "elsewhere:1:x")
    for _ in range(2):
        assert command("db", "restore", "copy", "--yes").code == 0


def test_the_first_upgrade_makes_the_tables(command: Command, home: Path) -> None:
    (home / "kernelcup.db").unlink()
    assert command("db", "upgrade").out.startswith("the database has its tables now (revision ")
    assert command("db", "upgrade").out.startswith("the database is up to date")


def test_a_timer_needs_no_name_for_its_backups(command: Command, home: Path) -> None:
    command("db", "upgrade")
    old = home / "backups/kernelcup-20200101T000000Z.backup"
    old.parent.mkdir()
    old.write_text("an old copy")
    body = command("db", "backup", "--keep", "1", "--json").body
    assert [str(path) for path in old.parent.iterdir()] == [body["file"]]
    assert body["removed"] == [str(old)]
    said = command("db", "backup", str(home / "elsewhere"), "--keep", "14").out
    assert f"{home}/elsewhere/kernelcup-" in said


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["--keep", "0"], 2, "'--keep'"),
        (["--keep", "-3"], 2, "'--keep'"),
        (["--keep", "many"], 2, "unable to parse string as an integer"),
        ([], 3, "Name a file for the copy, or give --keep"),
        (["a-file", "--keep", "3"], 8, "a-file: File exists"),
    ],
)
def test_a_backup_that_makes_no_sense_is_refused(
    command: Command, home: Path, given: list[str], code: int, said: str
) -> None:
    command("db", "upgrade")
    Path("a-file").write_text("mine")
    refused = command("db", "backup", *given)
    assert (refused.code, said in refused.err) == (code, True), refused
    assert not (home / "backups").exists()


class TwoDevices:
    """A dispatcher that judges on two devices at once, and says so as they go on."""

    def __init__(self, db: Database, take) -> None:
        self.db, self.take = db, take

    def run_until(self, submission_id: int) -> None:
        first, second = jobs_of(self.db, submission_id)
        for job, event in (
            (first, {"event": "stage", "stage": "test", "cases": 3, "limit_s": 9}),
            (second, {"event": "stage", "stage": "test", "cases": 2, "limit_s": 9}),
            (first, {"event": "case", "stage": "test"}),
            (second, {"event": "case", "stage": "test"}),
            (second, {"event": "case", "stage": "test"}),
            (first, {"event": "case", "stage": "test"}),
            (second, {"event": "stage_end", "stage": "test", "verdict": "accepted"}),
            (first, {"event": "case", "stage": "test"}),
            (first, {"event": "stage_end", "stage": "test", "verdict": "accepted"}),
        ):
            self.take(JobProgress(job=job, event=event))


def test_lines_name_the_device_where_there_are_two(
    db: Database, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_board(db, devices=["H100", "MI300"])
    submission = make_submission(db, devices=["H100", "MI300"])
    backend = LocalBackend(wiring.load_config(), db)
    monkeypatch.setattr(wiring, "make_dispatcher", lambda _config, db, take: TwoDevices(db, take))
    backend.judge(backend.submission(submission.id), quiet=False)
    assert capsys.readouterr().err.splitlines() == [
        "MI300: ✓ accepted  test 2/2",
        "H100: ✓ accepted  test 3/3",
    ]


def test_a_sign_in_that_is_not_in_force_is_told(
    command: Command, ada, server: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELCUP_HOME", str(home))
    told = command("board", "list").err
    assert "this machine's database, because KERNELCUP_HOME is set" in told
    assert f"--server {server}" in told
    assert command("board", "list", "--local").err == ""
    assert "KERNELCUP_HOME is set" in command("login", server, "--token", ada).err
    monkeypatch.delenv("KERNELCUP_HOME")
    assert "KERNELCUP_HOME" not in command("board", "list").err


# ------------------------------------------------------------------------------------------ point 21

STATEMENT = """\
# Double

- **Input** `data`: a `float32` tensor of shape `(size,)` whose values are drawn from a normal distribution
- **Output**: twice that

| a | b |
|---|---|
| 1 | 2 |
"""


def test_a_statement_in_a_pipe_is_its_source(command: Command, tmp_path: Path) -> None:
    command("task", "new", "mine")
    text = (tmp_path / "mine/task.yml").read_text()
    start = text.index("description: |\n")
    end = text.index("\n\n", text.index("\n\n", start) + 2)
    indented = "".join(f"  {line}".rstrip() + "\n" for line in STATEMENT.splitlines())
    body = text[:start] + "description: |\n" + indented + text[end:]
    (tmp_path / "mine/task.yml").write_text(body)
    assert STATEMENT in command("task", "show", "mine").out


def test_the_statement_of_a_board_in_a_pipe_is_its_source(command: Command, ada, db) -> None:
    make_board(db, task=make_task(description=STATEMENT))
    assert STATEMENT in command("board", "show", "double").out


def narrow(width: int = 80) -> Console:
    """Return a terminal of that many columns."""
    return Console(file=io.StringIO(), width=width, highlight=False, soft_wrap=True)


def printed(out: Console) -> str:
    """Return what was printed there."""
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def places() -> list[Standing]:
    """Return a ranking with long names and long numbers."""
    return [
        make_standing(
            rank=rank,
            user=f"grace-hopper-{rank}",
            score_s=12.3456e-6 * rank,
            low_s=12.1e-6 * rank,
            high_s=12.6e-6 * rank,
            submission_id=104_200 + rank,
            file_name=f"vectoradd_with_a_long_name_v{rank}.py",
            trust="self-measured",
        )
        for rank in (1, 2, 3)
    ]


def make_standing(**values) -> Standing:
    """Return a place in a ranking."""
    score = Score(**{name: values.pop(name) for name in ("score_s", "low_s", "high_s")})
    return Standing(score=score, submitted_at=NOW, comparable=True, tied=False, **values)


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_standings_fit_a_narrow_terminal(db: Database, width: int) -> None:
    out = narrow(width)
    ranking.standings(out, make_board(db), "H100", places())
    text = printed(out)
    assert all(len(line.rstrip()) <= width for line in text.splitlines() if not line.startswith("no room"))
    words = set(text.split())
    for place in places():
        assert {f"grace-hopper-{place.rank}", f"{place.score_s * 1e6:.4g}"} <= words
    assert "no room for: submitted (UTC)" in text
    kept = {word for line in text.splitlines() for word in line.split() if word.endswith(".py")}
    assert kept <= {place.file_name for place in places()}


def test_submissions_fit_a_narrow_terminal(command: Command, monkeypatch, tmp_path: Path) -> None:
    name = "a_kernel_with_a_rather_long_name_that_goes_on_and_on.py"
    (tmp_path / name).write_text(SUBMISSION)
    command("board", "create", "identity", "--name", "identity-of-large-tensors-in-bfloat16")
    command("submit", name, "--no-wait")
    monkeypatch.setenv("COLUMNS", "80")
    words = command("submissions", "list").out.split()
    assert {"#1", "identity-of-large-tensors-in-bfloat16", "emulated:", "queued"} <= set(words)
    assert not any(word in name and word != name and "_" in word for word in words)


def test_calibrations_fit_a_narrow_terminal(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    speeds = {"fp16": 7.1e14, "fp32": 5e13, "bf16": 7e14, "tf32": 3.5e14}
    record = CalibrationRecord(
        id=1,
        machine="gpu-node-0017.cluster",
        gpu="3",
        device="H100",
        at=NOW,
        fits=True,
        fresh=True,
        found=make_calibration(75_000.0, matrix_flops_per_s=speeds),
    )
    monkeypatch.setenv("COLUMNS", "80")
    calibration.show([(record, [])])
    text = capsys.readouterr().out
    assert {"gpu-node-0017.cluster", "2,800.0", "75.0", "H100"} <= set(text.split())
    assert "no room for: matrix Tflop/s" in text


def test_a_server_without_a_judge_is_known_to_others_while_it_runs(home: Path) -> None:
    seen: list[tuple[int, int]] = []

    def stop(db: Database) -> None:
        now = datetime.now(UTC)
        while not dispatchers.list_servers(db, now):
            now = datetime.now(UTC)
        seen.append((len(dispatchers.list_servers(db, now)), len(dispatchers.list_alive(db, now))))
        os.kill(os.getpid(), signal.SIGTERM)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    settings = wiring.load_config()
    with Database.open(settings.database_url) as db:
        watcher = threading.Thread(target=stop, args=[db], daemon=True)
        watcher.start()
        try:
            Service(settings, db, with_http=False, as_json=False, config_file=None).run(
                judge=False, drain=False
            )
        finally:
            watcher.join()
            for number, handler in before.items():
                signal.signal(number, handler)
        assert (seen, dispatchers.list_servers(db, datetime.now(UTC))) == ([(1, 0)], [])
