"""Samplers in processes of their own, with a sampler that has no GPU."""

from __future__ import annotations

import os
from typing import Any

import pytest

from kernelcup_harness.device.nvidia.pm_sampling import Sample
from kernelcup_harness.device.nvidia.samplers import SamplerApart
from kernelcup_harness.window.reasons import NoCounters

SAMPLES = [Sample(0, 2_000, (1.0, 2.0)), Sample(2_000, 4_000, (0.0, 2.0))]


class Counted:
    def __init__(self) -> None:
        self._running = False

    def start(self) -> None:
        if self._running:
            raise NoCounters("it runs already")
        self._running = True

    def stop(self) -> None:
        self._running = False

    def read(self) -> list[Sample]:
        return SAMPLES


def apart(make: Any) -> SamplerApart:
    return SamplerApart(make)


def test_what_a_sampler_refuses_is_refused_here_and_it_goes_on() -> None:
    sampler = apart(Counted)
    sampler.wait()
    sampler.start()
    with pytest.raises(NoCounters, match="it runs already"):
        sampler.start()
    sampler.stop()
    assert sampler.read() == SAMPLES


def test_a_sampler_that_cannot_be_made_says_why() -> None:
    def refused() -> Counted:
        raise NoCounters("the driver keeps them")

    with pytest.raises(NoCounters, match="the driver keeps them"):
        apart(refused).wait()


def test_a_sampler_whose_process_ends_is_a_refusal() -> None:
    class Dying(Counted):
        def start(self) -> None:
            os._exit(1)

    sampler = apart(Dying)
    sampler.wait()
    for _ in range(2):
        with pytest.raises(NoCounters, match="the process of a sampler has ended"):
            sampler.start()
