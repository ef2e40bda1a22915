"""The state of the device beside the calls: its canary before the job, its clock, and what slows it down."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from kernelcup_harness.core.verdict import RunEnds
from kernelcup_harness.device import calibration
from kernelcup_harness.device.port import Gauge
from kernelcup_harness.protocol import JobSpec, Reason, Verdict

LOOK_EVERY_S = 0.025
"""The driver answers slowly, and its figures do not change from one call to the next."""


@dataclass(slots=True)
class DeviceWatch:
    """Looks at the device now and then."""

    gpu: bool
    gauge: Gauge
    seen: tuple[float | None, bool] = (None, False)
    looked: float = -math.inf

    def look(self) -> tuple[float | None, bool]:
        """Return the clock in MHz, and whether the device is slowed down: now, or a few calls ago."""
        if time.monotonic() - self.looked >= LOOK_EVERY_S:
            self.seen = self.gauge.clock_mhz(), self.gauge.is_slowed_down()
            self.looked = time.monotonic()
        return self.seen


def canary(spec: JobSpec) -> calibration.CanaryCheck:
    """Time the canary on the device, which is ours alone. Raise ``RunEnds`` if that fails."""
    try:
        return calibration.check_canary(spec.backend, spec.device)
    except RuntimeError as error:
        text = f"the device could not be examined before the job: {error}"
        raise RunEnds(Verdict.INTERNAL_ERROR, Reason.MACHINE, text[:2000]) from error


def device_name(*, gpu: bool) -> str:
    """Return the name of the device, empty for the processor."""
    if not gpu:
        return ""
    import torch

    return str(torch.cuda.get_device_name(0))
