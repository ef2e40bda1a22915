from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from builders import make_device
from kernelcup.errors import LaunchCancelled, LaunchError
from kernelcup.launchers.slots import Slot, Slots

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


def test_devices_do_not_share_slots(slots: Slots) -> None:
    slot = take(slots, make_device(name="A100"))
    assert slots.free(PAIR) == 2
    slot.release()


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


def test_waiting_ends_when_a_slot_is_free(slots: Slots) -> None:
    held = [take(slots), take(slots)]
    threading.Timer(0.01, held[0].release).start()
    take(slots).release()
    held[1].release()


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
    with pytest.raises(LaunchError, match="belongs to somebody else"):
        Slots(tmp_path / "link", {}).free(PAIR)
