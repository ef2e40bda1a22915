"""What is said of a comparison on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from builders import make_device, make_report, make_task, make_wall_report
from kernelcup.cli import wiring
from kernelcup.cli.compete import compare
from kernelcup.cli.compete.compare import check_device, compare_files, read_number, show_report
from kernelcup.config.settings import Config
from kernelcup.errors import InvalidValue
from kernelcup_harness.protocol import Backend, DuelResult, JobSpec, SourceTree, Verdict

NAMES, GIVEN = ("a.py", "b.py"), ("x/a.py", "y/b.py")
FASTER = DuelResult(ratio=0.97, low=0.96, high=0.98, verdict="faster", blocks=20)
EMULATED = make_device(name="emulated", backend=Backend.EMULATED)
CPU = make_device(name="cpu", backend=Backend.CPU)
DEVICES = "".join(f'[[devices]]\nname = "{name}"\nbackend = "{name}"\n' for name in ("emulated", "cpu"))


def settings_in(folder: Path) -> Config:
    """Return the configuration of a machine without a GPU."""
    file = folder / "kernelcup.toml"
    file.write_text(DEVICES)
    return Config.load(file, {"HOME": str(folder)})


def test_who_compares_what_was_wrong_reads_which_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        show_report(make_report(verdict=Verdict.WRONG_ANSWER), "cpu", NAMES, GIVEN, as_json=False)
    assert ended.value.exit_code == 10
    assert 'nothing to compare: a.py ended with "wrong answer".' in capsys.readouterr().out


def test_who_compares_without_a_gpu_what_wants_one_is_told_why_that_fails(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = make_report(
        verdict=Verdict.INTERNAL_ERROR, backend=Backend.CPU, message="Found no NVIDIA driver on your system"
    )
    with pytest.raises(typer.Exit):
        show_report(report, "cpu", NAMES, GIVEN, as_json=False)
    assert "needs a GPU" in capsys.readouterr().out


def test_json_names_what_was_given(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        show_report(make_report(duel=FASTER), "cpu", ("#3", "#4"), (3, 4), as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert (told["first"], told["second"]) == (3, 4)
    assert told["sentence"].startswith("#3 is 3.1 % faster than #4")


def test_an_emulated_device_has_no_times_to_compare(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert check_device(CPU, settings.devices) is CPU
    with pytest.raises(
        InvalidValue, match=r"emulated is an emulated device.*; choose another with --device: cpu"
    ):
        check_device(EMULATED, settings.devices)


@pytest.mark.parametrize(
    "text", ["x", "0", "-1", "³", "00000000000199999999999999999999", "9" * 5000, "4294967296"]
)
def test_what_is_no_number_of_a_submission_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="expected the number of a submission"):
        read_number(text)
    assert read_number("#007") == 7


def test_files_of_one_name_are_called_as_they_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("v1", "v2"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "kernel.py").write_text("custom_kernel = None\n")
    settings = settings_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wiring, "load_config", lambda _config: settings)
    monkeypatch.setattr(compare, "measure", lambda *_args, **_options: make_report(duel=FASTER))
    with pytest.raises(typer.Exit):
        compare_files("vectoradd", "v1/kernel.py", "v2/kernel.py", "cpu", as_json=False, config=None)
    assert "v1/kernel.py is 3.1 % faster than v2/kernel.py" in capsys.readouterr().out


class Alone:
    """A launcher that measures one submission at a time, by the wall clock."""

    def __init__(self, times_ns: dict[str, float]) -> None:
        self._times_ns = times_ns

    def run(self, spec: JobSpec, *_args: object, **_options: object) -> SimpleNamespace:
        duel = None
        if spec.rival is not None:
            duel = DuelResult(verdict="not_held", rival_message="one of the two was timed by the wall clock")
        return SimpleNamespace(report=make_wall_report(self._times_ns[spec.submission.code], duel=duel))


@pytest.mark.parametrize(
    ("times_ns", "said"),
    [
        ((2.88e6, 3.6e6), "by their times, a.py is 25.0 % faster than b.py (98 % interval "),
        ((1e6, 1.001e6), "by their times, a.py and b.py cannot be told apart"),
    ],
)
def test_results_by_the_wall_clock_are_compared_by_their_intervals(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    times_ns: tuple[float, float],
    said: str,
) -> None:
    launcher = Alone(dict(zip(("one", "other"), times_ns, strict=True)))
    monkeypatch.setattr(wiring, "make_local", lambda _settings, _say: launcher)
    nothing: Any = None
    report = compare.measure(
        make_task(), SourceTree.of("one"), SourceTree.of("other"), CPU, settings=nothing, quiet=True
    )
    with pytest.raises(typer.Exit) as ended:
        show_report(report, "cpu", NAMES, GIVEN, as_json=False)
    assert ended.value.exit_code == 0
    found = capsys.readouterr().out
    assert found.startswith("Not measured in turns, since one of the two was timed by the wall clock; ")
    assert said in found
