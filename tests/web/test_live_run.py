"""Nothing is played by hand here: a browser submits, the real harness judges, and another browser sees it."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from builders import make_board, make_device, make_submission, make_task
from kernelcup.app.queue.dispatcher import Dispatcher
from kernelcup.config.settings import Config
from kernelcup.http.state import Platform
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.protocol import Backend

pytestmark = pytest.mark.jobs

DEVICE = make_device(name="emulated", backend=Backend.EMULATED, launcher="local")
JUDGED_MS = 60_000
REFERENCE = """\
import torch


def generate_input(size: int, seed: int) -> torch.Tensor:
    if size == 32:
        open({gate!r}).read()  # returns once the test has seen what the page shows
    return torch.rand(size, device="cuda")


def ref_kernel(data: torch.Tensor) -> torch.Tensor:
    return data * 2


def check_implementation(data: torch.Tensor, output: torch.Tensor) -> str:
    return "" if torch.equal(ref_kernel(data), output) else "not the double"
"""
SLOW = b"""\
import time


def custom_kernel(data):
    time.sleep(0.005)
    return data * 2
"""


class Gate:
    """A file that can be read at once, or, while the gate is closed, not to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._writer: int | None = None

    def close(self) -> None:
        """Have those who read it wait."""
        self.path.unlink()
        os.mkfifo(self.path)
        self._writer = os.open(self.path, os.O_RDWR)

    def open(self) -> None:
        """Let those who wait go on, and later ones at once."""
        if self._writer is None:
            return
        after = self.path.with_suffix(".after")
        after.touch()
        after.replace(self.path)
        os.close(self._writer)
        self._writer = None


@pytest.fixture
def config(config: Config) -> Config:
    """A configuration with this machine's emulated device."""
    return dataclasses.replace(config, configured_devices=(DEVICE,))


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """What the second test case waits for."""
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.open()


@pytest.fixture
def dispatcher(platform: Platform, gate: Gate, tmp_path: Path) -> Iterator[None]:
    """The queue is worked off as in ``kernelcup serve``; the sandbox is off, since it would hide the gate."""
    environ = os.environ | {"KERNELCUP_HARNESS_SANDBOX": "none"}
    launcher = LocalLauncher(runtime_dir=tmp_path / "run", environ=environ, sandbox_required=False, warm=1)
    launcher.keep_ready([DEVICE])
    dispatcher = Dispatcher(
        platform.db, devices=[DEVICE], launchers={"local": launcher}, clock=platform.clock, tick_s=0.05
    )
    stop = threading.Event()
    thread = threading.Thread(target=dispatcher.run_forever, args=[stop])
    thread.start()
    yield
    gate.open()
    stop.set()
    thread.join()
    launcher.close()


def test_a_run_is_followed_from_the_editor_to_the_board_in_another_browser(
    db, visitor, person, dispatcher, gate
) -> None:
    task = make_task(
        sources={"reference.py": REFERENCE.format(gate=str(gate.path))},
        tests=[{"size": 16, "seed": 1}, {"size": 32, "seed": 1}],
        benchmarks=[{"size": 64, "seed": 2}],
    )
    make_board(db, task=task, devices=["emulated"])
    board = visitor().open("/b/double")
    board.evaluate("window.isTheSame = true")
    make_submission(db, user="grace", devices=["emulated"], content=SLOW)
    page = visitor(person("ada")).open("/b/double/submit")
    ranking = board.locator("tbody tr")
    expect(ranking).to_contain_text(["grace"], timeout=JUDGED_MS)
    gate.close()

    page.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.type("def custom_kernel(data):\nreturn data * 2")
    page.get_by_label("Ranked").check()
    page.get_by_role("button", name="Submit", exact=True).click()
    expect(page.locator(".steps")).to_contain_text("tests 1 of 2", timeout=JUDGED_MS)
    expect(page.get_by_role("heading", name="It is being judged")).to_be_visible()
    expect(ranking).to_have_count(1)

    gate.open()
    expect(page.locator("h1 .verdict")).to_have_text("accepted", timeout=JUDGED_MS)
    expect(page.locator("#head .lead")).to_contain_text("rank 1")
    expect(page.locator("#results")).to_contain_text("Ranked benchmarks 1 of 1 right")
    expect(ranking).to_contain_text(["grace", "ada"], timeout=JUDGED_MS)
    assert board.evaluate("window.isTheSame")
