"""A task's own ``eval.py``, run as its author wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from harness_runs import Finished, own_spec, run

from kernelcup.app.submissions.redaction import WITHHELD, redact
from kernelcup_harness.protocol import (
    CapturedOutput,
    Limits,
    Mode,
    Reason,
    SandboxPolicy,
    SourceTree,
    StageName,
    Timing,
    TrustLevel,
    Verdict,
    dumps,
)
from kernelcup_harness.run.task_harness import case_line, joined
from kernelcup_harness.run.task_harness_results import decoded_report, number

# `say` writes a result line, `mode` and `cases` are the arguments.
PRELUDE = """\
import json, os, signal, sys
pipe = int(os.environ["POPCORN_FD"])
mode, cases = sys.argv[1], open(sys.argv[2]).read()
def say(key, value):
    data = f"{key}: {value}\\n".encode()
    while data:
        data = data[os.write(pipe, data):]
"""


def own(body: str, **overrides: Any) -> Finished:
    return run(own_spec(PRELUDE + body, **overrides))


PROBE = """
say(f"{mode}-argv", json.dumps(sys.argv))
say(f"{mode}-cases", json.dumps(cases))
say(f"{mode}-seed", os.environ.get("POPCORN_SEED"))
say(f"{mode}-files", json.dumps(sorted(os.listdir("."))))
say(f"{mode}-environment", json.dumps(sorted(os.environ)))
say("test-count", 1)
for place, _ in enumerate(cases.splitlines()):
    family = "test" if mode == "test" else "benchmark"
    say(f"{family}.{place}.status", "pass")
    if mode != "test":
        say(f"benchmark.{place}.runs", 3)
        say(f"benchmark.{place}.mean", 1500.5)
        say(f"benchmark.{place}.err", "nan")
say("check", "pass")
open("left-behind.txt", "w")
try:
    open("eval.py", "w").write("raise SystemExit(42)")
except OSError:
    pass  # the sandbox's files are read-only
print("printed in", mode)
"""

BENCHMARKS = [{"size": 1, "deep": True, "name": "a: b"}, {"size": 2, "deep": False, "list": [1, 2]}]


@pytest.fixture(scope="module")
def ranked() -> Finished:
    """A ranked run whose harness says what it sees, and rewrites itself."""
    return own(PROBE, mode=Mode.LEADERBOARD, benchmarks=BENCHMARKS, hidden_tests=[{"size": 7}])


def test_a_ranked_run_has_a_test_and_a_ranked_stage(ranked: Finished) -> None:
    report = ranked.report
    assert (report.verdict, report.trust, report.exit_code) == (Verdict.ACCEPTED, TrustLevel.SELF_MEASURED, 0)
    assert [stage.name for stage in report.stages] == [StageName.TEST, StageName.RANKED]
    (case,) = report.stages[1].cases
    assert (case.timing.reported_ns, case.timing.reported) == (1500.5, {"runs": 3.0})
    assert [each.hidden for each in report.stages[0].cases] == [False, True]


def test_each_stage_has_mode_cases_and_seed_of_its_own_and_new_files(ranked: Finished) -> None:
    """The harness rewrote itself in the first stage: the second would have ended with 42."""
    report = ranked.report
    main, mode, _cases = json.loads(report.extra["test-argv"])
    assert (main, mode) == ("eval.py", "test")
    assert report.stdout.text == "printed in test\nprinted in leaderboard\n"
    assert json.loads(report.extra["test-cases"]) == "size: 16; seed: 1\n"
    # By default the last benchmark alone ranks.
    assert json.loads(report.extra["leaderboard-cases"]) == "size: 2; deep: False; list: [1, 2]\n"
    assert (report.stages[1].cases[0].index, report.stages[1].planned_cases) == (1, 1)
    assert report.extra["test-seed"] == "None"
    assert 0 <= int(report.extra["leaderboard-seed"]) < 2**31
    assert json.loads(report.extra["leaderboard-files"]) == ["eval.py", "submission.py"]


def test_the_environment_of_the_harness_has_no_secret(ranked: Finished) -> None:
    names = set(json.loads(ranked.report.extra["test-environment"]))
    assert "POPCORN_FD" in names
    assert not {name for name in names if "SECRET" in name or "TOKEN" in name or name == "POPCORN_SEED"}


TELLS = """
size = max(int(line.split()[1].strip(";")) for line in cases.splitlines())
family = "test" if mode == "test" else "benchmark"
for place, _ in enumerate(cases.splitlines()):
    say(f"{family}.{place}.status", "pass")
    say(f"{family}.{place}.message", f"size {size}")
    if mode != "test":
        for name in ("std", "err", "best", "worst"):
            say(f"benchmark.{place}.{name}", size)
        say(f"benchmark.{place}.mean", size + 0.123456)
        say(f"benchmark.{place}.report", "c2l6ZQ==")
say(f"{mode}-size", size)
say("check", "pass")
print(size)
"""
PUBLIC, HIDDEN = 31, 7654321


def test_a_process_that_meets_hidden_cases_says_nothing_of_them_to_the_author() -> None:
    cases = {"tests": [{"size": PUBLIC}], "benchmarks": [{"size": PUBLIC}]}
    cases |= {"hidden_tests": [{"size": HIDDEN}], "hidden_benchmarks": [{"size": HIDDEN}]}
    report = own(TELLS, mode=Mode.LEADERBOARD, ranking_by="geom", **cases).report
    assert (report.verdict, report.message) == (Verdict.ACCEPTED, "")
    assert [(stage.name, stage.planned_cases) for stage in report.stages] == [
        (StageName.TEST, 2),
        (StageName.RANKED, 2),
    ]
    public, hidden = report.stages[1].cases
    assert (public.hidden, public.met_hidden, hidden.hidden, hidden.met_hidden) == (False, False, True, True)
    # Its score has four digits of what it wrote, and who manages the leaderboard reads the rest.
    assert hidden.timing == Timing(samples_ns=[], reported_ns=7654000.0)
    assert str(HIDDEN) in hidden.message
    shown = redact(report, sees_all=False)
    assert str(HIDDEN) not in dumps(shown)
    assert "7654" not in dumps(shown)
    # Of public cases their author reads all that an honest harness says of them.
    test, timed = (stage.cases[0] for stage in shown.stages)
    assert test.message == f"size {PUBLIC}"
    assert timed.timing.reported == dict.fromkeys(("std", "err", "best", "worst"), float(PUBLIC))
    assert (timed.timing.reported_ns, timed.profile) == (PUBLIC + 0.123456, "size")


def test_public_cases_that_fail_end_the_run_before_a_hidden_one_and_their_text_is_shown() -> None:
    body = "say('check', 'fail')\nsay('error', f'wrong for {cases}')\n"
    report = own(body, mode=Mode.LEADERBOARD, hidden_tests=[{"size": HIDDEN}]).report
    (stage,) = redact(report, sees_all=False).stages
    assert (stage.verdict, stage.met_hidden) == (Verdict.WRONG_ANSWER, False)
    assert stage.message.startswith("wrong for size: 16")
    assert str(HIDDEN) not in dumps(report)


def test_a_hidden_case_that_fails_shows_its_verdict_only() -> None:
    body = f"fails = '{HIDDEN}' in cases\nsay('test.0.status', 'fail' if fails else 'pass')\n"
    body += "say('test.0.error', cases)\nsay('check', 'fail' if fails else 'pass')\nprint(cases)\n"
    report = own(body, mode=Mode.LEADERBOARD, benchmarks=[], hidden_tests=[{"size": HIDDEN}]).report
    shown = redact(report, sees_all=False)
    assert (shown.verdict, shown.message) == (Verdict.WRONG_ANSWER, WITHHELD)
    assert [(case.verdict, case.message) for case in shown.stages[0].cases if case.hidden] == [
        (Verdict.WRONG_ANSWER, "")
    ]
    assert str(HIDDEN) in report.message
    assert str(HIDDEN) not in dumps(shown)


@pytest.mark.jobs
def test_the_tasks_own_seed_is_given_outside_the_ranked_stage() -> None:
    report = own(PROBE, mode=Mode.LEADERBOARD, public_seed=77).report
    assert report.extra["test-seed"] == "77"
    assert report.extra["leaderboard-seed"] != "77"


@pytest.mark.jobs
def test_other_rankings_send_all_benchmarks() -> None:
    report = own(PROBE, mode=Mode.BENCHMARK, benchmarks=BENCHMARKS, ranking_by="geom").report
    assert json.loads(report.extra["benchmark-cases"]).count("\n") == 2
    assert [case.index for case in report.stages[0].cases] == [0, 1]


@pytest.mark.jobs
def test_profiles_are_taken_one_benchmark_at_a_time() -> None:
    body = PROBE + "\nimport base64\nsay('benchmark.0.report', base64.b64encode(cases.encode()).decode())"
    report = own(body, mode=Mode.PROFILE, benchmarks=BENCHMARKS, ranking_by="mean").report
    assert [case.profile for case in report.stages[0].cases] == [
        "size: 1; deep: True; name: a: b\n",
        "size: 2; deep: False; list: [1, 2]\n",
    ]


@pytest.mark.jobs
def test_results_beyond_the_pipes_buffer_do_not_block() -> None:
    body = "say('test.0.status', 'fail')\nsay('test.0.error', 'x' * 300_000)\n"
    body += "say('test.0.status', 'pass')\nsay('test.0.message', 'a: b: c\\\\nd')\n"
    body += "say('other', 'y' * 100_000)\nsay('check', 'fail')\nsay('check', 'pass')\n"
    body += "os.write(pipe, b'no colon here\\n\\xff: \\xff\\nlast: without a line break')"
    report = own(body).report
    assert report.verdict is Verdict.ACCEPTED  # of two lines with one key the last counts
    assert report.stages[0].cases[0].message == "a: b: c\nd"
    assert len(report.extra["other"]) == 4096
    assert report.extra["last"] == "without a line break"


@pytest.mark.jobs
def test_a_value_with_an_odd_line_break_is_one_value() -> None:
    """Only a line feed ends a line: form feeds and the like occur in the texts of errors."""
    body = "say('test.0.status', 'fail')\n"
    body += "say('test.0.error', 'first\\x0ctest.0.status: pass\\u2028check: pass')\nsay('check', 'fail')"
    report = own(body).report
    assert report.verdict is Verdict.WRONG_ANSWER
    assert report.stages[0].cases[0].message.startswith("first")
    assert report.stages[0].cases[0].verdict is Verdict.WRONG_ANSWER


@pytest.mark.jobs
def test_what_arrived_before_the_time_limit_counts() -> None:
    body = "say('test.0.status', 'pass')\nsignal.pause()"
    report = own(body, tests=[{"size": 1}, {"size": 2}], limits=Limits(test_s=10.0)).report
    assert report.verdict is Verdict.TIME_LIMIT_EXCEEDED
    (stage,) = report.stages
    assert [case.verdict for case in stage.cases] == [Verdict.ACCEPTED]
    assert stage.planned_cases == 2


@pytest.mark.jobs
def test_too_long_results_end_the_run() -> None:
    report = own("while True: say('key', 'x' * 1_000_000)").report
    assert report.verdict is Verdict.OUTPUT_LIMIT_EXCEEDED


@pytest.mark.jobs
@pytest.mark.parametrize(
    ("how", "verdict"),
    [
        ("sys.exit(2)", Verdict.INTERNAL_ERROR),
        ("sys.exit(110)", Verdict.RUNTIME_ERROR),
        ("sys.exit(111)", Verdict.REJECTED),
        ("sys.exit(112)", Verdict.WRONG_ANSWER),
        ("sys.exit(113)", Verdict.INTERNAL_ERROR),
        ("sys.exit(114)", Verdict.TIME_LIMIT_EXCEEDED),
        ("sys.exit(7)", Verdict.INTERNAL_ERROR),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Verdict.INTERNAL_ERROR),
        ("raise ValueError('told on standard error')", Verdict.INTERNAL_ERROR),
        ("1 +", Verdict.INTERNAL_ERROR),
        ("assert not 'wrong', 'off by one'", Verdict.INTERNAL_ERROR),
        ("raise RuntimeError('CUDA error: an illegal memory access')", Verdict.INTERNAL_ERROR),
        ("import submission; submission.missing", Verdict.INTERNAL_ERROR),
        ("say('test.0.status', 'fail'); say('test.0.error', 'off by one'); [][1]", Verdict.WRONG_ANSWER),
        ("say('check', 'fail')", Verdict.WRONG_ANSWER),
        ("say('error', 'what was wrong')", Verdict.WRONG_ANSWER),
        ("pass", Verdict.INTERNAL_ERROR),
    ],
)
def test_the_end_of_the_harness_says_what_happened(how: str, verdict: Verdict) -> None:
    report = own(how).report
    assert report.verdict is verdict
    assert report.message


@pytest.mark.jobs
def test_a_crash_inside_the_tasks_own_harness_is_the_tasks_fault() -> None:
    report = own("say('test.0.status', 'pass')\ndef statistics():\n    return [].pop()\nstatistics()").report
    assert (report.verdict, report.reason) == (Verdict.INTERNAL_ERROR, Reason.TASK)
    text = "the harness ended with exit code 1, at eval.py:10: without the submission, too"
    assert report.message == f"{text}\nIndexError: pop from empty list"


@pytest.mark.jobs
def test_a_crash_that_passes_through_the_submission_is_the_submissions() -> None:
    body = "import submission\nsubmission.custom_kernel(lambda: [].pop())"
    report = own(body, submission="def custom_kernel(data):\n    return data()\n").report
    assert report.verdict is Verdict.RUNTIME_ERROR


@pytest.mark.jobs
def test_a_submission_of_several_files_is_judged_by_the_tasks_own_harness() -> None:
    tree = SourceTree(
        entry="submission.py", files={"submission.py": "from helper import x\n", "helper.py": "x = 5\n"}
    )
    body = "import submission\nsay('test.0.status', 'pass' if submission.x == 5 else 'fail')\nsay('check', 'pass')"
    assert own(body, submission=tree).report.verdict is Verdict.ACCEPTED


@pytest.mark.jobs
@pytest.mark.parametrize("name", ["random.py", "torch/__init__.py", "re/a.cuh"])
def test_a_file_that_would_hide_a_module_from_the_tasks_own_harness_is_refused(name: str) -> None:
    tree = SourceTree(entry="submission.py", files={"submission.py": "", name: ""})
    report = own("say('test.0.status', 'pass')\nsay('check', 'pass')", submission=tree).report
    assert (report.verdict, report.reason) == (Verdict.COMPILE_ERROR, Reason.COMPILE)
    assert "would hide the module" in report.message


@pytest.mark.jobs
@pytest.mark.parametrize("code", [2, 113])
def test_a_submission_that_ends_the_harness_in_its_name_before_the_first_case_is_to_blame(code: int) -> None:
    body = "import submission\nsay('test.0.status', 'pass')\nsay('check', 'pass')"
    report = own(body, submission=f"import os\nos._exit({code})").report
    assert report.verdict is Verdict.RUNTIME_ERROR
    assert report.reason is Reason.UNDECIDED
    assert f"(exit code {code}); it cannot be told whether" in report.message


@pytest.mark.jobs
@pytest.mark.parametrize("mean", ["-5.0", "0.0", "0"])
def test_a_time_that_is_none_does_not_count(mean: str) -> None:
    body = f"say('benchmark.0.status', 'pass')\nsay('benchmark.0.mean', {mean!r})\nsay('check', 'pass')"
    report = own(body, mode=Mode.BENCHMARK).report
    timings = [case.timing for stage in report.stages for case in stage.cases]
    assert report.verdict is not Verdict.ACCEPTED or timings == [None]


@pytest.mark.jobs
def test_a_stage_of_which_no_case_was_reported_is_not_accepted() -> None:
    """A submission may say that the check passed and end the process, before anything was run."""
    report = own("say('check', 'pass')\nos._exit(0)", mode=Mode.BENCHMARK).report
    assert report.verdict is not Verdict.ACCEPTED


AMBUSH = """
folder = os.path.dirname(os.getcwd())
try:
    {action}
except OSError:
    pass
"""


@pytest.mark.jobs
@pytest.mark.parametrize(
    "action",
    [
        "open(os.path.join(folder, 'own-2'), 'w').close()",
        "os.mkdir(folder + '/own-2'); os.symlink('/etc/passwd', folder + '/own-2/eval.py')",
        "os.mkdir(folder + '/own-2'); open(folder + '/own-2/ambush.py', 'w').close()",
        "[os.symlink('/dev/full', folder + f'/cases-{n}.txt') for n in (2, 3)]",
        "open(folder + '/site/sitecustomize.py', 'w').write('import os; os._exit(5)')",
    ],
)
def test_what_one_stage_prepares_for_the_next_has_no_effect(action: str) -> None:
    """Neither may the harness end without a report: that would look like a broken machine."""
    body = AMBUSH.format(action=action) + PROBE
    report = own(body, mode=Mode.LEADERBOARD, sandbox=SandboxPolicy.NONE).report
    assert report.verdict is Verdict.ACCEPTED, report.message
    assert json.loads(report.extra["leaderboard-files"]) == ["eval.py", "submission.py"]


@pytest.mark.jobs
def test_extensions_that_were_built_beforehand_are_there_in_the_stages() -> None:
    submission = "import os, pathlib  # for load_inline\n"
    submission += "folder = pathlib.Path(os.environ['TORCH_EXTENSIONS_DIR'])\n"
    submission += "folder.mkdir(parents=True, exist_ok=True)\n(folder / 'built.so').touch()\n"
    body = (
        "say('built', os.path.exists(os.environ['TORCH_EXTENSIONS_DIR'] + '/built.so'))\nsay('check', 'pass')"
    )
    body += "\nsay('test.0.status', 'pass')"
    report = own(body, submission=submission).report
    assert report.verdict is Verdict.ACCEPTED
    assert report.extra["built"] == "True"


@pytest.mark.jobs
def test_processes_of_a_multi_gpu_task_can_talk_to_each_other() -> None:
    """torch.distributed and NCCL meet over a local socket."""
    body = "import socket\nserver = socket.create_server(('127.0.0.1', 0))\n"
    body += "client = socket.create_connection(server.getsockname())\n"
    body += "say('gpus', os.environ['POPCORN_GPUS'])\nsay('test.0.status', 'pass')\nsay('check', 'pass')"
    report = own(body, multi_gpu=True).report
    assert report.verdict is Verdict.ACCEPTED, report.message


# Parts


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), ("3", 3.0), (None, None), ("", None), ("fast", None), ("nan", None), ("inf", None)],
)
def test_only_finite_numbers_are_read(text: str | None, value: float | None) -> None:
    assert number(text) == value


def test_a_case_line_writes_truth_values_as_words() -> None:
    assert case_line({"a": True, "b": False, "c": [1, 2], "d": 1.5, "e": "word"}) == (
        "a: True; b: False; c: [1, 2]; d: 1.5; e: word"
    )


def test_a_profile_that_is_not_base64_is_shown_as_it_is() -> None:
    assert decoded_report("SGVsbG8=") == "Hello"
    assert decoded_report("a") == "a"


def test_outputs_are_put_together() -> None:
    first = CapturedOutput(text="a", total_bytes=5, truncated=True)
    assert joined(first, CapturedOutput(text="b", total_bytes=1)) == CapturedOutput(
        text="ab", total_bytes=6, truncated=True
    )
