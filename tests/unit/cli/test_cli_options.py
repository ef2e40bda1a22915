"""What words on the command line mean."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import pytest

from builders import make_case, make_report, make_stage
from kernelcup.cli import options
from kernelcup.cli.compete import run
from kernelcup.errors import InvalidValue
from kernelcup_harness.protocol import HarnessKind, Mode, RunReport, StageName


@pytest.mark.parametrize(
    ("word", "mode"), [("test", Mode.TEST), ("Ranked", Mode.LEADERBOARD), ("leaderboard", Mode.LEADERBOARD)]
)
def test_a_mode_is_known_by_its_word(word: str, mode: Mode) -> None:
    assert options.read_mode(word) is mode


def test_an_unknown_mode_is_told_what_there_is() -> None:
    with pytest.raises(InvalidValue, match="--mode fast: expected test, benchmark"):
        options.read_mode("fast")


def test_a_harness_is_ours_the_tasks_or_as_the_task_says() -> None:
    assert options.read_harness(None) is None
    assert options.read_harness("OWN") is HarnessKind.OWN
    with pytest.raises(InvalidValue, match="--harness theirs: expected standard or own"):
        options.read_harness("theirs")


@pytest.mark.parametrize("seed", ["", "12", "g" * 64, "0" * 63, "0" * 65])
def test_a_seed_has_64_hex_digits(seed: str) -> None:
    assert run.check_seed("aF" * 32) == "aF" * 32
    assert run.check_seed(None) is None
    with pytest.raises(InvalidValue, match="--seed"):
        run.check_seed(seed)


def test_a_trace_needs_the_profile_mode_and_a_folder(tmp_path: Path) -> None:
    run.check_trace(None, Mode.TEST)
    run.check_trace(tmp_path / "trace.json", Mode.PROFILE)
    for trace, mode in (
        (tmp_path / "trace.json", Mode.TEST),
        (tmp_path, Mode.PROFILE),
        (tmp_path / "none/trace.json", Mode.PROFILE),
    ):
        with pytest.raises(InvalidValue, match="--trace"):
            run.check_trace(trace, mode)


def traced(*traces: str | None) -> RunReport:
    """Return a profiled run with one case for each trace."""
    cases = [make_case(None, index=index, trace_gz64=trace) for index, trace in enumerate(traces)]
    return make_report(mode=Mode.PROFILE, stages=[make_stage(cases, name=StageName.PROFILE)])


def packed(text: bytes) -> str:
    return base64.b64encode(gzip.compress(text, mtime=0)).decode()


def test_the_trace_of_one_case_gets_the_name_that_was_asked_for(tmp_path: Path) -> None:
    assert run.write_traces(traced(packed(b"{}")), tmp_path / "t.json") == [tmp_path / "t.json"]
    assert (tmp_path / "t.json").read_bytes() == b"{}"


def test_several_traces_have_the_case_in_their_names(tmp_path: Path) -> None:
    report = traced(packed(b"0"), None, packed(b"2"))
    names = [path.name for path in run.write_traces(report, tmp_path / "t.json")]
    assert names == ["t-0.json", "t-2.json"]
    names = [path.name for path in run.write_traces(report, tmp_path / "t.json.gz")]
    assert names == ["t-0.json.gz", "t-2.json.gz"]
    assert gzip.decompress((tmp_path / "t-2.json.gz").read_bytes()) == b"2"


@pytest.mark.parametrize("trace", ["None", "@@@@", base64.b64encode(b"no gzip").decode(), packed(b"x")[:20]])
def test_a_trace_that_is_none_is_refused(tmp_path: Path, trace: str) -> None:
    with pytest.raises(InvalidValue, match="--trace"):
        run.write_traces(traced(trace), tmp_path / "t.json")


def test_a_trace_that_unpacks_to_too_much_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LONGEST_TRACE_BYTES", 1000)
    with pytest.raises(InvalidValue, match="more than 1,000 bytes"):
        run.write_traces(traced(packed(bytes(1001))), tmp_path / "t.json")
