"""The stream of a submission: profiles, and all modes of older clients."""

from __future__ import annotations

import base64
import gzip
import io
import json
import zipfile

import httpx
import pytest

from builders import (
    NOT_REPLAYED,
    NOW,
    SUBMISSION,
    make_case,
    make_report,
    make_stage,
    make_task,
    make_wall_report,
)
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.submissions.submissions import show_submission
from kernelcup.app.submissions.withdrawal import cancel_submission
from kernelcup.domain import OPERATOR, JobState, TrustRule
from kernelcup_harness.protocol import CapturedOutput, Mode, StageName, Timing, Verdict
from kernelcup_kernelbot.popcorn import results
from popcorn_client import ApplicationError, PopcornClient, form

CODE = SUBMISSION.encode()
SENT = {"leaderboard": "Double", "gpu": "h100"}
TRACE = b'{"traceEvents": []}'


def profile_report(trace: str | None = base64.b64encode(gzip.compress(TRACE, mtime=0)).decode()):
    """A run of two profiled cases."""
    cases = [
        make_case(None, index=index, profile=f"table {index} µs", trace_gz64=trace if index == 0 else None)
        for index in range(2)
    ]
    return make_report(
        mode=Mode.PROFILE,
        stages=[make_stage(cases, name=StageName.PROFILE)],
        stdout=CapturedOutput(text="hello\n"),
        environment={"device": "NVIDIA H100", "cuda": "13.0", "torch": "2.13.0", "system": "Linux 6"},
    )


def test_a_profile_is_saved_with_its_reports(db, board, waiting_cli, finish, golden) -> None:
    cli = waiting_cli(lambda: finish(profile_report()), *[lambda: None] * 9)
    first, second = cli.profile("kernel.py", CODE, **SENT)
    assert first.profiler == second.profiler == "torch.profiler"
    assert (first.reports, second.reports) == (["table 0 µs"], ["table 1 µs"])
    with zipfile.ZipFile(io.BytesIO(first.archive)) as archive:
        assert archive.read("profile-0.txt").decode() == "table 0 µs"
        assert archive.read("trace-0.json") == TRACE
    with zipfile.ZipFile(io.BytesIO(second.archive)) as archive:
        assert archive.namelist() == ["profile-1.txt"]
    assert cli.printed[0] == "Submission 1 was accepted"
    assert "The run has ended: accepted" in cli.printed
    golden("profile", [each_without_statuses(each) for each in cli.exchanges])


def each_without_statuses(exchange):
    """Leave out what depends on how quick the machine is: all statuses but the first."""
    events = exchange.answer["body"]
    kept = [event for index, event in enumerate(events) if index == 0 or event["event"] != "status"]
    return type(exchange)(request=exchange.request, answer={**exchange.answer, "body": kept})


@pytest.mark.jobs
def test_a_trace_that_is_none_is_left_out(board, waiting_cli, finish) -> None:
    report = profile_report(trace="no trace")
    first, _ = waiting_cli(lambda: finish(report), *[lambda: None] * 9).profile("kernel.py", CODE, **SENT)
    with zipfile.ZipFile(io.BytesIO(first.archive)) as archive:
        assert archive.namelist() == ["profile-0.txt"]


@pytest.mark.parametrize(
    ("mode", "stage", "name"),
    [
        pytest.param(Mode.TEST, StageName.TEST, "test", marks=pytest.mark.jobs),
        pytest.param(Mode.BENCHMARK, StageName.BENCHMARK, "benchmark", marks=pytest.mark.jobs),
        (Mode.LEADERBOARD, StageName.RANKED, "leaderboard"),
    ],
)
def test_older_clients_stream_all_modes(board, waiting_cli, finish, golden, mode, stage, name) -> None:
    report = make_report(
        mode=mode, stages=[make_stage([make_case(2500.0)], name=stage)], stdout=CapturedOutput(text="hi")
    )
    cli = waiting_cli(lambda: finish(report), *[lambda: None] * 9)
    text = cli.submit_and_stay("kernel.py", CODE, **SENT, mode=name)
    assert text.startswith('"**H100 on KernelCup ✅ success**\n> submission 1\n')
    assert "case 0: accepted; size=1024, seed=2; 2.5 µs (2.5 to 2.5)" in text
    golden(f"stream-{name}", [each_without_statuses(each) for each in cli.exchanges])


def test_why_a_score_does_not_rank_is_told(db, board, waiting_cli, finish) -> None:
    update_board(db, OPERATOR, board.name, now=NOW, changes=BoardChanges(trust=TrustRule.REPLAYED))
    report = make_wall_report()
    cli = waiting_cli(lambda: finish(report), *[lambda: None] * 9)
    text = cli.submit_and_stay("kernel.py", CODE, **SENT, mode="leaderboard")
    assert (
        "Not ranked: this leaderboard ranks replayed times only, and this one is by the wall clock." in text
    )
    assert "80 µs (17.11 to 374); overhead 55 µs, self-measured 21 µs, by the wall clock" in text
    assert f"case 0: {NOT_REPLAYED}" in text


def test_figures_of_a_tasks_own_harness_are_told() -> None:
    told = {"mean": 2500.0, "runs": 7.0, "err": 3.0, "best": 2400.0, "worst": 2700.0}
    case = make_case(timing=Timing(samples_ns=[], reported_ns=2500.0, reported=told))
    stage = make_stage([case], name=StageName.BENCHMARK)
    figures = results._figures(stage)
    assert {name: figures[f"benchmark.0.{name}"] for name in told} == {
        "mean": "2500.0",
        "runs": "7",
        "err": "3.0",
        "best": "2400.0",
        "worst": "2700.0",
    }


def test_a_failure_is_a_result_that_says_what_is_wrong(board, waiting_cli, finish) -> None:
    stage = make_stage(
        [make_case(None, verdict=Verdict.RUNTIME_ERROR, message="ZeroDivisionError")],
        name=StageName.PROFILE,
        verdict=Verdict.RUNTIME_ERROR,
    )
    report = make_report(
        mode=Mode.PROFILE, verdict=Verdict.RUNTIME_ERROR, stage=StageName.PROFILE, stages=[stage]
    )
    cli = waiting_cli(lambda: finish(report), *[lambda: None] * 9)
    text = cli.submit_and_stay("kernel.py", CODE, **SENT, mode="profile")
    assert "❌ failure" in text
    assert "runtime_error in stage profile, case 0 (size=1024, seed=2): ZeroDivisionError" in text


def test_a_hidden_case_is_in_no_event(db, board, waiting_cli, finish) -> None:
    cases = [
        make_case(),
        make_case(index=1, hidden=True, parameters={"size": 4711}, message="4711", profile="4711"),
    ]
    for mode, stage in [(Mode.BENCHMARK, StageName.BENCHMARK), (Mode.PROFILE, StageName.PROFILE)]:
        report = make_report(mode=mode, stages=[make_stage(cases, name=stage)])
        cli = waiting_cli(lambda report=report: finish(report), *[lambda: None] * 9)
        cli.submit_and_stay("kernel.py", CODE, **SENT, mode=mode.value)
        assert "4711" not in json.dumps([each.answer for each in cli.exchanges])


def test_a_submission_that_is_cancelled_ends_the_stream_with_an_error(db, board, waiting_cli) -> None:
    steps = [lambda: cancel_submission(db, 1, by=OPERATOR, now=NOW), *[lambda: None] * 9]
    with pytest.raises(ApplicationError, match="Server processing error: H100: cancelled by the operator"):
        waiting_cli(*steps).submit_and_stay("kernel.py", CODE, **SENT, mode="test")


@pytest.mark.jobs
def test_who_goes_away_cancels_nothing(db, board, http, server_url, person, finish) -> None:
    headers, body = form("kernel.py", CODE)
    both = {**headers, "X-Popcorn-Cli-Id": person("ada").token}
    with (
        httpx.Client(base_url=server_url) as away,
        away.stream("POST", "/double/H100/profile", headers=both, content=body) as answer,
    ):
        assert next(answer.iter_text()).startswith("event: status\ndata: ")
    (view,) = show_submission(db, 1).jobs
    assert view.state is JobState.QUEUED
    finish(profile_report())
    (view,) = show_submission(db, 1).jobs
    assert view.state is JobState.DONE


def test_frames_end_as_the_client_expects(board, http, person, finish) -> None:
    headers, body = form("kernel.py", CODE)
    both = {**headers, "X-Popcorn-Cli-Id": person("ada").token}
    raw = ""
    with http.stream("POST", "/double/H100/PROFILE", headers=both, content=body) as answer:
        for count, chunk in enumerate(answer.iter_text()):
            if count == 0:
                finish(profile_report())
            raw += chunk
    assert "\r" not in raw
    frames = raw.removesuffix("\n\n").split("\n\n")
    assert all(frame.startswith("event: ") and frame.count("\n") == 1 for frame in frames)
    assert frames[-1].startswith("event: result\n")


@pytest.mark.jobs
def test_the_task_may_change_while_somebody_stays(db, board, waiting_cli, finish) -> None:
    def change() -> None:
        update_board(db, OPERATOR, "double", now=NOW, task=make_task(description="Twice."))
        finish(profile_report())

    cli: PopcornClient = waiting_cli(change, *[lambda: None] * 9)
    assert cli.profile("kernel.py", CODE, **SENT)
