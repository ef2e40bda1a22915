"""``kernelcup profile``: what it refuses, and what it prints and keeps once the run has ended."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from builders import make_case, make_report, make_stage
from kernelcup.cli.compete import profile, submissions
from kernelcup.cli.show import render
from kernelcup.errors import NotFound
from kernelcup.reporting.report import blocks
from kernelcup_harness.protocol import (
    Counters,
    KeptFile,
    Mode,
    ProtocolError,
    RanKernel,
    RunReport,
    StageName,
    from_json,
    to_json,
)

CALLS = json.loads((Path(__file__).parents[2] / "data/profiles/calls-h100.json").read_text())


def profiled(name: str = "matmul", **changes: Any) -> RunReport:
    found = dataclasses.replace(from_json(Counters, CALLS[name]), **changes)
    stage = make_stage([make_case(None, profile="a table")], name=StageName.PROFILE)
    return dataclasses.replace(make_report(mode=Mode.PROFILE, stages=[stage]), counters=found)


def backend(report: RunReport | None, body: bytes = b"") -> Any:
    """A server that has one submission."""
    job = SimpleNamespace(report=report, run=7, device="H100")
    api = SimpleNamespace(artifact=lambda run, name: body if (run, name) == (7, "profile.ncu-rep") else b"?")
    return SimpleNamespace(
        submission=lambda _number: SimpleNamespace(jobs=[job]), ask=lambda _here, there: there(api)
    )


def test_what_limits_a_kernel_is_printed_with_the_report() -> None:
    out = Console(record=True, width=120)
    render.show(out, blocks(profiled()))
    text = out.export_text()
    assert "its tensor cores work at 71 % of their rate" in text
    assert "one call, replayed without the submission's host code" in text


def test_files_are_kept_in_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = profiled(files=[KeptFile(name="profile.ncu-rep", nbytes=6, sha256="0" * 64)])
    profile.follow_up(backend(report, b"report"), 3, [], tmp_path)
    assert (tmp_path / "3-profile.ncu-rep").read_bytes() == b"report"
    assert "wrote" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["../../evil", "/evil", "a/b", "", ".."])
def test_a_report_with_a_file_whose_name_leads_elsewhere_is_not_read(name: str) -> None:
    """From a server, and from a machine that the server got it from."""
    body = to_json(profiled(files=[KeptFile(name="profile.ncu-rep", nbytes=1, sha256="0" * 64)]))
    assert from_json(RunReport, body) is not None
    body["counters"]["files"][0]["name"] = name
    with pytest.raises(ProtocolError):
        from_json(RunReport, body)


def test_changes_since_another_profile_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    before = profile.counters_of(backend(profiled("aten")), 1)
    profile.follow_up(backend(profiled("triton")), 2, before, None)
    out = capsys.readouterr().out
    assert "Since then:" in out
    assert "all kernels: 53.5 -> 21.2 µs (-60.3%)" in out
    assert "no more: unfused (the call)" in out


@pytest.mark.parametrize("report", [None, make_report(), profiled(kernels=[], trouble="no ncu")])
def test_a_submission_without_counters_cannot_be_compared_with(report: RunReport | None) -> None:
    with pytest.raises(NotFound, match="Submission 1 has no profile with counters"):
        profile.counters_of(backend(report), 1)


def ranked(*names: str) -> RunReport:
    """A ranked run whose kernel took all of the time, with files of these names."""
    ran = RanKernel(
        name="k",
        image="00",
        launches=1,
        grid=[4, 1],
        block=[128, 1],
        registers=32,
        shared_bytes=1024,
        local_bytes=0,
        share=1.0,
    )
    files = [KeptFile(name=name, nbytes=1, sha256="0" * 64) for name in names]
    return dataclasses.replace(make_report(), ran=[ran], files=files)


def test_the_machine_code_of_a_ranked_run_is_printed_with_what_its_kernels_take(
    capsys: pytest.CaptureFixture[str],
) -> None:
    submissions.print_listing(backend(ranked("sass.txt")), 1, None, as_json=False)
    first, rest = capsys.readouterr().out.splitlines()
    assert first == (
        "// k: 32 registers, 1024 bytes shared, 0 bytes local, grid 4x1, block 128x1, 100% of the time"
    )
    assert rest == "?"  # what the server of these tests sends
    submissions.print_listing(backend(ranked("sass.txt")), 1, None, as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert (found["id"], found["sass"]) == (1, "?")
    assert [each["name"] for each in found["ran"]] == ["k"]


@pytest.mark.parametrize("report", [None, ranked("binary.kcgraph")])
def test_a_run_without_a_listing_says_which_runs_have_one(report: RunReport | None) -> None:
    with pytest.raises(NotFound, match="accepted ranked runs have one"):
        submissions.print_listing(backend(report), 1, None, as_json=False)
