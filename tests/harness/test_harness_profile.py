"""Profile jobs: which call is profiled, by what, and what is made of ncu's pages."""

from __future__ import annotations

import dataclasses
import io
import os
import re
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fake_room import FakeEngine, FakeHands, judged_in_room
from harness_runs import HONEST, quick_spec

from kernelcup_harness.core.plan import captures, profiled
from kernelcup_harness.isolation import sandbox
from kernelcup_harness.profile import counters, ncu
from kernelcup_harness.protocol import (
    Backend,
    Counters,
    JobSpec,
    Mode,
    ProfileOptions,
    ProfileWay,
    ProtocolError,
    Reason,
    StageName,
    Verdict,
    check_spec,
)
from kernelcup_harness.run import compiling, standard, workers
from kernelcup_harness.run import counters as counters_run
from kernelcup_harness.run.record import Record
from kernelcup_harness.window.reasons import NotReplayed, WhyNot

CASES = [{"size": 8, "seed": 5}, {"size": 16, "seed": 5}]


def job(submission: str = HONEST, *, way: ProfileWay = ProfileWay.REPLAYED, **options: Any) -> JobSpec:
    asked = ProfileOptions(way=way, **options)
    return quick_spec(
        submission, mode=Mode.PROFILE, backend=Backend.CPU, tests=[], benchmarks=CASES, profile=asked
    )


def cases(events: list[dict[str, Any]]) -> list[tuple[int, str]]:
    return [(each["case"]["index"], each["case"]["verdict"]) for each in events if each["type"] == "case"]


def room_told(events: list[dict[str, Any]]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for event in events:
        told |= event.get("environment", {})
    return told


@pytest.mark.parametrize(("benchmark", "index"), [(None, 1), (0, 0), (1, 1)])
def test_the_last_benchmark_is_profiled_unless_another_is_asked_for(
    benchmark: int | None, index: int
) -> None:
    assert [case.index for case in profiled(job(benchmark=benchmark))] == [index]


def test_hidden_benchmarks_are_never_profiled() -> None:
    spec = dataclasses.replace(job(), hidden_benchmarks=[{"size": 32, "seed": 9}])
    assert [(case.index, case.hidden) for case in profiled(spec)] == [(1, False)]


@pytest.mark.parametrize("options", [{"benchmark": 2}, {"benchmark": -1}, {"kernel": "("}])
def test_options_that_name_nothing_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="profile: "):
        check_spec(job(**options))


def test_only_the_profiled_launch_is_between_the_marks(tmp_path: Path) -> None:
    events, shared = judged_in_room(job(), tmp_path)

    assert cases(events) == [(1, "accepted")]
    told = room_told(events)
    assert told["clean_room"]["replayed"]
    assert told["data_bytes"] == 2 * 16 * 8
    kinds = [each[0] for each in shared.log]
    # The clock is not tried: under a profiler it would be slow, and nothing is timed.
    assert kinds.count("profile") == 1
    assert not {"fire", "empty", "launch"} & set(kinds)


def test_what_cannot_be_captured_is_left_to_a_run_by_calls(tmp_path: Path) -> None:
    class Waits(FakeHands):
        def capture(self, _calls: Any) -> Any:
            raise NotReplayed(WhyNot.WAITS)

    events, _ = judged_in_room(job(), tmp_path, hands=Waits)

    assert not cases(events)
    assert room_told(events)["clean_room"]["reason"] == WhyNot.WAITS.value


def test_a_replay_with_a_wrong_answer_is_not_what_was_profiled(tmp_path: Path) -> None:
    class Idle(FakeEngine):
        def profile(self, _call: tuple[int, int]) -> None:
            """Launch nothing."""

    events, _ = judged_in_room(job(), tmp_path, engine=Idle)

    assert not cases(events)
    assert room_told(events)["clean_room"]["reason"] == WhyNot.STALE.value


def test_a_profile_has_a_timer_and_no_witness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling.AskedCompilers, "_ask", lambda *_given: None)

    def roles(way: ProfileWay) -> tuple[str, ...]:
        spec = dataclasses.replace(job(way=way), backend=Backend.CUDA)
        record = Record(spec, "", lambda _event: None)
        assert captures(spec) == (way is ProfileWay.REPLAYED)
        return standard.StandardRun(spec, b"", tmp_path, record, boxed=False)._roles

    assert roles(ProfileWay.REPLAYED) == (workers.SUBMISSION, workers.TIMER)
    assert roles(ProfileWay.CALLED) == roles(ProfileWay.TRACE) == (workers.SUBMISSION,)


# ncu itself, as far as it can be tried without a GPU

PAGE = """\
==PROF== Connected
"ID","Process Name","Kernel Name","Block Size","Grid Size",{names}
"","","","","",{units}
"0","python3","fma","(256, 1, 1)","(1024, 2, 1)",{values}
"1","python3","void at::add<float>(T1, int)","(128, 1, 1)","(7, 1, 1)",{values}
"""


def page(**changes: str) -> bytes:
    values = {theirs: changes.get(ours, "12.5") for ours, theirs in counters.columns().items()}
    quoted = {name: f'"{text}"' for name, text in values.items()}
    return PAGE.format(
        names=",".join(f'"{name}"' for name in values),
        units=",".join('"unit"' for _ in values),
        values=",".join(quoted.values()),
    ).encode()


def test_the_raw_page_is_read_by_our_names() -> None:
    first, second = counters.read(page(time_ns="1,234.5"), "ncu 9")
    assert (first.name, first.grid, first.block) == ("fma", [1024, 2, 1], [256, 1, 1])
    assert first.counters["time_ns"] == 1234.5
    assert set(first.counters) == set(counters.columns())
    assert second.name.startswith("void at::add")


CUT_OFF = page().rpartition(b',"12.5"')[0].rpartition(b',"(128')[0]
DAMAGED = {
    "not a number": (page(time_ns="nan"), "gives NaN for gpu__time_duration.sum of kernel fma"),
    "nothing": (b"", "has captured no kernel"),
    "no table": (b"==PROF== nothing\n", "has captured no kernel"),
    "no kernel": (page().split(b'"0"')[0], "has captured no kernel"),
    "a line that is cut off": (CUT_OFF, "does not give gpu__time_duration.sum"),
    "an endless name": (
        page().replace(b"fma", b"f" * 200_000),
        "gives a page that cannot be read: field larger",
    ),
    "a carriage return": (page().replace(b'"fma"', b"f\rma"), "gives a page that cannot be read: new-line"),
}


@pytest.mark.parametrize(("content", "why"), DAMAGED.values(), ids=DAMAGED)
def test_a_page_without_counters_is_an_error_with_the_version(content: bytes, why: str) -> None:
    with pytest.raises(counters.UnreadableReport, match=re.escape(f"ncu 2026.2 {why}")):
        counters.read(content, "ncu 2026.2")


def archive(members: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    """A result as a submission that is profiled may write it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as file:
        for name, body in members.items():
            file.writestr(name, body)
    return made.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        lambda: archive({ncu.RAW: os.urandom(999)}, zipfile.ZIP_DEFLATED).replace(b"\x08\x00", b"\x0e\x00"),
        lambda: archive({f"{number}.txt": bytes(1 << 20) for number in range(99)}, zipfile.ZIP_DEFLATED),
        lambda: archive({ncu.RAW: bytes(1 << 26)}, zipfile.ZIP_DEFLATED),
        lambda: archive({"../profile.txt": b"x", "manifest.json": b"{}"}),
        lambda: archive({ncu.RAW: b"page"})[:-1],
    ],
    ids=["damaged", "of many files", "packed", "of other names", "cut off"],
)
def test_a_result_that_was_written_by_a_submission_has_no_files(content: Callable[[], bytes]) -> None:
    tool = ncu.Ncu(ProfileOptions(), "/usr/bin/ncu")
    os.write(tool.fd, content())
    assert tool.result() == {}


def test_forbidden_counters_name_the_operators_line() -> None:
    log = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
    assert "NVreg_RestrictProfilingToAdminUsers=0" in ncu.trouble(log)
    assert ncu.trouble("==ERROR== Failed to prepare kernel\n==PROF== x") == "Failed to prepare kernel"
    assert ncu.trouble("==PROF== Profiling fma: 0%....100%") == ""


def test_options_become_ncus() -> None:
    found = ncu.flags(ProfileOptions(kernel="fma|add", launches=3))
    assert found[found.index("--kernel-name") + 1] == "regex:fma|add"
    assert found[found.index("--launch-count") + 1] == "3"
    assert found[found.index("--clock-control") + 1] == "none"
    assert "--kernel-name" not in ncu.flags(ProfileOptions())


FAKE = """\
#!/bin/sh
# Stands in for ncu: runs what it is given, and leaves a report.
[ "$1" = --version ] && echo "Version 2025.3.1.0 (build 1)" && exit 0
[ "$1" = --import ] && case "$*" in *raw*) cat {page} ;; *) echo "page of $2" ;; esac && exit 0
while [ "$1" != --export ]; do [ "$1" = --log-file ] && echo "{log}" > "$2"; shift; done
[ -n "{report}" ] && echo "a report" > "$2"
shift 2
exec "$@"
"""


def fake_ncu(folder: Path, *, log: str = "==PROF== fine", report: str = "yes") -> str:
    folder.mkdir()
    (folder / "page.csv").write_bytes(page())
    path = folder / "ncu"
    path.write_text(FAKE.format(page=folder / "page.csv", log=log, report=report))
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    folder.chmod(0o755)
    return str(path)


@pytest.mark.dear("it runs a whole job")
@pytest.mark.parametrize("boxed", [pytest.param(False, marks=pytest.mark.jobs), True])
def test_a_process_of_a_job_runs_under_the_profiler_and_its_result_comes_back(
    tmp_path: Path, *, boxed: bool
) -> None:
    if boxed and not sandbox.is_there():
        pytest.skip("no sandbox here")
    spec = quick_spec(HONEST, mode=Mode.TEST, tests=CASES, backend=Backend.CPU)
    record = Record(spec, "", lambda _event: None)
    tool = ncu.Ncu(ProfileOptions(), fake_ncu(tmp_path / "tool"))
    folder = tmp_path / "run"
    folder.mkdir()
    run = standard.StandardRun(
        spec, os.urandom(32), folder, record, boxed=boxed, profiler=(workers.SUBMISSION, tool)
    )
    run.run()

    report = record.report(secret=b"", duration_s=0.0)
    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    files = tool.result()
    assert files[ncu.REPORT] == b"a report\n"
    assert len(counters.read(files[ncu.RAW], counters_run.version_of(files))) == 2
    assert counters_run.version_of(files) == "ncu 2025.3.1.0"


def taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[dict[str, bytes]], **told: Any
) -> Counters:
    """What is told of a profile whose runs leave these files, and say this of the room."""

    class Ran:
        def __init__(
            self, _spec: JobSpec, _secret: bytes, _folder: Path, record: Record, **_more: Any
        ) -> None:
            self._record = record

        def run(self) -> None:
            self._record.environment |= told
            self._record.begin(StageName.PROFILE, 1.0, 1)
            self._record.end(Verdict.ACCEPTED, Reason.NONE, "")

    monkeypatch.setattr(counters_run, "StandardRun", Ran)
    monkeypatch.setattr(ncu, "program", lambda: "/usr/bin/ncu")
    monkeypatch.setattr(ncu.Ncu, "result", lambda _self: files.pop(0))
    return counters_run.CountersRun(job(), b"1" * 32, tmp_path, {"torch": "2"}, boxed=False).run()


def test_a_replayed_call_is_profiled_in_the_timer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = {ncu.RAW: page(), ncu.REPORT: b"report", ncu.VERSION: b"Version 1.2 x\n", ncu.LOG: b"fine"}
    found = taken(tmp_path, monkeypatch, [left], clean_room={"replayed": True}, data_bytes=64)

    assert (found.trouble, found.not_replayed, found.tool) == ("", "", "ncu 1.2")
    assert (found.case, found.data_bytes, len(found.kernels)) == (1, 64.0, 2)
    assert {each.name for each in found.files} == {"profile.ncu-rep", "ncu-raw.csv", "manifest.json"}


def test_what_is_not_replayed_is_profiled_by_calls_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = {ncu.RAW: page(), ncu.REPORT: b"report", ncu.VERSION: b"Version 1.2 x\n"}
    room = {"replayed": False, "reason": "waits", "text": "it waits for the device"}
    found = taken(tmp_path, monkeypatch, [{}, left], clean_room=room)

    assert found.not_replayed == "it waits for the device"
    assert found.options.way is ProfileWay.CALLED
    assert len(found.kernels) == 2


def test_a_machine_without_ncu_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncu, "program", lambda: "")
    found = counters_run.CountersRun(job(), b"", tmp_path, {}, boxed=False).run()
    assert (found.trouble, found.kernels) == (ncu.NO_NCU, [])


def test_a_pattern_that_matches_nothing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = taken(tmp_path, monkeypatch, [{ncu.VERSION: b"Version 1.2 x\n"}], clean_room={"replayed": True})
    assert found.trouble == "ncu 1.2 has captured no kernel"
