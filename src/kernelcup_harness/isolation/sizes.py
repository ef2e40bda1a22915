"""How many GPUs a job and its cases take. Without torch."""

from __future__ import annotations

from kernelcup_harness.protocol import JobSpec
from kernelcup_harness.protocol.base import Parameters

# This variable says on how many GPUs a judge and a contestant work, each with a process for one of them.
RANKS = "KERNELCUP_RANKS"


def ranks_of(spec: JobSpec) -> int:
    """Return how many processes are called at once, the largest ``world_size``; 0 if the task is not ``multi_gpu``."""
    cases = [*spec.tests, *spec.benchmarks, *spec.hidden_tests, *spec.hidden_benchmarks]
    return max(map(world_size_of, cases), default=1) if spec.multi_gpu else 0


def world_size_of(case: Parameters) -> int:
    """Return on how many GPUs a case is called; 1 if it does not say."""
    found = case.get("world_size")
    return found if isinstance(found, int) and found > 0 else 1
