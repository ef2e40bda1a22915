"""What is said of a comparison on this machine."""

from __future__ import annotations

import pytest
import typer

from builders import make_report
from kernelcup.cli.comparing import show_report
from kernelcup_harness.protocol import Backend, Verdict


@pytest.mark.parametrize("comparable", [True, False])
def test_who_compares_on_an_emulated_device_reads_why_nothing_comes_of_it(
    capsys: pytest.CaptureFixture[str], comparable: bool
) -> None:
    report = make_report(comparable=comparable)
    with pytest.raises(typer.Exit) as ended:
        show_report(report, "cpu", "a.py", "b.py", as_json=False)
    assert ended.value.exit_code == 0
    text = capsys.readouterr().out
    assert "nothing to compare" in text
    assert ("emulated device" in text) is not comparable


def test_who_compares_what_was_wrong_reads_which_and_how(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended:
        show_report(make_report(verdict=Verdict.WRONG_ANSWER), "cpu", "a.py", "b.py", as_json=False)
    assert ended.value.exit_code == 10
    assert 'nothing to compare: a.py ended with "wrong answer".' in capsys.readouterr().out


def test_who_compares_without_a_gpu_what_wants_one_is_told_what_to_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = make_report(
        verdict=Verdict.INTERNAL_ERROR, backend=Backend.CPU, message="Found no NVIDIA driver on your system"
    )
    with pytest.raises(typer.Exit):
        show_report(report, "cpu", "a.py", "b.py", as_json=False)
    assert "--device emulated" in capsys.readouterr().out
