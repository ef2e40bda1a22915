"""The harnesses that an agent has: the installed one, and those that it fetched by their hash."""

from __future__ import annotations

import io
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from kernelcup.domain import Device
from kernelcup.errors import BadReport, LaunchError, UnfitDevice
from kernelcup.launchers.base import LaunchResult
from kernelcup.launchers.bundle import PACKAGE, harness_hash
from kernelcup.launchers.local.calibrate import Place
from kernelcup.launchers.local.launcher import LocalLauncher
from kernelcup_harness.protocol import DeviceFacts
from kernelcup_harness.protocol.calibration import DeviceCalibration

LOOK_AGAIN_S = 60.0
"""How long a GPU that is out of service rests before it is checked again."""

Fetch = Callable[[str], bytes]
"""Returns the zip of a harness. Raises ``UserError``, ``ServerUnavailable``."""


class Harnesses:
    """One launcher for each harness; the service names the one to judge with.

    Args:
        folder: Where fetched harnesses are kept.
        make: Makes the launcher for a harness.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        folder: Path,
        make: Callable[[Path], LocalLauncher],
        fetch: Fetch,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._unfit: dict[str, str] = {}
        self._facts: Mapping[Place, DeviceFacts] = {}
        self._look_at = 0.0
        self._folder = folder
        self._make = make
        self._fetch = fetch
        self._launchers: dict[str, LocalLauncher] = {}

    def __iter__(self) -> Iterator[LocalLauncher]:
        return iter(list(self._launchers.values()))

    def launcher(self, wanted: str) -> LocalLauncher:
        """Return the launcher for a harness; it is fetched if it is new.

        Raises:
            BadReport: The service sent another one.
            UserError, ServerUnavailable: It cannot be fetched.
        """
        if wanted not in self._launchers:
            package = PACKAGE if harness_hash() == wanted else self._fetched(wanted)
            self._launchers[wanted] = self._make(package)
            self._launchers[wanted].use_facts(self._facts)
        return self._launchers[wanted]

    def note(self, outcome: LaunchResult | Exception) -> None:
        """Note the GPUs that an outcome says are not fit."""
        unfit = outcome.unfit if isinstance(outcome, LaunchResult) else outcome
        if isinstance(unfit, UnfitDevice) and unfit.gpus:
            self._unfit = self._unfit | dict.fromkeys(unfit.gpus, str(unfit))  # from any thread
            self._look_at = self._clock() + LOOK_AGAIN_S

    def look_again(self, *, is_idle: bool) -> str:
        """Check GPUs that are out of service once they have rested and no job runs; return what is wrong."""
        if self._unfit and is_idle and self._clock() >= self._look_at:
            self._look_at = self._clock() + LOOK_AGAIN_S
            for gpu in list(self._unfit):
                try:
                    for launcher in self:
                        launcher.look_again(gpu)
                except LaunchError as error:
                    self._unfit[gpu] = str(error)
                else:
                    del self._unfit[gpu]
            for launcher in self:
                launcher.leave_out(frozenset(self._unfit))
        return "; ".join(self._unfit.values())

    def places(self, device: Device) -> tuple[str, ...]:
        """Return the GPUs of a device, or one empty name if it has none."""
        return self.launcher(harness_hash()).places(device)

    def calibrate(self, device: Device, gpu: str, *, cancelled: threading.Event) -> DeviceCalibration | None:
        """Calibrate a device by the installed harness; see :class:`LocalLauncher`."""
        return self.launcher(harness_hash()).calibrate(device, gpu, cancelled=cancelled)

    def use_facts(self, facts: Mapping[Place, DeviceFacts]) -> None:
        """Pass these figures to the jobs of all harnesses from now on."""
        self._facts = facts
        for launcher in self:
            launcher.use_facts(facts)

    def close(self) -> None:
        """End the warm processes of all."""
        for launcher in self:
            launcher.close()

    def _fetched(self, wanted: str) -> Path:
        home = self._folder / wanted
        package = home / PACKAGE.name
        if package.is_dir() and harness_hash(package) == wanted:
            return package
        fresh = self._folder / f"{wanted}.new"
        shutil.rmtree(fresh, ignore_errors=True)
        try:
            with zipfile.ZipFile(io.BytesIO(self._fetch(wanted))) as bundle:
                bundle.extractall(fresh)
        except (zipfile.BadZipFile, OSError) as error:
            raise BadReport(f"the harness {wanted[:12]} cannot be unpacked: {error}") from error
        if harness_hash(fresh / PACKAGE.name) != wanted:
            raise BadReport(f"the service sent another harness than {wanted[:12]}")
        shutil.rmtree(home, ignore_errors=True)
        fresh.rename(home)
        return package
