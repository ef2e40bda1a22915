"""Calibrate this machine's devices in a child process, pass the figures to jobs, and compare canaries."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol, runtime_checkable

from kernelcup.domain import Device
from kernelcup.errors import BadReport, LaunchCancelled, LaunchError, LaunchTimeout, UnfitDevice
from kernelcup_harness.protocol import (
    Backend,
    DeviceFacts,
    JobSpec,
    ProtocolError,
    RunReport,
    calibration,
    from_json,
)
from kernelcup_harness.protocol.calibration import DeviceCalibration

LIMIT_S = 180.0
"""A calibration takes seconds; importing torch from a cold disk takes longer."""
POLL_S = 0.05
COOL_DOWN_S = 5.0
"""How long a device rests before a canary that does not fit is measured again."""

# `-P`: modules in the current directory must not replace those of the harness.
COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "--calibrate")

Place = tuple[str, str]
"""A device, and its GPU as in ``CUDA_VISIBLE_DEVICES``; empty if it has none."""


@runtime_checkable
class Calibrates(Protocol):
    """A launcher that can calibrate the devices of this machine."""

    def places(self, device: Device) -> tuple[str, ...]:
        """Return the GPUs of a device, or one empty name if it has none."""
        ...

    def calibrate(self, device: Device, gpu: str, *, cancelled: threading.Event) -> DeviceCalibration | None:
        """Calibrate with exclusive use of the GPU; return None if it is in use.

        Raises:
            LaunchError: It could not be measured. ``LaunchCancelled``: ``cancelled`` was set.
        """
        ...

    def use_facts(self, facts: Mapping[Place, DeviceFacts]) -> None:
        """Pass these figures to jobs from now on, and expect these canaries."""
        ...


class Bench:
    """Calibrates devices, and compares canaries with their expected times.

    Args:
        command: The harness, to which the name of a backend is added; tests pass a stand-in.
        rest: Waits some seconds before a second try; returns a true value if that is no longer wanted.
    """

    def __init__(
        self,
        *,
        command: Sequence[str] = COMMAND,
        limit_s: float = LIMIT_S,
        rest: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._command = tuple(command)
        self._limit_s = limit_s
        self._rest = rest
        self._facts: dict[Place, DeviceFacts] = {}
        self._drifting: dict[str, Place] = {}
        """GPUs whose latest canary did not fit, with the device they were used as."""
        self._drifted_jobs: set[str] = set()

    def use(self, facts: Mapping[Place, DeviceFacts]) -> None:
        """Set the devices' figures."""
        self._facts = dict(facts)

    def equip(self, spec: JobSpec, device: Device, gpus: Sequence[str]) -> JobSpec:
        """Return the job with the known figures of its device."""
        facts = self._facts.get((device.name, gpus[0] if gpus else ""))
        return spec if facts is None else dataclasses.replace(spec, device=facts)

    def check(self, spec: JobSpec, report: RunReport, device: Device, gpus: Sequence[str]) -> None:
        """Compare the canary of a job. Raise ``UnfitDevice`` for a GPU that has drifted, or does not time our calls.

        The canary was measured before the submission ran, so the attempt does not count. If this happens twice to
        one job, it does: no submission may take one GPU after another out of service.
        """
        if trouble := report.environment.get("own_job"):
            self._drifting |= {gpu: (device.name, gpu) for gpu in gpus}
            raise UnfitDevice(f"GPU {', '.join(gpus)}, with the judge's own calls: {trouble}", gpus=gpus)
        found = report.calibration.canary_ns if report.calibration is not None else 0.0
        if spec.device is None or found <= 0 or spec.backend is not Backend.CUDA:
            return
        if calibration.fits(found, spec.device.canary_ns, spec.device.canary_tolerance):
            self._drifted_jobs.discard(spec.job_id)
            return
        again = spec.job_id in self._drifted_jobs
        self._drifted_jobs.add(spec.job_id)
        self._drifting |= {gpu: (device.name, gpu) for gpu in gpus}
        text = drift_text(found, spec.device)
        raise UnfitDevice(f"GPU {', '.join(gpus)} before the job: {text}", gpus=gpus, spoils=again)

    def measure(
        self,
        device: Device,
        gpu: str,
        *,
        environ: Mapping[str, str],
        keep: Sequence[int],
        cancelled: threading.Event,
    ) -> DeviceCalibration:
        """Calibrate in a child process; if the canary of a GPU does not fit, once more after a rest.

        Raise ``LaunchError``.
        """
        found = self._measured(device.backend, environ, keep, cancelled)
        if self._fits(found, (device.name, gpu)):
            return found
        if self._rest(cancelled, COOL_DOWN_S):
            raise LaunchCancelled("cancelled while a device cooled down")
        found = self._measured(device.backend, environ, keep, cancelled)
        self._fits(found, (device.name, gpu))
        return found

    def look_again(self, gpu: str, *, environ: Mapping[str, str], keep: Sequence[int]) -> None:
        """Measure a GPU that had drifted. Raise ``UnfitDevice`` if it still does, or cannot be measured."""
        place = self._drifting.get(gpu)
        if place is None:
            return
        try:
            found = self._measured(Backend.CUDA, environ, keep, threading.Event())
        except LaunchError as error:
            raise UnfitDevice(f"GPU {gpu}: {error}", gpus=[gpu]) from error
        if not self._fits(found, place):
            raise UnfitDevice(f"GPU {gpu}: {drift_text(found.canary_ns, self._facts[place])}", gpus=[gpu])

    def forget(self, gpus: frozenset[str]) -> None:
        """Expect no canary of these GPUs until new figures are set."""
        vouched = {place: each for place, each in self._facts.items() if place[1] in gpus}
        self._facts |= {place: dataclasses.replace(each, canary_ns=0.0) for place, each in vouched.items()}
        for gpu in gpus:
            self._drifting.pop(gpu, None)

    def _fits(self, found: DeviceCalibration, place: Place) -> bool:
        """Return whether a canary fits, and remember the result. A processor's drift is only marked elsewhere."""
        facts = self._facts.get(place)
        if found.backend is not Backend.CUDA or facts is None:
            return True
        good = calibration.fits(found.canary_ns, facts.canary_ns, facts.canary_tolerance)
        if good:
            self._drifting.pop(place[1], None)
        else:
            self._drifting[place[1]] = place
        return good

    def _measured(
        self, backend: Backend, environ: Mapping[str, str], keep: Sequence[int], cancelled: threading.Event
    ) -> DeviceCalibration:
        # Files instead of pipes, which would block a child while nothing reads them.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as log:
            try:
                child = subprocess.Popen(
                    [*self._command, backend.value],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=log,
                    env=dict(environ),
                    start_new_session=True,
                    pass_fds=keep,
                )
            except OSError as error:
                raise LaunchError(f"the harness cannot be started: {error}") from error
            with child:
                try:
                    self._await(child, cancelled)
                finally:
                    with suppress(ProcessLookupError, PermissionError):
                        os.killpg(child.pid, signal.SIGKILL)
            out.seek(0)
            log.seek(0)
            return decoded(out.read(), child.returncode, log.read())

    def _await(self, child: subprocess.Popen[bytes], cancelled: threading.Event) -> None:
        until = time.monotonic() + self._limit_s
        # Do not reap it before its group is killed: its number could be reused by then.
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if cancelled.wait(POLL_S):
                raise LaunchCancelled("cancelled while a device was calibrated")
            if time.monotonic() > until:
                raise LaunchTimeout(f"the calibration did not end within {self._limit_s:g} s")


def decoded(out: bytes, code: int | None, log: bytes) -> DeviceCalibration:
    """Parse the harness's output. Raise ``BadReport``."""
    try:
        return from_json(DeviceCalibration, json.loads(out.splitlines()[-1])["calibration"])
    except (IndexError, KeyError, TypeError, ValueError, ProtocolError, RecursionError) as error:
        text = log.decode("utf-8", "replace")[-2000:].strip()
        raise BadReport(f"the calibration ended with {code} and no figures: {text or error}") from error


def drift_text(canary_ns: float, facts: DeviceFacts) -> str:
    """Return how a canary differs from its expected time, in words."""
    share = calibration.drift(canary_ns, facts.canary_ns)
    return (
        f"the canary took {canary_ns / 1e3:.1f} us, {share:+.1%} from its rolling median of "
        f"{facts.canary_ns / 1e3:.1f} us; {facts.canary_tolerance:+.1%} is allowed"
    )
