from __future__ import annotations

import subprocess
import sys

import pytest

from kernelcup.app.machines.process_identity import current_owner, is_gone

HERE = current_owner()


def owner_of(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().decode().strip()


@pytest.fixture
def process():
    module = "kernelcup.app.machines.process_identity"
    code = f"from {module} import current_owner; print(current_owner(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield process
        process.kill()


def replaced(part: int, value: str) -> str:
    parts = HERE.split(":")
    parts[part] = value
    return ":".join(parts)


def test_this_process_is_not_gone() -> None:
    assert not is_gone(HERE)


def test_a_living_process_is_not_gone(process) -> None:
    assert not is_gone(owner_of(process))


def test_a_killed_process_is_gone_also_before_it_is_reaped(process) -> None:
    owner = owner_of(process)
    process.kill()
    assert process.stdout.read() == b""  # it has closed its files, so it is at least a zombie
    while not is_gone(owner):
        pass
    assert process.returncode is None
    process.wait()
    assert is_gone(owner)


def test_a_process_that_got_the_number_of_a_dead_one_is_not_taken_for_it() -> None:
    assert is_gone(replaced(-1, "1"))


def test_a_process_from_before_the_last_boot_is_gone() -> None:
    assert is_gone(replaced(1, "another-boot"))


@pytest.mark.parametrize("part", [0, 2])
def test_nothing_is_known_about_other_machines_and_containers(part: int) -> None:
    assert not is_gone(replaced(part, "other"))


@pytest.mark.parametrize("owner", ["", "somebody", "a:b:c", "a:b:c:d:e", ":::1:", "?:?:?:1:2"])
def test_an_owner_in_another_form_is_not_taken_for_dead(owner: str) -> None:
    assert not is_gone(owner)
