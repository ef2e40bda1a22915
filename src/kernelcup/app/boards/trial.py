"""The result of trying a task before a leaderboard is created for it, and the interface of whatever tries it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernelcup.domain import Task


@dataclass(frozen=True, kw_only=True, slots=True)
class Tried:
    """The result of trying a task under the standard harness."""

    fault: str = ""
    """Why the standard harness cannot judge it; empty if the task's own solutions pass."""
    undecided: str = ""
    """Why this machine is too small to try it; empty if it is not."""
    loose: tuple[str, ...] = ()
    """The wrong answers that the checker accepts, a sentence each."""
    untried: str = ""
    """Why not all wrong answers were tried; empty if they were."""
    seeds_below: int | None = None
    """The largest bound below which seeds make no poorer inputs; None if no seed does."""
    seeds_poor: bool = False
    """Whether even the smallest allowed bound makes poorer inputs."""
    seeds_open: bool = False
    """Whether seeds are few, and inputs follow from them alone."""
    seeds_why: str = ""
    """The effect of larger seeds, in words."""
    takes: str = ""
    """What a ranked run takes, in words; empty if not measured."""
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
