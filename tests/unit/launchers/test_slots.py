from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from builders import make_device
from kernelcup.domain import Device
from kernelcup.errors import LaunchCancelled, LaunchError, UnfitDevice
from kernelcup.launchers.local import gpu_locks
from kernelcup.launchers.local.gpu_locks import Slot, Slots
from kernelcup_harness.protocol import Backend

PAIR = make_device(slots=2)


@pytest.fixture
def slots(tmp_path: Path) -> Slots:
    return Slots(tmp_path / "run", {})


def take(slots: Slots, device=PAIR) -> Slot:
    return slots.take(device, cancelled=threading.Event())


def test_a_slot_is_taken_once(slots: Slots) -> None:
    assert slots.free(PAIR) == 2
    first, second = take(slots), take(slots)
    assert slots.free(PAIR) == 0
    first.release()
    assert slots.free(PAIR) == 1
    second.release()


def test_another_holder_of_the_same_folder_sees_what_is_taken(slots: Slots, tmp_path: Path) -> None:
    slot = take(slots)
    assert Slots(tmp_path / "run", {}).free(PAIR) == 1
    slot.release()


def test_waiting_ends_when_it_is_cancelled(slots: Slots) -> None:
    held = [take(slots), take(slots)]
    cancelled = threading.Event()
    threading.Timer(0.01, cancelled.set).start()
    with pytest.raises(LaunchCancelled):
        slots.take(PAIR, cancelled=cancelled)
    for slot in held:
        slot.release()


def test_each_wait_for_another_holder_is_said_once_and_no_other(tmp_path: Path) -> None:
    said: list[str] = []
    told, other = Slots(tmp_path, {}, say=said.append), Slots(tmp_path, {})
    take(told).release()
    held = [take(other), take(other)]
    assert said == []
    threading.Timer(0.01, held[0].release).start()
    take(told).release()
    assert said == ["waiting for H100: another KernelCup process is using it"]
    held[1].release()


def in_line(file: Path) -> int:
    """Return how many wait for the lock of a file."""
    lines = Path("/proc/locks").read_text(encoding="utf-8").splitlines()
    return sum("->" in each and f":{file.stat().st_ino} " in each for each in lines)


@contextmanager
def waiting(
    slots: Slots, device: Device, got: list[str], file: Path, name: str = "it"
) -> Iterator[threading.Event]:
    """Wait for a slot in a thread, note its arrival by a name, and release it when the block ends."""
    cancelled, before = threading.Event(), in_line(file)

    def wait() -> None:
        with suppress(LaunchCancelled):
            slot = slots.take(device, cancelled=cancelled)
            got.append(name)
            slot.release()

    thread = threading.Thread(target=wait)
    thread.start()
    while in_line(file) == before:
        time.sleep(0.001)
    yield cancelled
    thread.join()


def test_who_waits_first_has_the_slot_first(tmp_path: Path) -> None:
    device, lock, got = make_device(), tmp_path / "device-H100-0.lock", list[str]()
    held = take(Slots(tmp_path, {}), device)
    with ExitStack() as stack:
        for name in "abcdef":
            # Each is another process: it has a Slots of its own.
            stack.enter_context(waiting(Slots(tmp_path, {}), device, got, lock, name))
        held.release()
    assert got == [*"abcdef"]


def test_who_gives_up_keeps_nobody_waiting(tmp_path: Path) -> None:
    device, lock, got = make_device(), tmp_path / "device-H100-0.lock", list[str]()
    slots = Slots(tmp_path, {})
    held = take(slots, device)
    with (
        waiting(slots, device, got, lock, "first") as first,
        waiting(slots, device, got, lock, "second"),
    ):
        first.set()
        held.release()
    assert got in (["second"], ["first", "second"])  # it may have come before it gave up
    assert slots.free(device) == 1


def test_a_gpu_that_came_in_vain_is_given_back(tmp_path: Path) -> None:
    slots, pair = Slots(tmp_path, {"H100x2": ["0,1"]}), make_device(name="H100x2")
    held = slots.try_gpu("1")
    assert held is not None
    with waiting(slots, pair, [], tmp_path / "gpu-1.lock") as cancelled:
        assert slots.try_gpu("0") is None  # it waits for the other one
        cancelled.set()
    first = slots.try_gpu("0")
    held.release()
    assert first is not None
    first.release()


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a machine's device nodes: its first GPU on the bus has the number 1."""
    for name, minor in (("0000:17:00.0", 1), ("0000:65:00.0", 0)):
        (tmp_path / "driver" / name).mkdir(parents=True)
        (tmp_path / "driver" / name / "information").write_text(
            f"GPU UUID: \t GPU-x\nDevice Minor: \t {minor}\n"
        )
    (tmp_path / "dev").mkdir()
    monkeypatch.setattr(gpu_locks, "DEV", tmp_path / "dev")
    monkeypatch.setattr(gpu_locks, "DRIVER", tmp_path / "driver")
    for number in (0, 1):
        (tmp_path / "dev" / f"nvidia{number}").touch(mode=0o444)
    return tmp_path / "dev"


def test_two_users_of_a_gpu_share_its_lock(nodes: Path, tmp_path: Path) -> None:
    ada, bob = (Slots(tmp_path / user, {"H100": ["0"]}) for user in ("ada", "bob"))
    slot, device, got = take(ada, make_device()), make_device(), list[str]()
    assert bob.free(device) == 0
    with waiting(bob, device, got, nodes / "nvidia1"):
        slot.release()
    assert got == ["it"]
    assert not (tmp_path / "ada").exists()


def test_a_gpu_whose_node_cannot_be_opened_is_locked_by_a_file(nodes: Path, tmp_path: Path) -> None:
    (nodes / "nvidia1").unlink()
    take(Slots(tmp_path / "ada", {"H100": ["0"]}), make_device()).release()
    assert [each.name for each in (tmp_path / "ada").iterdir()] == ["gpu-0.lock"]


def test_a_device_whose_times_mean_nothing_needs_no_lock(tmp_path: Path) -> None:
    emulated = make_device(name="emulated", backend=Backend.EMULATED)
    for _ in range(2):  # neither is released
        assert Slots(tmp_path / "run", {}).try_any(emulated) == Slot(gpus=(), files=())
    assert not (tmp_path / "run").exists()


def test_each_slot_has_its_gpus(tmp_path: Path) -> None:
    slots = Slots(tmp_path, {"H100": ["0", "3"]})
    first, second = take(slots), take(slots)
    assert (first.gpus, second.gpus) == (("0",), ("3",))
    first.release()
    second.release()


def test_two_devices_on_one_gpu_exclude_each_other(tmp_path: Path) -> None:
    quad = make_device(name="H100x4")
    slots = Slots(tmp_path, {"H100": ["0", "1"], "H100x4": ["0,1,2,3"]})
    slot = take(slots, quad)
    assert slot.gpus == ("0", "1", "2", "3")
    assert slots.free(PAIR) == 0
    slot.release()
    one = take(slots)
    assert (slots.free(PAIR), slots.free(quad)) == (1, 0)
    one.release()
    assert slots.free(quad) == 1


def test_a_slot_stays_taken_while_a_child_that_inherited_it_lives(slots: Slots) -> None:
    single = make_device()
    slot = take(slots, single)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=slot.files) as child:
        slot.release()
        assert slots.free(single) == 0
    assert child.returncode == 0
    assert slots.free(single) == 1


def test_odd_names_stay_inside_the_folder(tmp_path: Path) -> None:
    slots = Slots(tmp_path / "run", {"H100": ["../../GPU-1/x"]})
    take(slots).release()
    assert len(list((tmp_path / "run").iterdir())) == 1


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    os.symlink(tmp_path / "mine", tmp_path / "link")
    with pytest.raises(LaunchError, match="belongs to another user"):
        Slots(tmp_path / "link", {}).free(PAIR)


def test_a_folder_that_cannot_be_made_is_named_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LaunchError, match=r"file/run: no folder for locks .*KERNELCUP_RUNTIME"):
        Slots(tmp_path / "file/run", {}).free(PAIR)


def test_a_lock_that_cannot_be_had_is_named(tmp_path: Path) -> None:
    (tmp_path / "device-H100-0.lock").mkdir()
    with pytest.raises(LaunchError, match=r"device-H100-0.lock: no lock can be had: Is a directory"):
        Slots(tmp_path, {}).free(PAIR)


def test_a_gpu_that_is_left_out_is_handed_to_nobody(tmp_path: Path) -> None:
    quad = make_device(name="H100x2")
    slots = Slots(tmp_path, {"H100": ["0", "1"], "H100x2": ["0,1"]})
    slots.left_out = frozenset({"0"})
    assert (slots.free(PAIR), slots.free(quad)) == (1, 0)
    slot = take(slots)
    assert slot.gpus == ("1",)
    slot.release()
    slots.left_out = frozenset()
    assert (slots.free(PAIR), slots.free(quad)) == (2, 1)


def test_nobody_waits_for_a_device_that_is_out_of_service(tmp_path: Path) -> None:
    slots = Slots(tmp_path, {"H100": ["0", "1"]})
    slots.left_out = frozenset({"0", "1"})
    with pytest.raises(UnfitDevice, match="every slot of H100 is out of service") as caught:
        take(slots)
    assert caught.value.gpus == ()


def test_a_gpu_that_is_left_out_can_be_taken_to_look_at_it(tmp_path: Path) -> None:
    slots = Slots(tmp_path, {"H100": ["0"]})
    slots.left_out = frozenset({"0"})
    slot = slots.try_gpu("0")
    assert slot is not None
    assert slots.try_gpu("0") is None
    slot.release()
