from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import os
import subprocess
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_bench import AgentBench

from builders import make_calibration, make_device, make_report
from kernelcup.agent.agent import ServiceBook
from kernelcup.agent.connection import Connection, Errand
from kernelcup.app.machines import agents, calibrations, machines
from kernelcup.app.machines.calibrations import PATIENCE, Calibrations
from kernelcup.app.machines.machines import SILENT, MachineState
from kernelcup.app.machines.outages import outages
from kernelcup.app.machines.process_identity import current_owner
from kernelcup.app.machines.queries import calibrations as stored
from kernelcup.app.machines.queries import calls
from kernelcup.app.machines.queries.calls import AgentCall
from kernelcup.app.results import profile_files
from kernelcup.client.core import NotReached
from kernelcup.client.transport import Client
from kernelcup.domain import Device
from kernelcup.errors import (
    BadReport,
    Conflict,
    FileTooLarge,
    InvalidValue,
    LaunchLost,
    NoRoom,
    NotFound,
    ServerUnavailable,
    SignInNeeded,
)
from kernelcup.http.capacity import THREADS
from kernelcup.http.events.asking import LONGEST_WAIT_S
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.bundle import harness_hash, write_bundle
from kernelcup.launchers.local.calibrate import Place
from kernelcup_harness.protocol import Backend, Calibration, DeviceFacts, KeptBinary, KeptFile, Mode
from kernelcup_harness.protocol.calibration import DeviceCalibration
from launcher_conformance import PATIENCE_S, LauncherConformance, case_event, make_order, report_for
from machine_bench import MachineBench

DEVICE = make_device(backend=Backend.EMULATED, slots=2)


@pytest.fixture
def bench(platform, client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / "machine"
    folder.mkdir()
    bench = AgentBench(platform, client, MachineBench(folder, monkeypatch), DEVICE)
    yield bench
    bench.close()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", ""])
def test_a_harness_that_a_service_names_by_no_hash_makes_no_folder(name: str) -> None:
    job = {"call": "1", "device": "H100", "spec": {}, "harness_hash": name}
    said = {"jobs": [job], "cancel": []}
    connection = Connection(SimpleNamespace(request=lambda *_, **__: said))  # type: ignore[arg-type]
    with pytest.raises(ServerUnavailable):
        connection.ask(running=[], wait_s=0.0)
    job["harness_hash"] = "0" * 64
    assert connection.ask(running=[], wait_s=0.0).jobs[0].harness_hash == "0" * 64


class TestAgent(LauncherConformance):
    """The agent of a machine obeys the rules of all launchers."""


RULES = LauncherConformance()
PROMPT_S = LONGEST_WAIT_S / 2
"""Within this, an answer did not wait for its time to be over."""


def begin(bench: AgentBench):
    order = make_order()
    return order, RULES.begin(bench, order)


def in_thread(work: Callable[[], Any]) -> Future[Any]:
    """Do something beside the test."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return done


def asked(bench: AgentBench, number: int = 1) -> list[Future[Errand]]:
    """Return questions that the service keeps until it has something to do."""
    asking = [in_thread(lambda: bench.agent.ask(wait_s=LONGEST_WAIT_S)) for _ in range(number)]
    assert RULES.soon(lambda: len(bench.platform.asking) == number)
    return asking


def test_a_question_is_answered_once_there_is_a_job(bench: AgentBench) -> None:
    (asking,) = asked(bench)
    order = make_order()
    call = bench.launcher.start(order, wake=lambda: None)
    errand = asking.result(PROMPT_S)
    assert [each.call for each in errand.jobs] == [call]


def test_a_question_is_answered_once_a_job_is_cancelled(bench: AgentBench) -> None:
    _, call = begin(bench)
    (asking,) = asked(bench)
    bench.launcher.cancel(call)
    assert list(asking.result(PROMPT_S).cancel) == [call]


def test_a_question_is_answered_with_nothing_after_its_time(bench: AgentBench) -> None:
    errand = bench.agent.ask(wait_s=0.01)
    assert (list(errand.jobs), list(errand.cancel), len(bench.platform.asking)) == ([], [], 0)


def test_more_agents_wait_than_there_are_threads(bench: AgentBench, client) -> None:
    asking = asked(bench, THREADS + 1)
    assert client.get("/livez").status_code == 200
    bench.platform.asking.close()
    for each in asking:
        assert not each.result(PROMPT_S).jobs


def test_an_agent_that_waits_is_refused_once_its_machine_is_removed(bench: AgentBench) -> None:
    (asking,) = asked(bench)
    machines.remove(bench.platform.db, "lab", now=bench.platform.clock())
    with pytest.raises(SignInNeeded):
        asking.result(PROMPT_S)
    bench.is_off = True


def test_a_report_wakes_the_dispatcher(bench: AgentBench) -> None:
    order, woken = make_order(), threading.Event()
    call = bench.launcher.start(order, wake=woken.set)
    bench.begun(call)
    bench.report(call, report_for(order))
    while not bench.agent.look():
        pass
    assert not woken.is_set()
    bench.exchange()
    assert woken.wait(PROMPT_S)


def test_an_agent_that_runs_judges_while_its_connection_is_cut(bench: AgentBench) -> None:
    bench.is_off = True  # it works by itself
    stop, order, woken = threading.Event(), make_order(), threading.Event()
    running = in_thread(lambda: bench.agent.run(stop))
    call = bench.launcher.start(order, wake=woken.set)
    assert RULES.soon(lambda: bench.machine.is_up(order.spec.job_id))
    bench.tell(call, case_event(1))
    assert RULES.events(bench.launcher, call, 1)
    bench.line.cut = True
    bench.report(call, report_for(order))
    assert RULES.soon(lambda: bench.line.refused >= 2)
    assert not woken.is_set()
    bench.line.cut = False
    assert woken.wait(PATIENCE_S)
    RULES.accepted(bench.launcher, call, order)
    stop.set()
    running.result(PATIENCE_S)
    assert bench.launcher.capacity(DEVICE) == 0  # it has signed off


def test_a_job_goes_on_while_the_line_is_cut_and_its_report_comes_later(bench: AgentBench) -> None:
    order, call = begin(bench)
    bench.line.cut = True
    bench.report(call, report_for(order))
    while not bench.agent.look():
        with pytest.raises(NotReached):
            bench.exchange()
    bench.line.cut = False
    RULES.accepted(bench.launcher, call, order)


def test_a_report_whose_answer_was_lost_is_sent_again_and_counts_once(bench: AgentBench) -> None:
    order, call = begin(bench)
    bench.report(call, report_for(order, message="first"))
    while not bench.agent.look():
        pass
    bench.line.loses_answers = True
    with pytest.raises(NotReached):
        bench.exchange()
    bench.line.loses_answers = False
    assert RULES.accepted(bench.launcher, call, order).message == "first"


def test_a_job_whose_hand_over_was_lost_is_given_again(bench: AgentBench) -> None:
    order = make_order()
    call = bench.launcher.start(order, wake=lambda: None)
    bench.line.loses_answers = True
    with pytest.raises(NotReached):
        bench.exchange()
    bench.line.loses_answers = False
    bench.begun(call)
    bench.report(call, report_for(order))
    RULES.accepted(bench.launcher, call, order)


def test_a_machine_may_name_a_device_of_several_gpus_itself(bench: AgentBench) -> None:
    pair = make_device(name="H100x2", slots=1)
    bench.agent._devices = {"H100": make_device(slots=1), "H100x2": pair}
    assert bench.agent._device("H100x2") is pair


def test_an_agent_with_a_device_that_the_server_lacks_is_refused(bench: AgentBench) -> None:
    hello = bench.agent._connection.hello
    for offered, lacking in (
        ({"H1OO": 1}, "H1OO"),
        ({"H100": 1, "B200": 2, "A100": 1}, "A100, B200"),
        ({"cpu": 1, "emulated": 1}, "cpu, emulated"),
    ):
        with pytest.raises(InvalidValue, match=f"has no device {lacking}; it has H100, MI300"):
            hello(slots=offered, facts={})
    for offered in ({"H100": 1, "cpu": 1, "emulated": 1}, {}):
        hello(slots=offered, facts={})


def test_a_machine_says_that_it_judges_once_the_service_has_let_it_in(bench: AgentBench) -> None:
    judging, stop = threading.Event(), threading.Event()
    bench.agent._connection._client = Client("http://127.0.0.1:8000", "kc_wrong", transport=bench.line)
    with pytest.raises(SignInNeeded):
        bench.agent.run(stop, judging.set)
    assert not judging.is_set()
    bench.agent._connection._client = Client("http://127.0.0.1:8000", bench.token, transport=bench.line)
    running = in_thread(lambda: bench.agent.run(stop, judging.set))
    assert judging.wait(PATIENCE_S)
    stop.set()
    running.result(PATIENCE_S)


def test_a_removed_machine_is_refused_and_its_jobs_are_lost(bench: AgentBench) -> None:
    _, call = begin(bench)
    machines.remove(bench.platform.db, "lab", now=bench.platform.clock())
    with pytest.raises(SignInNeeded):
        bench.exchange()
    bench.is_off = True
    assert isinstance(RULES.poll(bench.launcher, call).outcome, LaunchLost)


def test_an_agent_whose_token_is_void_ends_its_jobs(bench: AgentBench) -> None:
    _, call = begin(bench)
    machines.remove(bench.platform.db, "lab", now=bench.platform.clock())
    bench.agent._connect = lambda *_: None
    with pytest.raises(SignInNeeded):
        bench.agent.run(threading.Event())
    bench.is_off = True
    assert RULES.soon(lambda: not bench.is_running(call))


def test_calls_of_an_agent_that_was_killed_are_lost_when_it_starts_again(bench: AgentBench) -> None:
    order, call = begin(bench)
    bench.platform.clock.advance(SILENT.total_seconds())
    bench.agent = bench.new_agent()
    outcome = RULES.outcome(bench.launcher, call, order)
    assert isinstance(outcome, LaunchLost)
    assert "was started again" in str(outcome)


def test_a_second_agent_with_the_same_token_has_to_wait(bench: AgentBench) -> None:
    with pytest.raises(Conflict, match="Another agent is connected as 'lab'"):
        bench.new_agent()


def test_an_agent_that_was_killed_does_not_keep_out_the_next_one_on_its_host(
    bench: AgentBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    note = tmp_path / "home" / "agent"

    def hello() -> str:
        client = Client("http://127.0.0.1:8000", bench.token, transport=bench.line)
        return Connection(client, note).hello(slots={}, facts={})

    bench.platform.clock.advance(SILENT.total_seconds())
    hello()
    with pytest.raises(Conflict):  # the first one lives: it is this process
        hello()
    with subprocess.Popen(["sleep", "60"]) as other:
        owner = current_owner().replace(f":{os.getpid()}:", f":{other.pid}:")
        monkeypatch.setattr("kernelcup.agent.connection.current_owner", lambda: owner)
        other.kill()
    note.write_text(note.read_text().replace(f":{os.getpid()}:", f":{other.pid}:"))
    assert note.stat().st_mode & 0o777 == 0o600
    assert hello() == "lab"
    assert hello() == "lab"
    with pytest.raises(Conflict):  # on another host
        bench.new_agent()


def test_an_agent_that_was_replaced_is_refused(bench: AgentBench) -> None:
    bench.platform.clock.advance(SILENT.total_seconds())
    bench.new_agent()
    with pytest.raises(Conflict, match="Another agent has connected"):
        bench.exchange()


def test_the_token_of_a_person_is_not_that_of_a_machine(bench: AgentBench, person) -> None:
    with pytest.raises(SignInNeeded):
        bench.new_agent(person("ada").token)


def test_an_agent_cannot_report_for_another_machine(bench: AgentBench) -> None:
    _, call = begin(bench)
    other = machines.add_agent(bench.platform.db, "other", now=bench.platform.clock()).token
    thief = bench.new_agent(other)
    assert thief._connection.report(call, {"error": "LaunchError", "text": "mine"}, []) is False
    assert RULES.poll(bench.launcher, call).outcome is None


def test_a_machine_that_drains_ends_its_jobs_and_gets_no_more(bench: AgentBench) -> None:
    order, call = begin(bench)
    machines.change(bench.platform.db, "lab", is_draining=True, now=bench.platform.clock())
    assert bench.launcher.capacity(DEVICE) == 0
    with pytest.raises(NoRoom):
        bench.launcher.start(make_order(job_id="2.1"), wake=lambda: None)
    bench.report(call, report_for(order))
    RULES.accepted(bench.launcher, call, order)
    machines.change(bench.platform.db, "lab", is_draining=False, now=bench.platform.clock())
    bench.launcher.cancel(call)
    assert bench.launcher.capacity(DEVICE) == 2


def test_a_job_goes_to_the_machines_that_may_judge_it_only(bench: AgentBench) -> None:
    order = dataclasses.replace(make_order(), machines=frozenset({"elsewhere"}))
    with pytest.raises(NoRoom):
        bench.launcher.start(order, wake=lambda: None)


def test_a_machine_is_down_once_it_is_silent(bench: AgentBench) -> None:
    def state() -> MachineState:
        (found,) = machines.list_machines(bench.platform.db, now=bench.platform.clock())
        return found.state

    bench.step()
    assert state() is MachineState.UP
    bench.platform.clock.advance(SILENT.total_seconds() + 1)
    assert state() is MachineState.DOWN


def test_an_agent_fetches_a_harness_that_it_does_not_have(
    bench: AgentBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tmp_path / "old" / "kernelcup_harness"
    old.mkdir(parents=True)
    (old / "__init__.py").write_text("# yesterday's\n")
    wanted = harness_hash(old)
    folder = bench.platform.config.data_dir / "harness"
    folder.mkdir(parents=True)
    write_bundle(folder / f"{wanted}.zip", old)
    order = make_order()
    object.__setattr__(order, "harness_hash", wanted)
    call = RULES.begin(bench, order)
    bench.report(call, report_for(order))
    outcome = RULES.outcome(bench.launcher, call, order)
    assert isinstance(outcome, LaunchResult), outcome
    assert outcome.harness_hash == wanted


def test_a_harness_that_nobody_has_is_a_failed_launch(bench: AgentBench) -> None:
    order = make_order()
    object.__setattr__(order, "harness_hash", "0" * 64)
    call = bench.launcher.start(order, wake=lambda: None)
    outcome = RULES.outcome(bench.launcher, call, order)
    assert "no harness with this hash" in str(outcome)


def files_for(*bodies: bytes) -> list[dict[str, Any]]:
    """Files as a harness reports them."""
    return [
        {
            "name": f"{number}.bin",
            "nbytes": len(body),
            "sha256": hashlib.sha256(body).hexdigest(),
            "gz64": base64.b64encode(gzip.compress(body)).decode(),
        }
        for number, body in enumerate(bodies)
    ]


def outcome_row(bench: AgentBench, call: str) -> AgentCall:
    with bench.platform.db.read() as session:
        found = calls.find(session, call)
    assert found is not None
    return found


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits far below what the pipe to a test's harness holds."""
    monkeypatch.setattr("kernelcup.agent.agent.UPLOADED_ABOVE", 8000)
    monkeypatch.setattr("kernelcup.engine.file_store.LARGEST_IN_ROW_BYTES", 8000)


@pytest.mark.usefixtures("small_limits")
def test_large_files_go_beside_their_report(bench: AgentBench) -> None:
    bodies = (os.urandom(16_000), b"small")
    order, call = begin(bench)
    bench.report(call, report_for(order, files=files_for(*bodies)))
    result = RULES.outcome(bench.launcher, call, order)
    assert isinstance(result, LaunchResult), result
    assert [not each.gz64 for each in result.report.files] == [True, True]
    assert outcome_row(bench, call).outcome is not None
    db = bench.platform.db
    kept = profile_files.keep(db, result.report, uploads=result.uploads)
    assert tuple(profile_files.content(db, kept, f"{n}.bin") for n in (0, 1)) == bodies


@pytest.mark.usefixtures("small_limits")
def test_a_large_report_goes_past_the_database(bench: AgentBench) -> None:
    order, call = begin(bench)
    long = "x" * 16_000
    bench.report(call, report_for(order, message=long))
    assert RULES.accepted(bench.launcher, call, order).message == long
    row = outcome_row(bench, call)
    assert row.outcome is None
    bench.launcher.cancel(call)
    assert bench.platform.db.files.get(str(row.outcome_file)) is None


def test_an_address_for_an_upload_limits_what_and_when(bench: AgentBench, client) -> None:
    _, call = begin(bench)
    digest = hashlib.sha256(b"x").hexdigest()
    body = {"files": {digest: 100}}
    urls = bench.agent._connection._client.request("POST", f"/agent/calls/{call}/uploads", json=body)["urls"]
    url = urls[digest]
    assert client.put(url, content=bytes(101)).status_code == 413
    assert client.put(url.replace("most=100", "most=101"), content=bytes(101)).status_code == 401
    assert client.put(url, content=bytes(100)).status_code == 204
    bench.platform.clock.advance(agents.UPLOAD_WITHIN.total_seconds() + 1)
    assert client.put(url, content=bytes(100)).status_code == 401


def test_files_are_taken_for_ones_own_running_calls_only(bench: AgentBench) -> None:
    _, call = begin(bench)
    thief = bench.new_agent(machines.add_agent(bench.platform.db, "other", now=bench.platform.clock()).token)
    with pytest.raises(NotFound):
        thief._connection.upload(call, {"0" * 64: b"x"})
    with pytest.raises(FileTooLarge):
        bench.agent._connection._client.request(
            "POST", f"/agent/calls/{call}/uploads", json={"files": {"0" * 64: 65 << 20}}
        )


GPU = make_device(backend=Backend.CUDA)


class Calibrating:
    """A machine that connects to the service, and whose GPU is calibrated with what a test says."""

    def __init__(self, bench: AgentBench) -> None:
        self.found: DeviceCalibration | None = make_calibration()
        self.facts: Mapping[Place, DeviceFacts] = {}
        self.harnesses = bench.agent._harnesses
        self.clock = bench.platform.clock
        self.calibrations = Calibrations(
            ServiceBook(bench.agent._connection, self.harnesses),
            [GPU],
            {GPU.launcher: self},
            clock=self.clock,
            every=timedelta(hours=6),
            beside=lambda work: work(),
        )
        self.calibrations.start()

    def places(self, device: Device) -> tuple[str, ...]:
        return ("0",)

    def calibrate(self, device: Device, gpu: str, *, cancelled: threading.Event) -> DeviceCalibration | None:
        return self.found

    def use_facts(self, facts: Mapping[Place, DeviceFacts]) -> None:
        self.facts = facts

    def pass_time(self, hours: int) -> None:
        """Let time pass, and take a look at what is due."""
        self.clock.advance(hours * 3600)
        self.calibrations.refresh()


@pytest.fixture
def calibrating(bench: AgentBench) -> Calibrating:
    return Calibrating(bench)


def test_an_agent_calibrates_its_devices_and_its_jobs_get_the_figures(
    bench: AgentBench, calibrating: Calibrating
) -> None:
    calibrating.calibrations.refresh()
    (record,) = calibrations.newest(bench.platform.db)
    assert (record.machine, record.device, record.gpu) == ("lab", GPU.name, "0")
    calibrating.calibrations.refresh()
    facts = calibrating.facts[GPU.name, "0"]
    assert (facts.canary_ns, facts.copy_bytes_per_s, facts.calibration_id) == (
        100.0,
        make_calibration().bandwidth,
        str(record.id),
    )


def test_a_gpu_of_an_agent_that_drifts_takes_no_jobs(bench: AgentBench, calibrating: Calibrating) -> None:
    calibrating.calibrations.refresh()
    calibrating.found = make_calibration(110.0)
    calibrating.pass_time(hours=6)
    (fault,) = outages(bench.platform.db, now=bench.platform.clock())
    assert (fault.machine, fault.gpu) == ("lab", "0")
    bench.exchange()
    (machine,) = machines.list_machines(bench.platform.db, now=bench.platform.clock())
    assert machine.state is MachineState.OUT_OF_SERVICE
    assert "+10.0% from its rolling median" in machine.trouble


def test_an_agent_that_was_too_busy_to_be_calibrated_takes_no_jobs(
    bench: AgentBench, calibrating: Calibrating
) -> None:
    calibrating.found = None
    calibrating.calibrations.refresh()
    bench.agent._calibrations = calibrating.calibrations
    bench.agent._devices = {GPU.name: GPU}
    bench.platform.clock.advance(PATIENCE.total_seconds())
    bench.exchange()
    assert bench.launcher.capacity(DEVICE) == 0
    calibrating.found = make_calibration()
    calibrating.calibrations.refresh()
    bench.exchange()
    assert bench.launcher.capacity(DEVICE) == 2


def test_an_agent_calibrates_no_device_that_its_machine_does_not_have(bench: AgentBench) -> None:
    with pytest.raises(InvalidValue, match="no GB300"):
        bench.agent._connection.calibrations([], (("GB300", "0"), make_calibration()))


def test_a_machine_cannot_move_the_canary_of_another(bench: AgentBench, calibrating: Calibrating) -> None:
    calibrating.calibrations.refresh()
    calibrating.calibrations.refresh()
    facts, db, now = calibrating.facts[GPU.name, "0"], bench.platform.db, bench.platform.clock()
    report = make_report(calibration=Calibration(canary_ns=104.0))
    for name, median in (("other", 100.0), ("lab", 102.0)):
        result = LaunchResult(report=report, machine=name, harness_hash="", facts=facts)
        calibrations.note_run(db, 1, result, now=now)
        with db.read() as session:
            assert stored.rolling_median(session, machine="lab", gpu="0", device=GPU.name) == median


def test_a_machine_needs_a_name(bench: AgentBench) -> None:
    for name in ("", "..", "a/b", "x" * 101, "a\nb"):
        with pytest.raises(InvalidValue):
            machines.add_agent(bench.platform.db, name, now=bench.platform.clock())


def test_a_kept_binary_goes_past_the_database_to_the_agent(bench: AgentBench) -> None:
    files = bench.platform.db.files
    digest = files.put(gzip.compress(b"captured calls"))
    assert digest is not None
    file = KeptFile(name="binary.kcgraph", nbytes=14, sha256=digest, gz64=files.gz64(digest))
    order = make_order(mode=Mode.LEADERBOARD, binary=KeptBinary(run=1, files=[file]))
    call = bench.launcher.start(order, wake=lambda: None)
    assert outcome_row(bench, call).order["spec"]["binary"]["files"][0]["gz64"] == ""
    (job,) = bench.agent.ask().jobs
    assert job.spec["binary"]["files"][0]["gz64"] == file.gz64


def test_a_signature_of_any_letters_is_refused(bench: AgentBench, client) -> None:
    where = f"/api/v1/agent-files/call/{'0' * 64}?most=1&until=1&signature="
    assert [client.put(where + each, content=b"x").status_code for each in ("", "0", "%C3%A9")] == [401] * 3


def test_an_agent_whose_facts_are_none_is_refused(bench: AgentBench) -> None:
    wrong = ({"gpus": 5}, {"gpus": [{}]}, {"gpus": ["H100", 1]}, {"gpus": ["H" * 5000]})
    for facts in (*wrong, {"driver": "5" * 5000}, {"cores": ["many"]}):
        with pytest.raises(InvalidValue):
            bench.agent._connection.hello(slots={}, facts=facts)
    assert machines.list_machines(bench.platform.db, now=bench.platform.clock())


@pytest.mark.usefixtures("small_limits")
def test_files_whose_address_has_expired_go_within_their_report(
    bench: AgentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agents, "UPLOAD_WITHIN", timedelta(seconds=-1))
    order, call = begin(bench)
    body = os.urandom(16_000)
    bench.report(call, report_for(order, files=files_for(body)))
    result = RULES.outcome(bench.launcher, call, order)
    assert isinstance(result, LaunchResult), result
    assert all(each.gz64 for each in result.report.files)


def test_a_report_that_is_refused_ends_its_job_and_no_other(
    bench: AgentBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    order, call = begin(bench)
    client, post = bench.agent._connection._client, bench.agent._connection._client.request

    def too_slow(method: str, path: str, **given: Any) -> Any:
        if path.endswith("/outcome"):
            monkeypatch.setattr(client, "request", post)
            raise InvalidValue("The request took too long to arrive. Send it again.")
        return post(method, path, **given)

    monkeypatch.setattr(client, "request", too_slow)
    bench.report(call, report_for(order))
    outcome = RULES.outcome(bench.launcher, call, order)
    assert isinstance(outcome, BadReport)
    assert "took too long" in str(outcome)


def test_an_agent_sends_no_events_for_another_machine(bench: AgentBench) -> None:
    _, call = begin(bench)
    thief = bench.new_agent(machines.add_agent(bench.platform.db, "other", now=bench.platform.clock()).token)
    thief._connection.tell(events={call: [case_event(1)]}, trouble="")
    assert bench.launcher.poll([call])[call].events == []
