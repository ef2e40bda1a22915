"""What can judge a task: the devices, on others each submission would end as internal_error; and its trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelcup.domain import Device, Language, Task
from kernelcup.errors import EnvironmentMissing, InvalidValue
from kernelcup.tasks.manifest.c_interface import reference_of
from kernelcup.tasks.manifest.reference import REFERENCE, line_on_gpu
from kernelcup_harness.protocol import Backend, HarnessKind


def check_judgeable(task: Task, names: Sequence[str], known: Sequence[Device] | None) -> None:
    """Raise ``InvalidValue`` if one of a leaderboard's devices cannot judge its task.

    Args:
        names: The leaderboard's devices.
        known: The configured devices; None means unknown, so nothing is refused.
    """
    if known is None:
        return
    for name in names:
        if (reason := why_not(task, name, known)) is not None:
            raise InvalidValue(f"Device {name!r} cannot judge task {task.name!r}: {reason}")
        if (reason := lacks_environment(task, name, known)) is not None:
            raise EnvironmentMissing(f"Device {name!r} cannot judge task {task.name!r}: {reason}")


def why_not(task: Task, name: str, known: Sequence[Device]) -> str | None:
    """Return why a device cannot judge a task and how to fix that, None if it can."""
    if (too_many := too_many_ranks(task, name, known)) is not None:
        return too_many
    backends = {device.name.lower(): device.backend for device in known}
    gpus = [device for device in known if device.backend is Backend.CUDA]
    if needs_nvcc(task) and backends.get(name.lower(), Backend.CUDA) is not Backend.CUDA:
        return f"it is CUDA C++, whose kernels need a GPU; only C++ (`.cpp`) is judged without one. {_instead(gpus)}"
    line = line_on_gpu(task.sources) if backends.get(name.lower()) is Backend.CPU else None
    if line is None:
        return None
    return (
        f"{REFERENCE}, line {line}, makes its inputs on a GPU, which this device does not have. "
        f"{_instead(known)}"
    )


def too_many_ranks(task: Task, name: str, known: Sequence[Device]) -> str | None:
    """Return which cases take more GPUs than a job on a device has, None if none does; a processor stands in for any
    number of them."""
    device = next((each for each in known if each.name.lower() == name.lower()), None)
    if not task.multi_gpu or device is None or device.backend is not Backend.CUDA:
        return None
    sizes = {
        f"{key}.{index}": int(case.get("world_size", 1))
        for key in ("tests", "benchmarks", "hidden_tests", "hidden_benchmarks")
        for index, case in enumerate(getattr(task, key))
    }
    large = [f"{place} ({size})" for place, size in sizes.items() if size > device.gpus]
    if not large:
        return None
    fitting = [each.name for each in known if each.gpus >= max(sizes.values())]
    return (
        f"it has {device.gpus} GPU{'s' if device.gpus > 1 else ''}, fewer than the `world_size` of {', '.join(large)}. "
        + (f"Use another device: {', '.join(fitting)}." if fitting else DEVICE_OF_SEVERAL)
    )


DEVICE_OF_SEVERAL = "Configure a device of several GPUs: `H100x2` takes two of one host for each job."


def needs_nvcc(task: Task) -> bool:
    """Return whether a task has CUDA C++ that its functions or its own harness are made of."""
    if task.lang is not Language.CUDA:
        return False
    reference = reference_of(task.sources)
    if task.harness is HarnessKind.STANDARD:
        return reference is not None and not reference.endswith(".cpp")
    return task.main is not None and not task.main.endswith(".cpp")


def lacks_environment(task: Task, name: str, known: Sequence[Device]) -> str | None:
    """Return why a device's machine lacks what a task is built in, None if it does not or that is not known."""
    device = next((each for each in known if each.name.lower() == name.lower()), None)
    there = device.environments if device is not None else None
    if not task.environment or there is None or task.environment in there:
        return None
    has = ", ".join(sorted(there)) or "no other than the default"
    return (
        f"its machine has no environment {task.environment!r} (it has {has}). "
        "`kernelcup env build` makes one from a lock file."
    )


def _instead(known: Sequence[Device]) -> str:
    others = [device.name for device in known if device.backend is not Backend.CPU]
    if not others:
        return "There is no other device here."
    return f"Use another device: {', '.join(others)}."


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """The result of trying a task under the standard harness."""

    fault: str = ""
    """Why the standard harness cannot judge it; empty if the task's own solutions pass."""
    undecided: str = ""
    """Why this machine is too small to try it; empty if it is not."""
    loose: tuple[str, ...] = ()
    """The wrong answers that the checker accepts, a sentence each."""
    notes: tuple[str, ...] = ()
    """What could not be tried, what a ranked run takes, and how one of the reference ends if not well."""
    seeds_below: int | None = None
    """The largest bound below which seeds make no poorer inputs; None if no seed does."""
    seeds_poor: bool = False
    """Whether even the smallest allowed bound makes poorer inputs."""
    seeds_open: bool = False
    """Whether seeds are few, and inputs follow from them alone."""
    seeds_why: str = ""
    """The effect of larger seeds, in words."""
    reference_s: tuple[float, ...] = ()
    """Seconds of a call of the reference with input and check, benchmark by benchmark; empty if not measured."""


class TaskTrial(Protocol):
    """Tries tasks."""

    def try_task(self, task: Task, devices: Sequence[str], *, solutions: bool) -> Tried | None:
        """Try a task for these devices; return None if it cannot be tried now.

        Args:
            solutions: Whether each template that the task's own harness accepts must pass as well.

        Raises:
            TaskTooSlow: 16 samples of each benchmark do not fit into a ranked stage.
        """
        ...
