"""Check that devices can judge a task: on any other device, each submission would end as internal_error."""

from __future__ import annotations

from collections.abc import Sequence

from kernelcup.domain import Device, Language, Task
from kernelcup.errors import InvalidValue
from kernelcup.tasks.manifest.reference import REFERENCE, line_on_gpu
from kernelcup_harness.protocol import Backend


def check_judgeable(task: Task, names: Sequence[str], known: Sequence[Device] | None) -> None:
    """Raise ``InvalidValue`` if one of a leaderboard's devices cannot judge its task.

    Args:
        task: The task.
        names: The leaderboard's devices.
        known: The configured devices; None means unknown, so nothing is refused.
    """
    if known is None:
        return
    for name in names:
        if (reason := why_not(task, name, known)) is not None:
            raise InvalidValue(f"Device {name!r} cannot judge task {task.name!r}: {reason}")


def why_not(task: Task, name: str, known: Sequence[Device]) -> str | None:
    """Return why a device cannot judge a task and how to fix that, None if it can."""
    if task.lang is Language.CUDA:
        return (
            "it is CUDA C++ (`lang: cu`), and only Python tasks can be judged yet. Submissions to a Python "
            "task may build CUDA C++ with torch's `load_inline`."
        )
    if task.multi_gpu:
        return (
            "it is `multi_gpu`, and no device here gives a job more than one GPU, whichever harness judges. "
            "Leave `multi_gpu` out to have it judged on one GPU."
        )
    backends = {device.name.lower(): device.backend for device in known}
    line = line_on_gpu(task.sources) if backends.get(name.lower()) is Backend.CPU else None
    if line is None:
        return None
    return (
        f"{REFERENCE}, line {line}, makes its inputs on a GPU, which this device does not have. "
        f"{_instead(known)}"
    )


def _instead(known: Sequence[Device]) -> str:
    others = [device.name for device in known if device.backend is not Backend.CPU]
    if not others:
        return "There is no other device here."
    return f"Use another device: {', '.join(others)}."
