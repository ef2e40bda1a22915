"""Whose fault a disturbed run is: what is said of it once a submission of ours was judged on the same device."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inside import SECRET

from builders import make_audit, make_case, make_spec
from kernelcup_harness.protocol import (
    Backend,
    Finding,
    Mode,
    Reason,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
)
from kernelcup_harness.run import own_job
from kernelcup_harness.run.record import Record

RANKED = {"mode": Mode.LEADERBOARD, "backend": Backend.CUDA}


@pytest.fixture
def own_jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What our own submissions meet, the next one first; empty for nothing."""
    meets: list[str] = []

    class Run:
        def __init__(self, _spec: Any, _secret: bytes, _folder: Path, record: Record, *, boxed: bool) -> None:
            assert boxed
            self._record = record

        def run(self) -> None:
            self._record.begin(StageName.RANKED, 10.0, 1)
            if text := meets.pop(0):
                self._record.fail(StageName.RANKED, Verdict.INTERNAL_ERROR, Reason.MACHINE, text)
                return
            self._record.case(case())
            self._record.end(Verdict.ACCEPTED, Reason.NONE, "")

    monkeypatch.setattr(own_job, "StandardRun", Run)
    return meets


def case(*findings: str, level: TrustLevel = TrustLevel.WITNESSED) -> Any:
    held = [Finding(code=code, text=f"it is {code}", quarantines=True) for code in findings]
    return make_case(timing=Timing(samples_ns=[9e3] * 16, audit=make_audit(9e3, level=level, findings=held)))


def disturbed(*findings: str, stage: StageName = StageName.RANKED, **changes: Any) -> tuple[Record, Any]:
    """A run that is held for findings; without any, one that has failed by the machine's fault, as it seems."""
    spec = make_spec(**(RANKED | changes))
    record = Record(spec, "c0ffee", lambda _event: None)
    record.environment["clean_room"] = {"witnessed": True}
    record.begin(stage, 10.0, 1)
    if findings:
        record.case(case(*findings))
        record.end(Verdict.ACCEPTED, Reason.NONE, "")
    else:
        record.fail(stage, Verdict.INTERNAL_ERROR, Reason.MACHINE, "calls were not ready in time")
    return record, spec


def blamed(record: Record, spec: Any, tmp_path: Path) -> Any:
    """The report of a run whose disturbance was looked into."""
    own_job.blame(spec, tmp_path / "own", record, boxed=True)
    return record.report(secret=SECRET, duration_s=1.0)


def test_calls_that_are_not_timed_where_ours_are_fail_and_are_not_tried_again(
    tmp_path: Path, own_jobs: list[str]
) -> None:
    own_jobs.append("")
    report = blamed(*disturbed(), tmp_path)

    assert (report.verdict, report.reason) == (Verdict.RUNTIME_ERROR, Reason.UNTIMED)
    assert "calls were not ready in time" in report.message
    assert report.environment["own_job"] == ""


@pytest.mark.parametrize("findings", [[], ["unreadable"], ["not_witnessed"], ["unsteady"]])
def test_a_device_that_does_not_time_our_calls_either_is_the_machines_error(
    tmp_path: Path, own_jobs: list[str], findings: list[str]
) -> None:
    own_jobs.append("samples were lost")
    report = blamed(*disturbed(*findings), tmp_path)

    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.MACHINE)
    assert "samples were lost" in report.message
    assert report.environment["own_job"] == "samples were lost"


def test_a_full_disk_costs_no_report(tmp_path: Path, own_jobs: list[str]) -> None:
    (tmp_path / "own").write_text("in the way")
    report = blamed(*disturbed("unreadable"), tmp_path)

    assert own_jobs == []
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.MACHINE)


def test_a_result_that_is_held_stays_held_where_our_calls_are_timed(
    tmp_path: Path, own_jobs: list[str]
) -> None:
    own_jobs.append("")
    report = blamed(*disturbed("unreadable"), tmp_path)

    assert report.verdict is Verdict.ACCEPTED
    assert [each.code for each in report.quarantine] == ["unreadable"]


def test_our_calls_have_to_be_witnessed_where_the_submissions_could_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_jobs: list[str]
) -> None:
    own_jobs.append("")
    monkeypatch.setitem(globals(), "case", lambda *_: make_case(timing=replayed()))
    record, spec = disturbed()

    assert blamed(record, spec, tmp_path).environment["own_job"] == "its times are not witnessed"


def replayed() -> Timing:
    return Timing(samples_ns=[9e3] * 16, audit=make_audit(9e3, level=TrustLevel.REPLAYED))


@pytest.mark.parametrize(
    "run",
    [
        disturbed("places_differ"),
        disturbed(stage=StageName.IMPORT),
        disturbed(mode=Mode.BENCHMARK),
        disturbed(backend=Backend.CPU),
    ],
    ids=["found in its own calls", "before the import", "unranked", "no clock room"],
)
def test_other_runs_are_not_looked_into(tmp_path: Path, own_jobs: list[str], run: Any) -> None:
    report = blamed(*run, tmp_path)

    assert own_jobs == []
    assert "own_job" not in report.environment
