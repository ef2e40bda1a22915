"""Armed handshakes: everything is queued before the key comes, and no process takes part in between."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from fake_device import FakeDevice, HastyDevice, QueueingRecorder, mask_with, word
from inside import FakeRecorder, cases, judged
from test_harness_measure import HONEST, SMALL_CACHE, ranked

from kernelcup_harness import audits, bench, calls, device_code, masks, measure, pages, pinning, trusted
from kernelcup_harness.contestant import Contestant
from kernelcup_harness.frames import ChannelClosed, ChannelTimeout
from kernelcup_harness.protocol import Reason, TrustLevel, Verdict

pytestmark = pytest.mark.usefixtures("by_events")


@pytest.fixture(autouse=True)
def quick_turns() -> Iterator[None]:
    """Have threads take turns often: judge and device both look again and again, and are threads here."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(pages.LOOK_NS / 1e9 / 10)
    yield
    sys.setswitchinterval(before)


# Whole jobs


@pytest.fixture
def with_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give judge and contestants a device that can be armed, and rings."""
    use(FakeDevice, monkeypatch)


def use(device: type[FakeDevice], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masks, "Mask", mask_with(device))
    monkeypatch.setattr(pinning, "pin", lambda _address, _nbytes: True)
    monkeypatch.setattr(pinning, "unpin", lambda _address: None)
    monkeypatch.setattr(bench, "Device", type("Known", (), {"of": staticmethod(lambda gpu: SMALL_CACHE)}))


@pytest.mark.usefixtures("with_device")
def test_a_recorded_call_is_answered_by_the_device_alone(tmp_path: Path) -> None:
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert case.verdict is Verdict.ACCEPTED, case.message
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.captured
    assert case.timing.audit.armed
    assert len(case.timing.handshakes_ns) >= measure.FEWEST_ARMED


@pytest.mark.usefixtures("with_device")
def test_what_is_wrong_when_it_is_armed_is_called_instead(tmp_path: Path) -> None:
    # This recorder replays at once, before the input can be read.
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=FakeRecorder()))
    assert case.verdict is Verdict.ACCEPTED, case.message
    assert case.timing is not None
    assert case.timing.audit is not None
    assert not case.timing.audit.armed
    assert not case.timing.audit.captured
    assert len(case.timing.handshakes_ns) >= measure.FEWEST_HANDSHAKES


def ranked_end(events: list[dict[str, Any]]) -> dict[str, Any]:
    (end,) = [event for event in events if event["event"] == "stage_end" and event["name"] == "ranked"]
    return end


def test_an_answer_that_is_not_there_when_it_is_said_to_be_done_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(HastyDevice, monkeypatch)
    end = ranked_end(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert (end["verdict"], end["reason"]) == (Verdict.WRONG_ANSWER.value, Reason.UNFINISHED.value)
    assert "still incomplete" in end["message"]


@pytest.fixture
def changing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have answers of the submission changed between what it commits to and what it hands over."""
    real = Contestant._collect

    def collect(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        assert self._armed is not None
        self._armed.tensors[0].value.add_(1)
        return real(self, frame)

    monkeypatch.setattr(Contestant, "_collect", collect)


@pytest.mark.usefixtures("with_device", "changing")
def test_an_answer_that_changes_after_it_is_done_is_found_out(tmp_path: Path) -> None:
    end = ranked_end(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert (end["verdict"], end["reason"]) == (Verdict.WRONG_ANSWER.value, Reason.UNFINISHED.value)
    assert "still incomplete" in end["message"]


@pytest.mark.usefixtures("with_device")
def test_calls_that_do_nothing_are_timed_before_the_submission_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: list[list[float]] = []
    real = trusted.Trusted.noops_before
    imported = tmp_path / "imported"

    def noted(self: Any, *given: Any, **more: Any) -> list[float]:
        assert not imported.exists()
        before.append(real(self, *given, **more))
        return before[-1]

    monkeypatch.setattr(trusted.Trusted, "noops_before", noted)
    folder = tmp_path / "job"
    folder.mkdir()
    text = f"open({str(imported)!r}, 'w').close()\n{HONEST}"
    (case,) = cases(judged(ranked(text), folder, recorder=QueueingRecorder()))
    assert imported.exists()
    assert case.timing is not None
    assert case.timing.audit is not None
    assert case.timing.audit.noop_before_ns == audits.quick(before[0])
    assert case.timing.audit.noop_ns > 0


@pytest.mark.usefixtures("with_device")
def test_memory_that_is_forgotten_is_no_longer_known_to_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known: set[int] = set()
    forgotten: list[int] = []
    real = Contestant._forget

    def forget(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        places = [slot.arena.bytes.data_ptr() for slot in self._slots.values()]
        assert known.issuperset(places)
        reply = real(self, frame)
        # The system gives these places to others, which the driver then refuses to know.
        assert known.isdisjoint(places)
        forgotten.extend(places)
        return reply

    monkeypatch.setattr(pinning, "pin", lambda address, _nbytes: known.add(address) or True)
    monkeypatch.setattr(pinning, "unpin", known.remove)
    monkeypatch.setattr(Contestant, "_forget", forget)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert case.verdict is Verdict.ACCEPTED, case.message
    assert forgotten


def test_a_task_that_fails_is_told_of_when_it_has_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(FakeDevice, monkeypatch)
    spec = ranked(HONEST)
    text = spec.sources["reference.py"].replace("return data * 2", "raise ValueError('broken')")
    events = judged(replace(spec, sources={"reference.py": text}), tmp_path, recorder=QueueingRecorder())
    stages = [event["name"] for event in events if event["event"] == "stage_end"]
    assert stages[0] == "import"
    end = ranked_end(events)
    assert (end["verdict"], end["reason"]) == (Verdict.INTERNAL_ERROR.value, Reason.TASK.value)
    assert "broken" in end["message"]


# The page


NOBODY = threading.Event()


def test_the_word_is_given_with_the_key_and_done_ends_the_clock() -> None:
    page, device, out = pages.Page(), FakeDevice(), torch.zeros(16, dtype=torch.uint8)
    address = page.arena.bytes.data_ptr()
    device.wait_for(address + pages.READY, address + pages.GO, address + pages.KEY, 77)
    device.toggle(out, None)
    device.absorb(out)
    device.tell(address + pages.DONE, 77, address + pages.DIGEST)
    page.wait_until_ready(77, 10.0, NOBODY.is_set)
    assert not out.any()
    wall_ns, digest = page.go(123456789, 77, 10.0, NOBODY.is_set)
    assert wall_ns > 0
    assert digest == device.digest([out])
    masks.Mask(gpu=False).toggle(out, 123456789)
    assert not out.any()
    device.settle()


def test_a_device_that_never_answers_is_waited_for_as_long_as_was_said() -> None:
    page = pages.Page()
    with pytest.raises(ChannelTimeout):
        page.go(1, 2, 0.01, NOBODY.is_set)
    with pytest.raises(ChannelTimeout):
        page.wait_until_ready(2, 0.01, NOBODY.is_set)


def test_whoever_is_gone_is_not_waited_for() -> None:
    def look() -> None:
        raise ChannelClosed("gone")

    with pytest.raises(ChannelClosed):
        pages.Page().go(1, 2, 60.0, look)


def test_a_cleared_page_has_no_word_of_the_call_before() -> None:
    page = pages.Page()
    page.release(5, 6)
    page.clear()
    assert not page.arena.bytes.any()


# The fake


def test_the_fake_does_nothing_before_the_word() -> None:
    page, device = pages.Page(), FakeDevice()
    address, done = page.arena.bytes.data_ptr(), []
    device.wait_for(address + pages.READY, address + pages.GO, address + pages.KEY, 3)
    device.do(lambda: done.append(word(address + pages.GO).value))
    device.tell(address + pages.DONE, 3, address + pages.DIGEST)
    page.wait_until_ready(3, 10.0, NOBODY.is_set)
    assert not done
    page.release(0, 3)
    device.settle()
    assert done == [3]


def test_the_fake_refuses_what_the_device_could_not_do() -> None:
    device = FakeDevice()
    with pytest.raises(ValueError, match="no word"):
        device.toggle(torch.zeros(16, dtype=torch.uint8), None)
    with pytest.raises(ValueError, match="whole"):
        device.toggle(torch.zeros(17, dtype=torch.uint8), 5)
    with pytest.raises(ValueError, match="nothing was queued"):
        device.tell(0, 1, 2)


# The kernels


@pytest.mark.parametrize("name", device_code.MODULES)
def test_what_the_driver_is_given_was_made_from_the_source(name: str) -> None:
    package = files("kernelcup_harness")
    text = device_code.compiled(name).decode()
    found = re.search(r"SHA-256 ([0-9a-f]{64})", text)
    assert found is not None
    source = package.joinpath(f"{name}.cu").read_bytes()
    assert found[1] == sha256(source).hexdigest(), "run scripts/make-device-code"
    for kernel in device_code.MODULES[name]:
        assert f".visible .entry {kernel}(" in text


class Driver:
    """Stands for libcuda: notes launches, and refuses what it is told to."""

    def __init__(self, refuses: str = "") -> None:
        self.refuses = refuses
        self.launches: list[tuple[Any, ...]] = []

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == "cuLaunchKernel":
                self.launches.append(arguments)
            return 999 if name == self.refuses else 0

        return call


def test_a_driver_that_refuses_the_kernels_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "zeros", lambda *_size, **_options: torch.tensor([0]))
    for refused in ("cuModuleLoadData", "cuModuleGetFunction"):
        with pytest.raises(device_code.DeviceFault, match="999"):
            device_code.DeviceCode(Driver(refused))


# Who would rather not


@pytest.fixture
def own_arm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the submission a way to answer that its trusted neighbour, a thread like it, does not have."""
    real = Contestant._arm

    def arm(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        name = getattr(self._kernel, "__module__", "")
        answer = getattr(sys.modules.get(name), "arm_answer", None)
        if answer is None:
            return real(self, frame)
        self._take(frame)
        return answer

    monkeypatch.setattr(Contestant, "_arm", arm)


@pytest.mark.usefixtures("with_device", "own_arm")
@pytest.mark.parametrize(
    "answer",
    [
        '{"type": "armed", "ok": False}',
        '{"type": ["x"]}',
        '{"type": "fail", "kind": "memory", "text": "no"}',
    ],
)
def test_a_recorded_call_that_will_not_be_armed_is_held_back(tmp_path: Path, answer: str) -> None:
    text = HONEST + f"\n\narm_answer = {answer}\n"
    (case,) = cases(judged(ranked(text), tmp_path, recorder=FakeRecorder()))
    assert case.verdict is Verdict.ACCEPTED, case.message
    assert case.timing is not None
    audit = case.timing.audit
    assert audit is not None
    assert (audit.captured, audit.armed, audit.level) == (True, False, TrustLevel.BOUNDED)
    (finding,) = [each for each in audit.findings if each.code == "not_armed"]
    assert finding.quarantines


@pytest.mark.usefixtures("with_device")
@pytest.mark.parametrize(
    "changes",
    [
        {"tree": None},
        {"tree": 3},
        {"table": None},
        {"table": [{}]},
        {"shared": None},
        {"repeated": [[0]]},
        {"tree": {"k": "tensor", "i": 7}},
    ],
)
def test_a_malformed_description_of_an_armed_answer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    real = Contestant._arm
    monkeypatch.setattr(Contestant, "_arm", lambda self, frame: {**real(self, frame), **changes})
    end = ranked_end(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert (end["verdict"], end["reason"]) == (Verdict.REJECTED.value, Reason.PROTOCOL.value)


@pytest.mark.usefixtures("with_device")
@pytest.mark.parametrize(
    "answer", [{"type": "done", "ns": None}, {"type": "armed", "ok": True}, {"type": ["collected"]}, {}]
)
def test_who_does_not_hand_over_an_armed_answer_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
) -> None:
    monkeypatch.setattr(Contestant, "_collect", lambda _self, _frame: {"type": "nothing", **answer})
    end = ranked_end(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert (end["verdict"], end["reason"]) == (Verdict.REJECTED.value, Reason.PROTOCOL.value)


@pytest.mark.usefixtures("with_device")
def test_nothing_about_an_answer_is_chosen_after_the_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All answers there could be have a digest too: which one is meant has to be said before the input is known.
    arm, collect = Contestant._arm, Contestant._collect
    chosen = []

    def everything(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        if getattr(self._kernel, "__name__", "") != "custom_kernel":
            return arm(self, frame)
        real, device = self._called, self._mask.code

        def table(data: torch.Tensor) -> tuple[Any, Any]:
            made = [torch.empty_like(data), torch.empty_like(data)]
            for times, out in zip((2, 3), made, strict=True):
                device.do(lambda times=times, out=out: torch.mul(data, times, out=out))  # type: ignore[union-attr]
            return made, made

        monkeypatch.setattr(self, "_called", table)
        try:
            return arm(self, {**frame, "replay": False})
        finally:
            monkeypatch.setattr(self, "_called", real)

    def choose(self: Contestant, frame: dict[str, Any]) -> dict[str, Any]:
        chosen.append({"k": "tensor", "i": 0})
        return {**collect(self, frame), "tree": chosen[-1]}

    monkeypatch.setattr(Contestant, "_arm", everything)
    monkeypatch.setattr(Contestant, "_collect", choose)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert chosen
    # Called one by one it is right.
    assert case.timing is not None
    assert case.timing.audit is not None
    assert not case.timing.audit.armed


@pytest.mark.usefixtures("with_device")
def test_the_noise_of_others_excuses_no_more_than_a_machines_drift(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, loud = trusted.Trusted.armed_noop, iter(range(10_000))
    # Half of the calls that do nothing are slowed down by 60 us.
    monkeypatch.setattr(
        trusted.Trusted, "armed_noop", lambda self: min(real(self), 1e4) + 60_000.0 * (next(loud) % 2)
    )
    monkeypatch.setattr(trusted.Trusted, "noops_before", lambda *_given, **_more: [10_000.0] * 8)
    monkeypatch.setattr(trusted.Trusted, "handshake_residual_ns", 0.0)
    (case,) = cases(judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder()))
    assert case.timing is not None
    assert case.timing.audit is not None
    share_ns = audits.CLAIM_SHARE * case.timing.claim_ns
    process_ns = audits.NORMAL_99 * audits.HANDSHAKE_PROCESS_NS
    assert case.timing.audit.handshake_slack_ns <= audits.DRIFT_NS + process_ns + share_ns + 1


def test_an_answer_without_bytes_is_not_armed() -> None:
    nobody: Any = None
    mask = mask_with(FakeDevice)(gpu=False)
    caller = calls.Caller(nobody, nobody, 1 << 20, mask)

    def can_arm(value: Any) -> bool:
        layout = {"table": []}
        form = calls.Form.of(value, in_place=False)
        caller._given[1] = calls.Given(layout=layout, seed=5, form=form, plain=None)
        return caller.can_arm(1)

    assert can_arm(torch.zeros(3))
    assert can_arm((torch.zeros(3), 7))
    assert not can_arm(7)
    assert not can_arm(torch.zeros(0))
    assert not can_arm([torch.zeros(1) for _ in range(calls.MOST_ARMED + 1)])


# The caller


class DeafDevice(FakeDevice):
    """Fails in the middle of a call, as a device does after an illegal access."""

    def _finish(self, queue: list[Callable[[], None]], say_done: Callable[[], None]) -> None:
        del queue, say_done


def test_a_device_that_fails_while_armed_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "LONGEST_ARMED_S", 0.05)
    use(DeafDevice, monkeypatch)
    events = judged(ranked(HONEST), tmp_path, recorder=QueueingRecorder())
    # The trusted one meets it first.
    (end,) = [event for event in events if event["event"] == "stage_end"]
    assert (end["verdict"], end["reason"]) == (Verdict.INTERNAL_ERROR.value, Reason.MACHINE.value)
    assert "never finished" in end["message"]
