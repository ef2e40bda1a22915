"""What the devices of this machine can do: measured in a child process, handed to jobs, compared with canaries."""

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
from kernelcup_harness import calibration_protocol
from kernelcup_harness.calibration_protocol import DeviceCalibration
from kernelcup_harness.protocol import Backend, DeviceFacts, JobSpec, ProtocolError, RunReport, from_json

LIMIT_S = 180.0
"""A calibration takes seconds; importing torch from a cold disk takes longer."""
POLL_S = 0.05
COOL_DOWN_S = 5.0
"""How long a device rests before a canary that does not fit is taken once more."""

# `-P`: the current directory must not stand in for the harness's modules.
COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "--calibrate")

Place = tuple[str, str]
"""Device, and its GPU as in ``CUDA_VISIBLE_DEVICES``; empty where it has none."""


@runtime_checkable
class Calibrates(Protocol):
    """A launcher that can measure what the devices of this machine can do."""

    def places(self, device: Device) -> tuple[str, ...]:
        """Return the GPUs of a device, or one empty name where it has none."""
        ...

    def calibrate(self, device: Device, gpu: str, *, cancelled: threading.Event) -> DeviceCalibration | None:
        """Measure, with the GPU to ourselves; None if somebody has it.

        Raises:
            LaunchError: It could not be measured. ``LaunchCancelled``: ``cancelled`` was set.
        """
        ...

    def use_facts(self, facts: Mapping[Place, DeviceFacts]) -> None:
        """Tell jobs from now on what their device can do, and expect these canaries."""
        ...


class Bench:
    """Measures, and compares what was measured with what is expected.

    Args:
        command: The harness, to which the name of a backend is added; tests put a stand-in here.
        rest: Lets some seconds pass before a second try; something true if that is no longer wanted.
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
        """GPUs whose latest canary did not fit, and as what they were used."""
        self._drifted_jobs: set[str] = set()

    def use(self, facts: Mapping[Place, DeviceFacts]) -> None:
        """Take what is known of the devices from now on."""
        self._facts = dict(facts)

    def equip(self, spec: JobSpec, device: Device, gpus: Sequence[str]) -> JobSpec:
        """Return the job with what its device can do, as far as that is known."""
        facts = self._facts.get((device.name, gpus[0] if gpus else ""))
        return spec if facts is None else dataclasses.replace(spec, device=facts)

    def check(self, spec: JobSpec, report: RunReport, device: Device, gpus: Sequence[str]) -> None:
        """Compare the canary of a job. Raise ``UnfitDevice`` for a GPU that is not as it was.

        It was taken before the submission ran, so the job waits again unharmed. Where that happens twice
        to one job the attempt counts: nothing that a submission does may take one GPU after the other.
        """
        found = report.calibration.canary_ns if report.calibration is not None else 0.0
        if spec.device is None or found <= 0 or spec.backend is not Backend.CUDA:
            return
        if calibration_protocol.fits(found, spec.device.canary_ns, spec.device.canary_tolerance):
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
        """Measure in a child process; once more after a rest where the canary of a GPU does not fit.

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
        """Expect no canary of these GPUs until somebody says which."""
        vouched = {place: each for place, each in self._facts.items() if place[1] in gpus}
        self._facts |= {place: dataclasses.replace(each, canary_ns=0.0) for place, each in vouched.items()}
        for gpu in gpus:
            self._drifting.pop(gpu, None)

    def _fits(self, found: DeviceCalibration, place: Place) -> bool:
        """Return whether a canary is as expected, and note it. A processor's is only marked elsewhere."""
        facts = self._facts.get(place)
        if found.backend is not Backend.CUDA or facts is None:
            return True
        good = calibration_protocol.fits(found.canary_ns, facts.canary_ns, facts.canary_tolerance)
        if good:
            self._drifting.pop(place[1], None)
        else:
            self._drifting[place[1]] = place
        return good

    def _measured(
        self, backend: Backend, environ: Mapping[str, str], keep: Sequence[int], cancelled: threading.Event
    ) -> DeviceCalibration:
        # Files do not block a child that nobody reads from, as pipes would.
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
        # Not reaped before its group is killed: else its number might be somebody else's by then.
        while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            if cancelled.wait(POLL_S):
                raise LaunchCancelled("cancelled while a device was calibrated")
            if time.monotonic() > until:
                raise LaunchTimeout(f"the calibration did not end within {self._limit_s:g} s")


def decoded(out: bytes, code: int | None, log: bytes) -> DeviceCalibration:
    """Read what the harness wrote. Raise ``BadReport``."""
    try:
        return from_json(DeviceCalibration, json.loads(out.splitlines()[-1])["calibration"])
    except (IndexError, KeyError, TypeError, ValueError, ProtocolError, RecursionError) as error:
        text = log.decode("utf-8", "replace")[-2000:].strip()
        raise BadReport(f"the calibration ended with {code} and no figures: {text or error}") from error


def drift_text(canary_ns: float, facts: DeviceFacts) -> str:
    """Say how a canary differs from what it should take."""
    share = calibration_protocol.drift(canary_ns, facts.canary_ns)
    return (
        f"the canary took {canary_ns / 1e3:.1f} us, {share:+.1%} from its rolling median of "
        f"{facts.canary_ns / 1e3:.1f} us; {facts.canary_tolerance:.1%} is allowed"
    )
