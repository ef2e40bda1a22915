"""The launcher for GitHub Actions, against GitHub on loopback."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fake_github import REPOSITORY, TOKEN, FakeGitHub, Refused, check_workflow, served
from typer.testing import CliRunner

from builders import make_device, make_spec
from kernelcup.cli.app import app
from kernelcup.config.settings import Config
from kernelcup.errors import BadReport, ConfigError, LaunchError, LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers import installed, outcomes, remote_job
from kernelcup.launchers.base import LaunchResult, limit_s
from kernelcup.launchers.bundle import harness_hash, write_bundle
from kernelcup_github import launcher
from kernelcup_github.api import GitHubApi
from kernelcup_github.deploy import write_into
from kernelcup_github.launcher import GitHubLauncher, minutes
from kernelcup_harness.protocol import (
    Backend,
    JobSpec,
    KeptBinary,
    KeptFile,
    Mode,
    SandboxPolicy,
    SourceTree,
    Verdict,
    from_json,
    to_json,
)
from launcher_conformance import LauncherConformance, make_order, report_for

DEVICE = make_device(name="MI300", backend=Backend.EMULATED, slots=2, launcher="github")


class GitHubBench:
    """GitHub on loopback, whose runners do what tests say."""

    joins = False
    live = False

    def __init__(self, github: FakeGitHub, monkeypatch: pytest.MonkeyPatch) -> None:
        self.github, self.monkeypatch = github, monkeypatch
        self.harness = harness_hash()
        self.events: dict[str, list[object]] = {}
        self.launcher = self.restarted()

    def restarted(self, *, ask_every_s: float = 0.0, token: str = TOKEN) -> GitHubLauncher:
        api = GitHubApi(
            token=token, repository=REPOSITORY, url=self.github.url, clock=lambda: self.github.now_s
        )
        runners = dict.fromkeys(("MI300", "H100", "T4"), "box")
        self.launcher = GitHubLauncher(api, runners, ask_every_s=ask_every_s, clock=lambda: self.github.now_s)
        return self.launcher

    def run(self, call: str):
        return self.github.runs[int(call)]

    def begun(self, call: str) -> None:
        self.run(call).status = "in_progress"

    def tell(self, call: str, event: object) -> None:
        self.events.setdefault(call, []).append(event)

    def report(self, call: str, report: object) -> None:
        outcome = {"report": report, "harness": self.harness, "unfit": None, "facts": None}
        self.end(call, {**outcome, "events": self.events.get(call, [])})

    come_back = report

    def end(self, call: str, outcome: dict[str, object]) -> None:
        self.github.upload(self.run(call), json.dumps(outcome))
        self.run(call).end("success")

    def use_harness(self, harness: str) -> None:
        self.harness = harness

    def report_too_much(self, call: str) -> None:
        self.monkeypatch.setattr(outcomes, "LARGEST_REPORT_BYTES", 2000)
        self.report(call, {"message": "x" * 5000})

    def lose(self, call: str) -> None:
        self.run(call).end("cancelled")

    def pass_time(self, seconds: float) -> None:
        self.github.now_s += seconds
        self.github.end_overdue()
        for run in list(self.github.runs.values()):
            job = remote_job.unpack(run.inputs["job"])
            if run.status != "completed" and self.github.now_s - run.began_s > job["limit_s"]:
                self.end(str(run.id), remote_job.failed("LaunchTimeout", "as remote_job.py does"))

    def set_clock_off(self, seconds: float) -> None:
        """No time of the day is read."""

    def is_running(self, call: str) -> bool:
        return self.run(call).status != "completed"

    def engine_limit_s(self, spec) -> float:
        return 60 * minutes(spec)

    def join(self, name: str) -> str:
        raise NotImplementedError


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    write_into(folder)
    return folder


@pytest.fixture
def bench(repository: Path, monkeypatch: pytest.MonkeyPatch):
    with served(FakeGitHub(repository)) as github:
        yield GitHubBench(github, monkeypatch)


class TestGitHub(LauncherConformance):
    """GitHub obeys the rules of all launchers."""


def outcome_of(bench: GitHubBench, call: str):
    return bench.launcher.poll([call])[call].outcome


def begin(bench: GitHubBench, **overrides):
    order = make_order(DEVICE, **overrides)
    return order, bench.launcher.start(order, wake=lambda: None)


def judged(bench: GitHubBench, repository: Path, code: str):
    """Judge a submission by the workflow, unchanged, with the harness of the repository."""
    bench.github.carries_out = True
    spec = make_spec(
        mode=Mode.TEST, submission=SourceTree(entry="submission.py", files={"submission.py": code})
    )
    order = make_order(DEVICE)
    object.__setattr__(order, "spec", spec)
    call = bench.launcher.start(order, wake=lambda: None)
    bench.github.join()
    found = bench.launcher.poll([call])[call]
    assert isinstance(found.outcome, LaunchResult), (found.outcome, bench.run(call).log)
    return found


def test_the_workflow_judges_a_right_submission(bench, repository: Path) -> None:
    found = judged(bench, repository, "def custom_kernel(data):\n    return data * 2\n")
    assert found.outcome.report.verdict is Verdict.ACCEPTED, found.outcome.report
    assert (found.machine, found.outcome.harness_hash) == ("github-MI300", harness_hash())
    assert {"event"} <= found.events[0].keys()


@pytest.mark.jobs
def test_the_workflow_refuses_a_wrong_submission(bench, repository: Path) -> None:
    found = judged(bench, repository, "def custom_kernel(data):\n    return data * 3\n")
    assert found.outcome.report.verdict is Verdict.WRONG_ANSWER


def test_a_submission_sees_no_token_of_the_runner(bench, repository: Path) -> None:
    code = f"""\
import os
import subprocess
import sys

def custom_kernel(data):
    seen = "".join(os.environ.values()) + open("/proc/self/environ").read()
    return data * (3 if {TOKEN!r} in seen else 2)
"""
    assert judged(bench, repository, code).outcome.report.verdict is Verdict.ACCEPTED


def test_another_harness_than_the_named_one_does_not_judge(bench, repository: Path) -> None:
    bundle = (repository / f".kernelcup/{harness_hash()}.zip").read_bytes()
    found = remote_job.judge({"harness": "0" * 64, "spec": {}, "limit_s": 1}, bundle)
    assert found["error"] == "BadReport"


def test_a_harness_that_was_not_pushed_is_named(bench, repository: Path) -> None:
    bench.github.carries_out = True
    (repository / f".kernelcup/{harness_hash()}.zip").unlink()
    _, call = begin(bench)
    bench.github.join()
    assert "`kernelcup runner deploy` again, and push" in str(outcome_of(bench, call))


def test_harnesses_of_earlier_versions_stay_in_the_repository(repository: Path) -> None:
    old = repository / ".kernelcup/old.zip"
    old.write_bytes(b"yesterday's")
    write_into(repository)
    assert old.read_bytes() == b"yesterday's"


def test_the_command_writes_what_the_repository_needs(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["runner", "deploy", "github", str(tmp_path)])
    files = [
        ".github/workflows/kernelcup.yml",
        ".kernelcup/remote_job.py",
        f".kernelcup/{harness_hash()}.zip",
    ]
    assert (done.exit_code, done.stdout.splitlines()) == (0, files)
    assert all((tmp_path / name).is_file() for name in files)
    without = CliRunner().invoke(app, ["runner", "deploy", "github"])
    assert "expected a checkout" in str(without.exception)


def test_the_travelling_file_computes_the_same_hash() -> None:
    from kernelcup.launchers.bundle import PACKAGE

    assert remote_job.harness_hash(PACKAGE) == harness_hash()


def test_a_harness_that_writes_nothing_is_a_bad_report() -> None:
    assert remote_job.read(b"", "it died", 9)["error"] == "BadReport"
    assert remote_job.read(b"no json", "", 0)["error"] == "BadReport"
    assert remote_job.read(b"[1]\n3\n", "", 0)["error"] == "BadReport"
    twice = b'{"report": 1}\n{"report": 2}\n'
    assert remote_job.read(twice, "", 0)["error"] == "BadReport"


def test_a_harness_that_does_not_end_is_killed_at_its_limit(tmp_path: Path) -> None:
    package = tmp_path / "kernelcup_harness"
    package.mkdir()
    noted = tmp_path / "pid"
    text = f"import os, signal\nopen({str(noted)!r}, 'w').write(str(os.getpid()))\nsignal.pause()\n"
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(text)
    found = write_bundle(tmp_path / "harness.zip", package)
    order = {"harness": found, "spec": {}, "limit_s": 2.0}
    outcome = remote_job.judge(order, (tmp_path / "harness.zip").read_bytes())
    assert outcome["error"] == "LaunchTimeout"
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)


def test_a_job_that_is_too_large_is_refused_before_it_is_sent(bench) -> None:
    noise = "".join(chr(0x4E00 + number * 7919 % 20000) for number in range(60_000))
    tree = SourceTree(entry="submission.py", files={"submission.py": f"# {noise}"})
    with pytest.raises(LaunchError, match="GitHub takes 65,535"):
        begin(bench, submission=tree)
    assert bench.github.runs == {}


def test_an_older_server_is_named_as_the_cause(bench) -> None:
    bench.github.knows_run_details = False
    with pytest.raises(LaunchError, match="enterprise server has to be newer"):
        begin(bench)


def test_a_public_repository_gets_no_job(bench) -> None:
    bench.github.private = False
    with pytest.raises(LaunchError, match="make it private"):
        begin(bench)


def test_a_void_token_is_named_as_the_cause(bench) -> None:
    bench.restarted(token="void")
    with pytest.raises(LaunchError, match=r"401: .*Bad credentials"):
        begin(bench)


def test_a_run_whose_dispatch_was_not_answered_is_cancelled(bench) -> None:
    bench.launcher.capacity(DEVICE)
    bench.github.loses_answers = True
    bench.launcher._ask_every_s, bench.launcher._ask_at = 5.0, 5.0
    with pytest.raises(LaunchError, match="does not answer"):
        begin(bench)
    bench.github.loses_answers = False
    (run,) = bench.github.runs.values()
    bench.github.now_s += 5
    bench.launcher.capacity(DEVICE)
    assert run.conclusion == "cancelled"


def test_a_limit_of_requests_is_obeyed(bench) -> None:
    bench.github.limited = 1
    with pytest.raises(LaunchError, match="403"):
        bench.launcher.capacity(DEVICE)
    asked = len(bench.github.asked)
    with pytest.raises(LaunchError, match="another 30 s"):
        bench.launcher.capacity(DEVICE)
    assert len(bench.github.asked) == asked
    bench.github.now_s += 30
    assert bench.launcher.capacity(DEVICE) == 2


def test_many_calls_cost_one_request_in_ten_seconds(bench) -> None:
    launcher = bench.restarted(ask_every_s=10)
    device = make_device(name="MI300", backend=Backend.EMULATED, slots=100, launcher="github")
    calls = [launcher.start(make_order(device), wake=lambda: None) for _ in range(10)]
    bench.github.now_s += 10
    asked = len(bench.github.asked)
    for _ in range(20):
        launcher.poll(calls)
        launcher.capacity(device)
    assert len(bench.github.asked) == asked + 1


def test_a_run_beyond_the_newest_page_is_asked_for_by_its_id(bench) -> None:
    bench.github.page = 2
    order, call = begin(bench)
    device = make_device(name="T4", backend=Backend.EMULATED, slots=200, launcher="github")
    for _ in range(3):
        bench.launcher.start(make_order(device), wake=lambda: None)
    assert outcome_of(bench, call) is None
    bench.report(call, report_for(order))
    assert isinstance(outcome_of(bench, call), LaunchResult)


def test_a_report_that_cannot_be_fetched_now_holds_up_no_other(bench) -> None:
    launcher = bench.restarted(ask_every_s=10)
    first, second = begin(bench), begin(bench)
    for order, call in (first, second):
        bench.report(call, report_for(order))
    bench.run(first[1]).artifact, kept = b"", bench.run(first[1]).artifact
    calls = [first[1], second[1]]
    bench.github.now_s += 10
    launcher._look()
    bench.github.limited, send = 0, launcher._api.outcome

    def outcome(number: int):
        if str(number) == first[1] and bench.github.now_s < 25:
            raise LaunchError("503")
        return send(number)

    launcher._api.outcome = outcome
    assert launcher.poll(calls) == {}
    assert isinstance(launcher.poll(calls)[second[1]].outcome, LaunchResult)
    bench.run(first[1]).artifact = kept
    bench.github.now_s += 20
    assert isinstance(launcher.poll(calls)[first[1]].outcome, LaunchResult)


@pytest.mark.parametrize(
    ("conclusion", "kind"),
    [
        ("timed_out", LaunchTimeout),
        ("failure", LaunchError),
        ("cancelled", LaunchLost),
        ("stale", LaunchLost),
    ],
)
def test_a_run_without_a_report_says_how_it_ended(bench, conclusion: str, kind: type) -> None:
    _, call = begin(bench)
    bench.run(call).end(conclusion)
    outcome = outcome_of(bench, call)
    assert type(outcome) is kind
    assert conclusion in str(outcome)


def test_a_run_that_somebody_started_again_is_lost(bench) -> None:
    order, call = begin(bench)
    bench.run(call).attempt = 2
    bench.report(call, report_for(order))
    assert "ran it again" in str(outcome_of(bench, call))


def test_a_foreign_run_is_not_ours(bench) -> None:
    _, call = begin(bench)
    bench.run(call).title = "somebody's own run"
    assert isinstance(outcome_of(bench.restarted() and bench, call), LaunchLost)


def test_an_artifact_that_unpacks_to_too_much_is_refused(bench, monkeypatch) -> None:
    _, call = begin(bench)
    monkeypatch.setattr(outcomes, "LARGEST_REPORT_BYTES", 5000)
    bench.report(call, {"message": "x" * 50_000})
    assert 0 < len(bench.run(call).artifact) < 5000
    assert "more than 5,000 bytes" in str(outcome_of(bench, call))


def test_an_artifact_that_is_no_zip_is_a_bad_report(bench) -> None:
    order, call = begin(bench)
    bench.report(call, report_for(order))
    bench.run(call).artifact = b"no zip"
    assert isinstance(outcome_of(bench, call), BadReport)


def test_full_runners_and_forbidden_machines_take_no_job(bench) -> None:
    order = make_order(DEVICE)
    object.__setattr__(order, "machines", frozenset({"elsewhere"}))
    with pytest.raises(NoRoom):
        bench.launcher.start(order, wake=lambda: None)
    begin(bench), begin(bench)
    with pytest.raises(NoRoom):
        begin(bench)


def test_a_ranked_job_needs_a_sandbox_there(bench) -> None:
    _, call = begin(bench, mode=Mode.LEADERBOARD)
    spec = remote_job.unpack(bench.run(call).inputs["job"])["spec"]
    assert spec["sandbox"] == SandboxPolicy.REQUIRED.value


def test_the_limit_of_a_job_travels_with_it(bench) -> None:
    order, call = begin(bench)
    assert remote_job.unpack(bench.run(call).inputs["job"])["limit_s"] == limit_s(order.spec)
    assert remote_job.unpack(bench.run(call).inputs["job"])["spec"] == to_json(order.spec)


SECTION = f'[launchers.github]\nrepository = "{REPOSITORY}"\n[launchers.github.runners]\nMI300 = "amd"\n'
ONE = '[[devices]]\nname = "MI300"\nbackend = "cuda"\nlauncher = "github"\n'


@pytest.mark.parametrize(
    ("text", "token", "cause"),
    [
        (ONE, TOKEN, "expected repository"),
        (ONE + SECTION.replace("repository", "repo"), TOKEN, "expected repository"),
        (ONE + SECTION.replace("MI300", "MI250"), TOKEN, "expected MI300"),
        (ONE + SECTION, "", "KERNELCUP_GITHUB_TOKEN"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, text: str, token: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        made(tmp_path, text, token)


def test_the_launcher_is_installed_under_its_name(tmp_path: Path) -> None:
    assert isinstance(made(tmp_path, ONE + SECTION, TOKEN), GitHubLauncher)


def made(folder: Path, text: str, token: str):
    (folder / "kernelcup.toml").write_text(text)
    environ = {"KERNELCUP_HOME": str(folder), "KERNELCUP_GITHUB_TOKEN": token}
    return installed.make("github", Config.load(folder / "kernelcup.toml", environ))


def follows_the_schema(repository: Path) -> bool:
    """Return whether the workflow follows the schema that is published for GitHub's workflows."""
    file = repository / ".github/workflows/kernelcup.yml"
    command = ["check_jsonschema", "--builtin-schema", "vendor.github-workflows", str(file)]
    return subprocess.run([sys.executable, "-m", *command], capture_output=True, check=False).returncode == 0


@pytest.mark.jobs
def test_the_deployed_workflow_follows_the_published_schema(repository: Path) -> None:
    assert follows_the_schema(repository)
    change(repository, "    runs-on:", "    runs-at:")
    assert not follows_the_schema(repository)


def change(repository: Path, old: str, new: str) -> None:
    file = repository / ".github/workflows/kernelcup.yml"
    assert old in file.read_text()
    file.write_text(file.read_text().replace(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("workflow_dispatch", "push"),
        ("        type: string\n", "        type: text\n"),
        ("    runs-on:", "    runs-at:"),
        ("        run: python3", "        uses: actions/checkout@v4\n        run: python3"),
        ('"$GITHUB_EVENT_PATH"', "${{ inputs.job }}"),
        ("contents: read", "contents: write"),
        ("persist-credentials: false", "persist-credentials: true"),
        ("actions/upload-artifact@v4", "somebody/upload@v4"),
        ("permissions:", "rights:"),
        ("        if: runner", "        when: runner"),
        ("    timeout-minutes:", "    timeout:"),
    ],
)
def test_github_refuses_a_workflow_that_breaks_its_rules(bench, repository, old: str, new: str) -> None:
    change(repository, old, new)
    with pytest.raises(Refused):
        check_workflow(bench.github.workflow())
    with pytest.raises(LaunchError, match="422"):
        begin(bench)


def test_kept_binaries_that_are_too_large_stay_here_and_the_job_says_why() -> None:
    noise = base64.b64encode(os.urandom(60_000)).decode()
    files = [KeptFile(name="binary.kcgraph", nbytes=1, sha256="0" * 64, gz64=noise)]
    binary = KeptBinary(run=3, device="H100", files=files)
    sent = remote_job.unpack(launcher.packed(make_spec(binary=binary, rival_binary=None), "f" * 64))
    assert from_json(JobSpec, sent["spec"]).binary == KeptBinary(run=3, why=launcher.TOO_LARGE)
    small = replace(binary, files=[replace(files[0], gz64=noise[:400])])
    sent = remote_job.unpack(launcher.packed(make_spec(binary=small), "f" * 64))
    assert from_json(JobSpec, sent["spec"]).binary == small
