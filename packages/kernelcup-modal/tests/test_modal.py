"""The launcher for Modal, against a fake of its client and service, and functions of the real client."""

from __future__ import annotations

import base64
import dataclasses
import json
import pickle
import warnings
from pathlib import Path

import pytest
from fake_modal import EXCEPTIONS, FakeModal, InvalidError
from typer.testing import CliRunner

from builders import make_device, make_spec
from kernelcup.cli.app import app
from kernelcup.cli.entry import execute
from kernelcup.config.settings import Config
from kernelcup.errors import BadReport, ConfigError, LaunchError, LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers import installed, outcomes, remote_job
from kernelcup.launchers.base import LaunchResult, limit_s
from kernelcup.launchers.bundle import harness_hash, kept_bundle
from kernelcup_harness.protocol import Backend, Limits, Mode, SourceTree, Verdict, to_json
from kernelcup_modal import launcher
from kernelcup_modal.launcher import ModalLauncher, make_app
from launcher_conformance import LauncherConformance, make_order, report_for

DEVICES = [
    make_device(name=name, backend=Backend.EMULATED, slots=2, launcher="modal") for name in ("H100", "T4")
]
DEVICE = DEVICES[0]


class ModalBench:
    """A fake Modal, whose containers do what tests say."""

    joins = False
    live = False

    def __init__(self, modal: FakeModal, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.modal, self.folder, self.monkeypatch = modal, folder, monkeypatch
        make_app(modal, DEVICES, {}).deploy()
        self.harness = harness_hash()
        self.events: dict[str, list[object]] = {}
        self.launcher = self.restarted()

    def restarted(self, *, ask_every_s: float = 0.0) -> ModalLauncher:
        self.launcher = ModalLauncher(
            self.modal, bundles=self.folder, ask_every_s=ask_every_s, clock=lambda: self.modal.now_s
        )
        return self.launcher

    def call(self, call: str):
        return self.modal.calls[call.partition(":")[2]]

    def begun(self, call: str) -> None:
        assert self.call(call).result is None

    def tell(self, call: str, event: object) -> None:
        self.events.setdefault(call, []).append(event)

    def report(self, call: str, report: object) -> None:
        outcome = {"report": report, "harness": self.harness, "unfit": None, "facts": None}
        self.call(call).end(json.dumps({**outcome, "events": self.events.get(call, [])}))

    come_back = report

    def use_harness(self, harness: str) -> None:
        self.harness = harness

    def report_too_much(self, call: str) -> None:
        self.monkeypatch.setattr(outcomes, "LARGEST_REPORT_BYTES", 2000)
        self.report(call, {"message": "x" * 5000})

    def lose(self, call: str) -> None:
        self.call(call).end(EXCEPTIONS.InternalFailure("the container was lost"))

    def pass_time(self, seconds: float) -> None:
        self.modal.now_s += seconds
        self.modal.end_overdue()
        for call in self.modal.calls.values():
            job = remote_job.unpack(call.arguments[0])
            if self.modal.now_s - call.began_s > job["limit_s"]:
                call.end(json.dumps(remote_job.failed("LaunchTimeout", "as remote_job.py does")))

    def set_clock_off(self, seconds: float) -> None:
        """No time of the day is read."""

    def is_running(self, call: str) -> bool:
        return self.call(call).result is None

    def engine_limit_s(self, spec) -> float:
        try:
            order = dataclasses.replace(make_order(DEVICE), spec=spec)
            return self.call(self.restarted().start(order, wake=lambda: None)).timeout_s
        except LaunchError:
            assert limit_s(spec) > launcher.TIMEOUT_S - 600  # it is never sent
            return float("inf")

    def join(self, name: str) -> str:
        raise NotImplementedError


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModalBench:
    return ModalBench(FakeModal(), tmp_path, monkeypatch)


class TestModal(LauncherConformance):
    """Modal obeys the rules of all launchers."""


def begin(bench: ModalBench, **overrides):
    order = make_order(DEVICE, **overrides)
    return order, bench.launcher.start(order, wake=lambda: None)


def outcome_of(bench: ModalBench, call: str):
    return bench.launcher.poll([call])[call].outcome


def tree(code: str) -> SourceTree:
    return SourceTree(entry="submission.py", files={"submission.py": code})


def test_a_call_judges_a_submission_and_says_what_isolated_it(bench: ModalBench) -> None:
    bench.modal.carries_out = True
    spec = make_spec(submission=tree("def custom_kernel(data):\n    return data * 2\n"))
    call = bench.launcher.start(dataclasses.replace(make_order(DEVICE), spec=spec), wake=lambda: None)
    bench.modal.join()
    outcome = outcome_of(bench, call)
    assert isinstance(outcome, LaunchResult), outcome
    assert outcome.report.verdict is Verdict.ACCEPTED, outcome.report
    assert "gVisor" in outcome.report.environment["isolation"]
    assert outcome.machine == "modal-H100"


def test_a_call_of_a_function_that_is_not_deployed_says_so(bench: ModalBench) -> None:
    bench.modal.deployed.clear()
    with pytest.raises(LaunchError, match="kernelcup runner deploy modal"):
        begin(bench)


def test_a_service_that_does_not_answer_ends_no_call(bench: ModalBench) -> None:
    order, call = begin(bench)
    bench.modal.down = True
    for ask in (lambda: begin(bench), lambda: outcome_of(bench, call), lambda: bench.launcher.cancel(call)):
        with pytest.raises(LaunchError, match=r"api\.modal\.com"):
            ask()
    bench.modal.down = False
    bench.report(call, report_for(order))
    assert isinstance(outcome_of(bench, call), LaunchResult)


def test_a_call_is_asked_for_every_two_seconds_only(bench: ModalBench) -> None:
    bench.restarted(ask_every_s=2)
    _, call = begin(bench)
    for _ in range(5):
        bench.launcher.poll([call])
    assert bench.modal.asked == 1
    bench.modal.now_s += 2
    bench.launcher.poll([call])
    assert bench.modal.asked == 2


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        ("FunctionTimeoutError", LaunchTimeout),
        ("OutputExpiredError", LaunchLost),
        ("InternalFailure", LaunchLost),
        ("InputCancellation", LaunchLost),
        ("RemoteError", LaunchError),
        ("ExecutionError", LaunchError),
        ("DeserializationError", BadReport),
    ],
)
def test_a_call_that_fails_says_how(bench: ModalBench, raised: str, kind: type) -> None:
    _, call = begin(bench)
    bench.call(call).end(getattr(EXCEPTIONS, raised)("why"))
    outcome = outcome_of(bench, call)
    assert type(outcome) is kind
    assert kind is BadReport or "why" in str(outcome)


@pytest.mark.parametrize("result", ["no json", "[]", "{}", '{"report": 1}', "[" * 100_000])
def test_an_unreadable_result_is_a_bad_report(bench: ModalBench, result: str) -> None:
    _, call = begin(bench)
    bench.call(call).end(result)
    assert isinstance(outcome_of(bench, call), BadReport)


def test_a_job_that_may_take_longer_than_a_call_is_not_sent(bench: ModalBench) -> None:
    with pytest.raises(LaunchError, match="14400 s"):
        begin(bench, limits=Limits(import_s=1, test_s=20_000, benchmark_s=1, ranked_s=1))
    assert bench.modal.calls == {}


def test_full_functions_and_forbidden_machines_take_no_job(bench: ModalBench) -> None:
    with pytest.raises(NoRoom):
        bench.launcher.start(
            dataclasses.replace(make_order(DEVICE), machines=frozenset({"elsewhere"})), wake=lambda: None
        )
    begin(bench)
    begin(bench)
    with pytest.raises(NoRoom):
        begin(bench)
    assert bench.launcher.capacity(DEVICES[1]) == 2


def test_yesterdays_harness_travels_with_its_jobs(bench: ModalBench) -> None:
    (bench.folder / f"{'a' * 64}.zip").write_bytes(b"yesterday's")
    order = dataclasses.replace(make_order(DEVICE), harness_hash="a" * 64)
    call = bench.launcher.start(order, wake=lambda: None)
    assert base64.b64decode(bench.call(call).arguments[1]) == b"yesterday's"
    with pytest.raises(LaunchError, match="no harness"):
        bench.launcher.start(dataclasses.replace(order, harness_hash="b" * 64), wake=lambda: None)


SECTION = "[launchers.modal.gpus]\nH100 = 'H100!'\n"
ONE = '[[devices]]\nname = "H100"\nbackend = "cuda"\nlauncher = "modal"\n'


@pytest.mark.parametrize(
    ("text", "cause"),
    [(ONE, "expected H100"), (ONE + "[launchers.modal]\napps = 'x'\n" + SECTION, "expected app")],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, text: str, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        launcher.read_options(configured(tmp_path, text))


def test_the_image_has_what_the_lock_file_of_an_environment_names(tmp_path: Path) -> None:
    settings = configured(tmp_path, ONE + "[launchers.modal]\nenvironment = 'cutlass.toml'\n" + SECTION)
    file = settings.data_dir / "cutlass.toml"
    with pytest.raises(ConfigError, match="is no lock file"):
        launcher.read_options(settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    wheels = ("nvidia-cutlass==4.2.0", "torch==2.14.0")
    file.write_text("".join(f'[[wheels]]\nrequirement = "{each}"\nhashes = []\n' for each in wheels))
    assert launcher.packages_of(settings) == [*wheels, "numpy==2.3.4", "ninja==1.13.0"]
    launcher.read_options(settings)


def test_the_launcher_is_installed_under_its_name(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(launcher, "import_modal", FakeModal)
    assert isinstance(installed.make("modal", configured(tmp_path, ONE + SECTION)), ModalLauncher)


def test_without_the_client_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "modal", None)
    with pytest.raises(ConfigError, match="pip install"):
        launcher.import_modal()


def test_the_command_deploys_a_function_for_each_device(tmp_path: Path, monkeypatch) -> None:
    modal = FakeModal()
    monkeypatch.setattr(launcher, "import_modal", lambda: modal)
    config = configured(tmp_path, ONE + SECTION).file
    done = CliRunner().invoke(app, ["runner", "deploy", "modal", "--config", str(config)])
    assert done.stdout == "kernelcup: judge-H100\n"
    assert list(modal.deployed) == [("kernelcup", "judge-H100")]
    config.write_text("")
    done = CliRunner().invoke(app, ["runner", "deploy", "modal", "--config", str(config)])
    assert "no device of the configuration" in str(done.exception)


def test_a_leaderboard_that_takes_a_providers_isolation_needs_no_sandbox_there(bench: ModalBench) -> None:
    asked = make_order(DEVICE, mode=Mode.LEADERBOARD)
    for order, policy in ((asked, "required"), (dataclasses.replace(asked, provider_isolation=True), "auto")):
        job, _bundle = bench.call(bench.launcher.start(order, wake=lambda: None)).arguments
        assert remote_job.unpack(job)["spec"]["sandbox"] == policy


def test_deploying_without_a_sign_in_is_one_sentence_that_says_how(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    modal = FakeModal()
    modal.token = ""
    monkeypatch.setattr(launcher, "import_modal", lambda: modal)
    config = configured(tmp_path, ONE + SECTION).file
    assert execute(["runner", "deploy", "modal", "--config", str(config)]) != 0
    error, way = capsys.readouterr().err.splitlines()
    assert error.endswith(
        "Modal did not take the app: AuthError: Token missing. Could not authenticate client."
    )
    assert way.startswith("Next: Modal knows no account here. Sign in with `modal token new`")


def configured(folder: Path, text: str) -> Config:
    (folder / "kernelcup.toml").write_text(text)
    return Config.load(folder / "kernelcup.toml", {"KERNELCUP_HOME": str(folder)})


def test_functions_get_their_gpu_and_slots(bench: ModalBench) -> None:
    make_app(bench.modal, DEVICES, {"H100": "H100!"}, app="mine").deploy()
    options = {name: options for (app, name), (_, options) in bench.modal.deployed.items() if app == "mine"}
    assert {name: each["gpu"] for name, each in options.items()} == {"judge-H100": "H100!", "judge-T4": None}
    assert options["judge-H100"]["max_containers"] == 2


GOOD = {
    "name": "judge", "timeout": 60, "single_use_containers": True, "block_network": True,
    "restrict_modal_access": True,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"name": "judge H100"},
        {"timeout": 0},
        {"timeout": 100_000},
        {"single_use_containers": False},
        {"block_network": False},
        {"restrict_modal_access": False},
        {"allow_concurrent_inputs": 2},
    ],
)
def test_the_fake_refuses_a_function_that_breaks_its_rules(change: dict[str, object]) -> None:
    app = FakeModal().App("kernelcup")
    app.function(**GOOD)
    with pytest.raises(InvalidError):
        app.function(**GOOD | change)


@pytest.fixture
def real() -> object:
    pytest.importorskip("modal", reason="modal is not installed: pip install modal==1.6.4")
    return launcher.import_modal()


def test_the_real_client_takes_the_app_and_its_function_judges(real, tmp_path: Path) -> None:
    devices = [make_device(name="H100", slots=3, launcher="modal")]
    app = make_app(real, devices, {"H100": "H100!"})
    with warnings.catch_warnings(action="ignore"):
        function = app.registered_functions["judge-H100"]
    spec = make_spec(mode=Mode.TEST, submission=tree("def custom_kernel(data):\n    return data * 2\n"))
    job = remote_job.pack({"spec": to_json(spec), "harness": harness_hash(), "limit_s": 300})
    bundle = base64.b64encode(kept_bundle(tmp_path).read_bytes()).decode()
    outcome = outcomes.decode(json.loads(function.local(job, bundle)), machine="modal-H100")
    assert isinstance(outcome, LaunchResult), outcome
    assert outcome.report.verdict is Verdict.ACCEPTED, outcome.report


def test_the_real_client_has_what_the_fake_has(real) -> None:
    for name, fake in vars(EXCEPTIONS).items():
        found = getattr(real.exception, name)
        assert issubclass(found, real.exception.Error) == issubclass(fake, EXCEPTIONS.Error), name
    assert issubclass(real.exception.FunctionTimeoutError, real.exception.TimeoutError)
    assert not issubclass(real.exception.TimeoutError, TimeoutError)
    call = real.FunctionCall.from_id("fc-1")
    assert {"get", "cancel", "object_id"} <= set(dir(call))


class Evil:
    def __reduce__(self):
        return (print, ("taken over",))


def test_the_real_client_reads_no_pickle_of_a_container(real, capsys) -> None:
    from modal._serialization import deserialize, deserialize_data_format
    from modal_proto import api_pb2

    content = pickle.dumps(Evil())
    for read in (
        lambda: deserialize(content, None),
        lambda: deserialize_data_format(content, api_pb2.DATA_FORMAT_PICKLE, None),
    ):
        with pytest.raises(Exception, match="deserializing an object"):
            read()
    assert capsys.readouterr().out == ""
    assert deserialize_data_format(b"\x63abc", api_pb2.DATA_FORMAT_CBOR, None) == "abc"
