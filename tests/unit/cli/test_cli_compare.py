"""What is said of a comparison on this machine."""

from __future__ import annotations

import pytest
import typer

from builders import make_report
from kernelcup.cli.comparing import show_report


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
