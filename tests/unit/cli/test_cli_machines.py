from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from kernelcup.cli import wiring
from kernelcup.cli.app import app
from kernelcup.cli.operate import demo, doctor
from kernelcup.config.settings import Config
from kernelcup.errors import LaunchError

MACHINES = ["admin", "machines"]


@pytest.fixture
def ask(tmp_path: Path):
    """Return a function that runs a command on a database of its own and returns its output."""

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, list(words), env={"KERNELCUP_HOME": str(tmp_path)})
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


@pytest.mark.parametrize(
    ("sandbox", "gpus", "trouble", "blind", "level", "fit"),
    [
        ({"kind": "bubblewrap"}, 1, "", "", "witnessed", True),
        ({"kind": "bubblewrap"}, 1, "", "not permitted", "replayed", True),
        ({"kind": "landlock"}, 1, "error 304", "", "none", False),
        ({"kind": "landlock", "unranked": "signals reach others"}, 0, "", "", "none", False),
        ({"kind": "bubblewrap"}, 0, "", "", "wall clock", True),
        ({"kind": "none", "why": "no namespaces"}, 1, "", "", "none", False),
    ],
)
def test_the_doctor_says_which_trust_level_results_will_have(
    monkeypatch, sandbox, gpus: int, trouble: str, blind: str, level: str, fit: bool
) -> None:
    monkeypatch.setattr(wiring, "describe_harness", lambda: {"sandbox": sandbox, "gpu_trouble": trouble})
    monkeypatch.setattr(wiring, "counters_trouble", lambda: blind)
    monkeypatch.setattr("kernelcup.launchers.gpu_health.probe.gpus_here", lambda: [("0", "H100")] * gpus)
    found = {each.name: each for each in doctor.look_at_runner()}
    assert found["level"].text.startswith(level)
    assert (found["level"].state == "ok") is fit


def test_where_signals_get_out_the_doctor_says_so_and_the_demo_judges_its_own_files_and_says_it(
    monkeypatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"kind": "landlock", "privileges": "the same user", "limits": "rlimits", "weaker": "signals"}
    settings = Config.load(None, {"KERNELCUP_HOME": str(tmp_path)})
    for why, state in (({}, "ok"), ({"unranked": "signals reach others"}, "broken")):
        monkeypatch.setattr(wiring, "describe_harness", lambda found=about | why: {"sandbox": found})
        found = doctor.sandbox({"sandbox": about | why})
        assert (found.state, "signals reach others" in found.text) == (state, bool(why))
        assert demo.with_or_without_sandbox(settings).sandbox_required is not bool(why)
    assert "signals reach others. The demo runs its own submissions anyway" in capsys.readouterr().err


def test_the_doctor_says_that_nothing_can_be_judged_without_a_harness(monkeypatch) -> None:
    def fail():
        raise LaunchError("no torch")

    monkeypatch.setattr(wiring, "describe_harness", fail)
    found = {each.name: each for each in doctor.look_at_runner()}
    assert found["sandbox"].text == "no torch"
    assert found["level"].text.startswith("none")


def test_two_machines_without_a_common_device_cannot_be_compared(tmp_path: Path, ask) -> None:
    for name in ("one", "two"):
        ask(*MACHINES, "add", name)
    command = [*MACHINES, "compare", "one", "two"]
    done = CliRunner().invoke(app, command, env={"KERNELCUP_HOME": str(tmp_path)})
    assert done.exit_code != 0
    assert "Name a device that both have: there is none" in str(done.exception or done.output)
