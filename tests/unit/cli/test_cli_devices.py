"""What the command line says about devices that are out of service."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import NOW, jobs_of, make_board, make_calibration, make_device, make_report, make_submission
from hand_judging import Judging
from kernelcup.app.machines import calibrations, dispatchers, machines
from kernelcup.app.machines.outages import outages, take_out
from kernelcup.app.queue.progress import GpuBack, GpuOut, JobReturned
from kernelcup.app.queue.shown import show
from kernelcup.cli import logs, wiring
from kernelcup.cli.backend.local import progress_text
from kernelcup.cli.entry import execute
from kernelcup.cli.operate.serve import log
from kernelcup.domain import OPERATOR
from kernelcup.engine.database import Database
from kernelcup.errors import UnfitDevice
from kernelcup.launchers.base import MachineReading
from kernelcup_harness.protocol import Backend

CONFIG = """\
[[devices]]
name = "H100"
backend = "cuda"
slots = 2

[[devices]]
name = "cpu"
backend = "cpu"

[[devices]]
name = "B200"
backend = "cuda"
launcher = "rented"
"""

Command = Callable[..., str]


@pytest.fixture
def here(tmp_path: Path, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The database of the commands."""
    (tmp_path / "kernelcup.toml").write_text(CONFIG)
    shutil.copy(sqlite_template, tmp_path / "kernelcup.db")
    monkeypatch.setenv("KERNELCUP_HOME", str(tmp_path))
    monkeypatch.setenv("KERNELCUP_RUNTIME", str(tmp_path / "locks"))
    for name in ("KERNELCUP_CONFIG", "KERNELCUP_DATABASE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(logs, "set_up", lambda: None)
    monkeypatch.setattr("kernelcup.config.settings.Config.slot_gpus", {"H100": ("0", "1")})
    with Database.open(f"sqlite:///{tmp_path / 'kernelcup.db'}") as db:
        yield db


@pytest.fixture
def command(here: Database, capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process and return what it printed."""

    def run(*args: str, code: int = 0) -> str:
        assert execute(args) == code
        out = capsys.readouterr().out
        assert isinstance(out, str)
        return out

    return run


def smoke(db: Database) -> None:
    """Take a GPU of this machine out of service."""
    error = UnfitDevice("GPU 0 before the job: used by process 7 (\x1bx)", gpus=["0"])
    take_out(db, error, device="H100", now=datetime.now(UTC))


def body(text: str) -> Any:
    """Return the object that was printed."""
    return json.loads(text)


def test_devices_are_listed_with_their_free_slots(command: Command) -> None:
    listed = body(command("devices", "--json"))
    assert [(each["name"], each["slots"], each["free"]) for each in listed["devices"]] == [
        ("H100", 2, 2),
        ("cpu", 1, 1),
        ("B200", 1, None),
    ]
    assert listed["out_of_service"] == []
    assert "Out of service" not in command("devices")


def test_a_gpu_that_is_out_of_service_is_listed_with_the_reason(here: Database, command: Command) -> None:
    smoke(here)
    listed = body(command("devices", "--json"))
    assert listed["devices"][0]["free"] == 1
    (fault,) = listed["out_of_service"]
    assert (fault["device"], fault["gpu"]) == ("H100", "0")
    assert fault["since"] < fault["next_look_at"]
    shown = command("devices")
    assert "Out of service" in shown
    assert r"process 7 (\x1bx)" in shown


def test_the_doctor_shows_what_is_out_of_service(here: Database, command: Command) -> None:
    def found() -> dict[str, Any]:
        findings = body(command("doctor", "--json", code=4))["findings"]  # these devices are not here
        return next(each for each in findings if each["name"] == "gpus")

    assert found()["state"] == "ok"
    smoke(here)
    assert found()["state"] == "broken"
    assert "used by process 7" in found()["text"]
    assert "kernelcup admin device-up" in found()["text"]


def test_an_operator_puts_a_device_back(here: Database, command: Command) -> None:
    smoke(here)
    assert "(H100) is in service again" in command("admin", "device-up", "H100")
    assert outages(here, now=datetime.now(UTC)) == []
    assert "error (not_found)" in _error(command, "admin", "device-up", "H100")
    smoke(here)
    assert body(command("admin", "device-up", "H100", "--json"))["in_service"][0]["gpu"] == "0"


def _error(command: Command, *args: str) -> str:
    text = command(*args, "--json", code=3)
    return f"error ({body(text)['error']['code']})"


def test_who_watches_is_told_why_nothing_happens(here: Database) -> None:
    make_board(here, devices=["H100"])
    made = make_submission(here, devices=["H100"])
    told = progress_text(show(here, OPERATOR, made.id, now=datetime.now(UTC)))
    assert told == "H100: queued, place 1 (no machine with H100 is connected)"


def test_a_server_says_what_goes_out_of_service_and_comes_back(here: Database, capsys) -> None:
    smoke(here)
    (fault,) = outages(here, now=datetime.now(UTC))
    make_board(here, devices=["H100"])
    job = jobs_of(here, make_submission(here, devices=["H100"]).id)[0]
    for progress in (GpuOut(fault=fault), JobReturned(job=job, reason="smoke"), GpuBack(fault=fault)):
        log(progress)
    first, second, third = capsys.readouterr().out.splitlines()
    assert first.startswith("GPU 0 is out of service: GPU 0 before")
    assert second.endswith("waits again: smoke")
    assert third == "GPU 0 is in service again"


def test_a_machine_with_gpus_looks_at_them(here: Database) -> None:
    launcher = wiring.make_local(wiring.load_config())
    assert launcher._hygiene is not None
    launcher.leave_out(frozenset({"0", "1"}))
    assert launcher.capacity(make_device(slots=2)) == 0


@pytest.mark.parametrize(("before", "now"), [("cuda", "emulated"), ("cpu", "cuda")])
def test_a_name_stands_for_one_kind_of_device(
    here, tmp_path, monkeypatch, capsys, clock, before, now
) -> None:
    monkeypatch.setattr("kernelcup.config.settings.Config.has_gpu", True)
    make_board(here, devices=["H100"])
    judging = Judging(here, clock)
    judging.submit()
    judging.finish(judging.claim(), report=make_report(backend=Backend(before)))
    (tmp_path / "kernelcup.toml").write_text(f'[[devices]]\nname = "h100"\nbackend = "{before}"\n')
    assert execute(["serve", "--until-idle"]) == 0
    (tmp_path / "kernelcup.toml").write_text(f'[[devices]]\nname = "h100"\nbackend = "{now}"\n')
    assert execute(["serve", "--until-idle"]) != 0
    told = capsys.readouterr().err
    how = "on a GPU" if before == "cuda" else "without a GPU"
    assert f"kernelcup.toml: device h100: results measured {how} rank under this name on double" in told
    assert "another name" in told
    execute(["doctor"])
    assert "BROKEN   clocks       device h100: results measured" in capsys.readouterr().out


def calibrate(db: Database, canary_ns: float, *, minutes: int, machine: str = "node7") -> None:
    """Store a calibration of a GPU."""
    speeds = {"fp16": 7.1e14, "fp32": 5e13}
    found = make_calibration(canary_ns, matrix_flops_per_s=speeds, launch_ns=2340.0, temperature_c=41)
    now = NOW + timedelta(minutes=minutes)
    calibrations.store(db, found, machine=machine, gpu="3", device="H100", now=now)


def test_devices_show_what_they_can_do(here: Database, command: Command) -> None:
    assert "Calibrations" not in command("devices")
    assert body(command("devices", "--json"))["calibrations"] == []
    calibrate(here, 75_000.0, minutes=0)
    shown = command("devices")
    for part in ("Calibrations", "node7", "2,800.0", "3,000.0", "2.34", "75.0", "41", "fp16"):
        assert part in shown
    (latest,) = body(command("devices", "--json"))["calibrations"]
    assert (latest["device"], latest["machine"], latest["gpu"], latest["fits"]) == (
        "H100",
        "node7",
        "3",
        True,
    )
    assert latest["found"]["matrix_flops_per_s"] == {"fp16": 7.1e14, "fp32": 5e13}
    assert latest["history"] == []


def test_devices_without_a_history_say_who_makes_one(here: Database, command: Command) -> None:
    assert "No device has been calibrated yet" in command("devices", "--history", "5")
    assert "calibrated" not in command("devices")


def test_devices_show_their_history_and_mark_what_has_drifted(here: Database, command: Command) -> None:
    calibrate(here, 75_000.0, minutes=0)
    calibrate(here, 90_000.0, minutes=1)
    assert "90.0 *" in command("devices")
    shown = command("devices", "--history", "5")
    assert "75.0" in shown
    (latest,) = body(command("devices", "--json", "--history", "5"))["calibrations"]
    assert [each["fits"] for each in latest["history"]] == [False, True]
    (shortened,) = body(command("devices", "--json", "--history", "1"))["calibrations"]
    assert [each["id"] for each in shortened["history"]] == [latest["id"]]


def test_a_shipped_task_shows_its_work_and_not_that_of_hidden_cases(command: Command) -> None:
    assert "(reads 1.05 MB, writes 0.524 MB, 0.268 Gflop fp16)" in " ".join(
        command("task", "show", "matmul").split()
    )
    shown = body(command("task", "show", "matmul", "--json"))
    assert shown["work"][0]["flops"] == 2 * 512**3
    assert "hidden_work" not in shown


def test_the_doctor_counts_machines_as_missing_only_where_a_server_runs(
    here: Database, command: Command
) -> None:
    now = datetime.now(UTC)
    readings = [MachineReading(name="lab", slots={"H100": 1})]
    machines.note_seen(here, readings, launcher="local", is_own=True, now=now - timedelta(hours=1))
    assert "machine:lab" not in command("doctor", code=4)
    dispatchers.check_in(here, owner="web:1:x", devices=[], started_at=now, draining=False, now=now)
    assert "BROKEN   machine:lab  down, last seen" in command("doctor", code=4)
