"""Run the harness on this machine, as a child process."""

from __future__ import annotations

import dataclasses
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib.util import find_spec
from pathlib import Path

from kernelcup.domain import Device
from kernelcup.errors import BadReport, ConfigError, LaunchCancelled, LaunchLost, UnfitDevice
from kernelcup.launchers.base import (
    START_S,
    Event,
    LauncherSettings,
    LaunchResult,
    check_report,
    stages_s,
    with_sandbox_rule,
)
from kernelcup.launchers.bundle import PACKAGE, harness_hash
from kernelcup.launchers.gpu_health.checks import Hygiene
from kernelcup.launchers.gpu_health.cleanup import sweep
from kernelcup.launchers.gpu_health.monitor import Seen
from kernelcup.launchers.gpu_health.probe import NvmlProbe
from kernelcup.launchers.local.build_ahead import Compilers
from kernelcup.launchers.local.calibrate import Bench, Place
from kernelcup.launchers.local.gpu_locks import Slot, Slots
from kernelcup.launchers.local.harness_output import read_output
from kernelcup.launchers.local.warm_runners import Ready
from kernelcup.launchers.threads import RunsInThreads
from kernelcup_harness.isolation import passed_names
from kernelcup_harness.isolation.processes import is_killed
from kernelcup_harness.protocol import (
    Backend,
    DeviceFacts,
    JobSpec,
    RunReport,
)
from kernelcup_harness.protocol.calibration import DeviceCalibration

# `-P`: modules in the current directory must not replace those of the harness.
COMMAND = (sys.executable, "-P", "-m", "kernelcup_harness", "--die-with-parent", "--events", "-")

PASSED_ON = frozenset(
    {
        "PATH",
        "HOME",
        "USER",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "TZ",
        "TMPDIR",
        "LD_LIBRARY_PATH",
        "CC",
        "CXX",
        "OMP_NUM_THREADS",
        "NVIDIA_VISIBLE_DEVICES",
        "NVIDIA_DRIVER_CAPABILITIES",
        "TORCH_CUDA_ARCH_LIST",
    }
)
PASSED_ON_PREFIXES = ("CUDA_", "NCCL_", "NVSHMEM_", "TORCH_SYMM_MEM_", "KERNELCUP_HARNESS_")

BUILDS = "KERNELCUP_HARNESS_BUILDS"
"""The environment variable that names the machine's folder for builds to the harness."""
ENVIRONMENTS = "KERNELCUP_HARNESS_ENVIRONMENTS"
"""The environment variable that names the machine's folder of environments to the harness."""

logger = logging.getLogger(__name__)


class LocalLauncher(RunsInThreads):
    """Judges on its own machine, one job for each free slot.

    Args:
        runtime_dir: Folder for the locks that are files, the same for all processes of this user.
        environ: The environment; only allowed variables are passed on.
        gpus: For each device, the GPUs of each of its slots, as in ``CUDA_VISIBLE_DEVICES``.
        command: The harness; tests pass a stand-in.
        grace_s: Time beyond the limits of a job's stages.
        builds: The folder for compiled submissions, by default below ``runtime_dir``.
            ``KERNELCUP_HARNESS_BUILDS`` in ``environ`` takes precedence; if it is empty, nothing is kept.
        environments: The folder of the machine's environments.
        hygiene: Checks the GPUs before and after each job; None checks nothing.
        sandbox_required: Refuse ranked runs where the harness has no sandbox.
        pass_on: Additional environment variables for jobs, in the form of the configuration.
        bench: Calibrates devices and compares canaries.
        warm: The number of warm runners for each slot; None means one for each GPU slot and none for others.
        package: The harness, by default the installed one.
        while_busy: Whether new runners are started while a job runs on the same GPU; None lets the machine
            decide.
        say: Is told when :meth:`run` has to wait for other processes.
        compilers: The number of builds that run before their jobs have a slot; None lets the machine decide.
    """

    def __init__(
        self,
        *,
        runtime_dir: Path,
        environ: Mapping[str, str],
        gpus: Mapping[str, Sequence[str]] | None = None,
        command: Sequence[str] = COMMAND,
        grace_s: float = START_S,
        builds: Path | None = None,
        environments: Path | None = None,
        hygiene: Hygiene | None = None,
        sandbox_required: bool = True,
        pass_on: Sequence[str] = (),
        bench: Bench | None = None,
        warm: int | None = 0,
        while_busy: bool | None = None,
        package: Path = PACKAGE,
        say: Callable[[str], None] = lambda _text: None,
        compilers: int | None = 0,
    ) -> None:
        super().__init__()
        self._compilers = Compilers(compilers, command, grace_s=grace_s)
        self._slots = Slots(runtime_dir, gpus or {}, say=say)
        self._environ = {BUILDS: str(builds or runtime_dir / "builds"), **environ}
        if environments is not None:
            self._environ.setdefault(ENVIRONMENTS, str(environments))
        self._command = tuple(command)
        self._grace_s = grace_s
        self._hygiene = hygiene
        self._sandbox_required = sandbox_required
        self._pass_on = tuple(pass_on)
        self._bench = bench or Bench()
        self._package = package
        self._ready = Ready(self._command, warm=warm, while_busy=while_busy, package=package)

    def keep_ready(self, devices: Iterable[Device]) -> None:
        """Keep ``warm`` runners ready for jobs on these devices, until :meth:`close`."""
        for device in devices:
            for gpus in self._slots.visible(device):
                self._ready.keep(device, self._environment(gpus))

    def wait_until_ready(self, timeout_s: float) -> bool:
        """Return True once all warm runners are ready, False if that takes too long."""
        return self._ready.wait(timeout_s)

    def close(self) -> None:
        """End the warm runners."""
        self._ready.close()

    def capacity(self, device: Device) -> int:
        """Return how many slots are free; of an emulated device, which others do not share, all but our own jobs'."""
        ours = [*self._unfinished.values()].count(device.name)
        return self._slots.free(device) - (ours if device.backend is Backend.EMULATED else 0)

    def run(
        self,
        spec: JobSpec,
        device: Device,
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> LaunchResult:
        """Judge in a child process, which has ended with its whole group when this returns."""
        spec = with_sandbox_rule(spec, required=self._sandbox_required)
        environ = self._environment(self._slots.visible(device)[0] if spec.backend is Backend.CUDA else ())
        ended = self._compilers.compile(spec, environ, on_event=on_event, cancelled=cancelled)
        if ended is not None:
            check_report(spec, ended)
            identity = harness_hash(self._package)
            return LaunchResult(report=ended, machine=socket.gethostname(), harness_hash=identity)
        slot = self._slots.take(device, cancelled=cancelled)
        gpus = slot.gpus if spec.backend is Backend.CUDA else ()
        spec = self._bench.equip(spec, device, gpus)
        try:
            self._check_before(gpus, cancelled)
            identity = harness_hash(self._package)
            with self._watched(gpus) as seen:
                report = self._judge(spec, device, slot, on_event=on_event, cancelled=cancelled)
            report = self._with_seen(report, seen)
            unfit = self._check_after(gpus, cancelled)
            self._bench.check(spec, report, device, gpus)
        except UnfitDevice as error:
            self._take_out(error)  # before others can have the slot
            raise
        finally:
            slot.release()
        check_report(spec, report)
        return LaunchResult(
            report=report,
            machine=socket.gethostname(),
            harness_hash=identity,
            unfit=unfit,
            facts=spec.device,
        )

    def places(self, device: Device) -> tuple[str, ...]:
        """Return the GPUs of a device, or one empty name if it has none."""
        return self._slots.gpus(device) or ("",)

    def calibrate(self, device: Device, gpu: str, *, cancelled: threading.Event) -> DeviceCalibration | None:
        """Calibrate a device with exclusive use of the GPU; return None if it is in use.

        Raise ``LaunchError``.
        """
        slot = self._slots.try_gpu(gpu) if gpu else self._slots.try_any(device)
        if slot is None:
            return None
        try:
            environ = self._environment(slot.gpus)
            return self._bench.measure(device, gpu, environ=environ, keep=slot.files, cancelled=cancelled)
        finally:
            slot.release()

    def use_facts(self, facts: Mapping[Place, DeviceFacts]) -> None:
        """Pass these figures to jobs from now on, and expect these canaries."""
        self._bench.use(facts)

    def leave_out(self, gpus: frozenset[str]) -> None:
        """Start nothing on these GPUs until the next call; all others may be used again."""
        self._slots.left_out = gpus

    def look_again(self, gpu: str) -> None:
        """Check a GPU once. Raise ``UnfitDevice`` if it is not fit."""
        slot = self._slots.try_gpu(gpu)
        if slot is None:
            raise UnfitDevice(f"GPU {gpu}: another KernelCup process uses it")
        try:
            if self._hygiene is not None:
                self._hygiene.look_again([gpu])
            self._bench.look_again(gpu, environ=self._environment(slot.gpus), keep=slot.files)
        finally:
            slot.release()

    def forget(self, gpus: frozenset[str]) -> None:
        """Accept the current state of the GPUs as their baseline, because an operator vouches for them."""
        self._bench.forget(gpus)
        if self._hygiene is not None:
            self._hygiene.forget(sorted(gpus))

    def _check_before(self, gpus: Sequence[str], cancelled: threading.Event) -> None:
        if self._hygiene is not None:
            self._hygiene.before(gpus, wait=cancelled.wait)

    def _watched(self, gpus: Sequence[str]) -> AbstractContextManager[Seen]:
        return nullcontext(Seen()) if self._hygiene is None else self._hygiene.during(gpus)

    def _with_seen(self, report: RunReport, seen: Seen) -> RunReport:
        """Return the report with the observations during the job. Raise ``UnfitDevice`` if they spoil it."""
        if self._hygiene is None or not seen.looks:
            return report
        self._hygiene.check_seen(seen)
        environment = {**report.environment, "gpu_watch": seen.as_object()}
        return dataclasses.replace(report, environment=environment)

    def _check_after(self, gpus: Sequence[str], cancelled: threading.Event) -> UnfitDevice | None:
        """Return a fault that does not affect the report, raise one that makes it worthless."""
        if self._hygiene is None:
            return None
        try:
            self._hygiene.after(gpus, wait=cancelled.wait)
        except UnfitDevice as error:
            if error.spoils:
                raise
            self._take_out(error)
            return error
        except LaunchCancelled:
            pass  # the report is complete, and the next job makes its own check
        return None

    def _take_out(self, error: UnfitDevice) -> None:
        self._slots.left_out |= set(error.gpus)

    def _judge(
        self,
        spec: JobSpec,
        device: Device,
        slot: Slot,
        *,
        on_event: Callable[[Event], None],
        cancelled: threading.Event,
    ) -> RunReport:
        environ = self._environment(slot.gpus if spec.backend is Backend.CUDA else ())
        until = time.monotonic() + stages_s(spec) + self._grace_s
        with self._ready.started(spec, device, environ, keep=slot.files) as child:
            found = read_output(child, until=until, cancelled=cancelled, on_event=on_event)
        if found.report is None:
            text = f"the harness ended with {found.code} and no report; its log: {found.log or '-'}"
            raise LaunchLost(text) if is_killed(found.code) else BadReport(text)
        if found.code != 0:
            logger.warning(
                "%s: the harness reported and then ended with %d: %s", spec.job_id, found.code, found.log
            )
        return found.report

    def _environment(self, gpus: Sequence[str]) -> dict[str, str]:
        found = child_environ(self._environ, gpus=gpus, pass_on=self._pass_on)
        return found if self._package == PACKAGE else {**found, "PYTHONPATH": str(self._package.parent)}


def make(
    settings: LauncherSettings,
    *,
    package: Path = PACKAGE,
    say: Callable[[str], None] = lambda _text: None,
    compilers: int | None = None,
) -> LocalLauncher:
    """Return this machine's launcher, by default for the installed harness. Other arguments are those of its class.

    Raise ``ConfigError`` if PyTorch is not installed.
    """
    check_torch()
    return LocalLauncher(
        runtime_dir=settings.runtime_dir,
        environ=settings.environ,
        gpus=settings.slot_gpus,
        builds=settings.data_dir / "builds",
        environments=settings.data_dir / "environments",
        hygiene=Hygiene(NvmlProbe(), sweep=sweep) if settings.slot_gpus else None,
        sandbox_required=settings.sandbox_required,
        pass_on=settings.sandbox_environment,
        warm=settings.warm,
        while_busy=settings.refill_beside,
        package=package,
        say=say,
        compilers=compilers,
    )


def check_torch() -> None:
    """Raise ``ConfigError`` if PyTorch is not installed."""
    if find_spec("torch") is None:
        raise ConfigError("judging needs PyTorch, which is not installed: pip install torch==2.13.0 numpy")


def child_environ(
    environ: Mapping[str, str], *, gpus: Sequence[str] = (), pass_on: Sequence[str] = ()
) -> dict[str, str]:
    """Return the harness's environment: no secrets, and only its own GPUs."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES) or passed_names.passes(name, pass_on)
    }
    if pass_on:
        kept[passed_names.VARIABLE] = ",".join(pass_on)
    if gpus:
        # the GPUs' numbers come from NVML, which counts in bus order
        kept |= {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpus)}
    return kept
