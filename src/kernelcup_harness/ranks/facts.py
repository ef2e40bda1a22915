"""What a report says about GPU ranks: how many, how they communicate, and the times of each."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from kernelcup_harness.device.nvidia import topology
from kernelcup_harness.isolation.sizes import ranks_of
from kernelcup_harness.protocol import Backend, JobSpec, StageName


class RankFacts:
    """Collects the facts. On GPUs the constructor begins to ask for the topology.

    Args:
        spec: The job.
    """

    def __init__(self, spec: JobSpec) -> None:
        self._spec = spec
        self._topology = topology.Topology() if spec.backend is Backend.CUDA else None
        self._facts: dict[str, Any] = {"count": ranks_of(spec), "communication": communication(spec)}
        self._cases: list[dict[str, Any]] = []

    def environment(self) -> dict[str, Any]:
        """Return the facts for the environment of a report."""
        if self._topology is not None:
            if kinds := topology.summary(self._topology.links()):
                self._facts["topology"] = kinds
            self._topology = None
        cases = {"cases": list(self._cases)} if self._cases else {}
        return {"ranks": self._facts | cases}

    def add(
        self,
        stage: StageName,
        index: int,
        times_ns: Mapping[tuple[StageName, int], Sequence[Sequence[float]]],
    ) -> None:
        """Add the times of a case, if it has any: for each call those of all ranks."""
        if calls := times_ns.get((stage, index)):
            rank_us = [round(statistics.median(times) / 1e3, 3) for times in zip(*calls, strict=True)]
            skew_us = round(statistics.median(max(call) - min(call) for call in calls) / 1e3, 3)
            self._cases.append({"stage": stage.value, "case": index, "rank_us": rank_us, "skew_us": skew_us})


def communication(spec: JobSpec) -> str:
    """Return the library that collectives go through, with its version."""
    if spec.backend is not Backend.CUDA:
        return "gloo (nccl is answered by it)"
    import torch

    return "nccl " + ".".join(map(str, torch.cuda.nccl.version()))
