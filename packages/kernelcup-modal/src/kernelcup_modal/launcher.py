"""The launcher for Modal: each job is a call of a function that ``kernelcup runner deploy modal`` deployed."""

from __future__ import annotations

import base64
import dataclasses
import math
import pickle
import re
import time
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kernelcup.clean_text import load_json
from kernelcup.domain import Device
from kernelcup.errors import BadReport, ConfigError, LaunchError, LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers import outcomes, remote_job
from kernelcup.launchers.base import (
    LauncherSettings,
    LaunchResult,
    MachineReading,
    Order,
    Polled,
    limit_s,
    with_sandbox_rule,
)
from kernelcup.launchers.bundle import bundle_of
from kernelcup_harness.protocol import Backend, to_json

APP = "kernelcup"
TIMEOUT_S = 4 * 3600
"""Modal's own limit for a call; a job ends at its own one before that."""
MARGIN_S = 120.0
"""For unpacking the harness, and for the way of the report."""
STARTUP_S = 900
"""For the start of a container, which counts extra at Modal."""
ASK_EVERY_S = 2.0
IMAGE = "nvidia/cuda:13.0.1-devel-ubuntu24.04"
PYTHON = "3.12"
PACKAGES = ("torch==2.13.0", "numpy==2.3.4", "ninja==1.13.0")
ISOLATION = "provider: a container of Modal (gVisor) for this job alone, without a network"


def function_name(device: Device) -> str:
    """Return the name of a device's function."""
    return f"judge-{device.name}"


class ModalLauncher:
    """Calls deployed functions. A call's id is ``DEVICE:ID`` with the id of Modal's function call.

    Args:
        modal: The module ``modal``, or what stands for it in tests.
        bundles: The folder for zips of the harness.
        sandbox_required: Refuse ranked runs where the harness has no sandbox, which it has not under gVisor.
        clock: Monotonic seconds.
    """

    durable = True

    def __init__(
        self,
        modal: Any,
        *,
        bundles: Path,
        app: str = APP,
        sandbox_required: bool = True,
        ask_every_s: float = ASK_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._modal, self._app, self._bundles = modal, app, bundles
        self._sandbox_required = sandbox_required
        self._ask_every_s, self._clock = ask_every_s, clock
        self._running: set[str] = set()
        """The calls that this process started and that have not ended."""
        self._ended: dict[str, Polled] = {}
        self._ask_at: dict[str, float] = {}

    def capacity(self, device: Device) -> int:
        """Return the slots without a call of this process; Modal itself starts no more containers than slots."""
        return device.slots - sum(_device(call) == device.name for call in self._running)

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:  # noqa: ARG002
        """Call a device's function. Raise ``NoRoom``, ``LaunchError``."""
        # The container is the isolation where the leaderboard takes a provider's.
        needs_ours = self._sandbox_required and not order.provider_isolation
        device, spec = order.device, with_sandbox_rule(order.spec, required=needs_ours)
        if order.machines is not None and _machine(device.name) not in order.machines:
            raise NoRoom(f"{_machine(device.name)} may not judge it")
        if self.capacity(device) <= 0:
            raise NoRoom(f"{device.name} has no free slot")
        if limit_s(spec) + MARGIN_S > TIMEOUT_S:
            raise LaunchError(f"the job may take {limit_s(spec):.0f} s, and a call on Modal {TIMEOUT_S} s")
        job = {"spec": to_json(spec), "harness": order.harness_hash, "limit_s": limit_s(spec)}
        bundle = base64.b64encode(bundle_of(self._bundles, order.harness_hash).read_bytes()).decode()
        try:
            function = self._modal.Function.from_name(self._app, function_name(device))
            spawned = function.spawn(remote_job.pack(job), bundle)
        except self._modal.exception.NotFoundError as error:
            raise LaunchError(
                f"Modal has no function {function_name(device)} in {self._app}: kernelcup runner deploy modal"
            ) from error
        except self._modal.exception.Error as error:
            raise LaunchError(f"Modal did not take the call: {error}") from error
        call = f"{device.name}:{spawned.object_id}"
        self._running.add(call)
        return call

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls. Modal shows no progress: a job's events come with its outcome."""
        news = {}
        for call in calls:
            if call in self._ended:
                news[call] = self._ended[call]
            elif self._clock() >= self._ask_at.get(call, -math.inf):
                news[call] = self._asked(call)
                self._ask_at[call] = self._clock() + self._ask_every_s
        return news

    def cancel(self, call: str) -> None:
        """End a call with its container, unless its outcome is known."""
        if self._ended.pop(call, None) is None:
            try:
                self._found(call).cancel(terminate_containers=True)
            except self._modal.exception.NotFoundError:
                pass
            except self._modal.exception.Error as error:
                raise LaunchError(f"Modal did not cancel {call}: {error}") from error
            self._ended[call] = Polled(outcome=LaunchLost("it was cancelled"))
        self._running.discard(call)
        self._ask_at.pop(call, None)

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return one machine for each device, which stands for all of Modal's."""
        return [
            MachineReading(
                name=_machine(device.name),
                slots={device.name: device.slots},
                free={device.name: max(self.capacity(device), 0)},
                facts={"app": self._app},
            )
            for device in devices
        ]

    def _asked(self, call: str) -> Polled:
        known = self._modal.exception
        try:
            text = self._found(call).get(timeout=0)
        except TimeoutError:  # it has not ended
            return Polled()
        except known.FunctionTimeoutError as error:
            return self._end(call, LaunchTimeout(f"Modal ended the call: {error}"))
        except (known.NotFoundError, known.OutputExpiredError) as error:
            return self._end(call, LaunchLost(f"Modal does not know the call any more: {error}"))
        except (known.RemoteError, known.ExecutionError) as error:
            return self._end(call, LaunchError(f"the function failed at Modal: {error}"))
        except known.DeserializationError:
            return self._end(call, BadReport("the container sent something else than text"))
        except (known.InternalFailure, known.InputCancellation) as error:
            return self._end(call, LaunchLost(f"the call was lost at Modal: {error}"))
        except known.Error as error:  # Modal cannot be asked now; the call goes on
            raise LaunchError(f"Modal does not answer: {error}") from error
        return self._read(call, text)

    def _read(self, call: str, text: object) -> Polled:
        if not isinstance(text, str) or len(text) > outcomes.LARGEST_REPORT_BYTES:
            return self._end(call, BadReport("the report is too large, or no text"))
        try:
            body = load_json(text.encode())
        except (ValueError, RecursionError) as error:
            return self._end(call, BadReport(f"the report is no JSON: {error}"))
        machine = _machine(_device(call))
        outcome, events = outcomes.decode_all(body, machine=machine)
        if isinstance(outcome, LaunchResult):
            environment = {**outcome.report.environment, "isolation": ISOLATION}
            report = dataclasses.replace(outcome.report, environment=environment)
            outcome = dataclasses.replace(outcome, report=report)
        ended = self._end(call, outcome, machine=machine)
        return dataclasses.replace(ended, events=events)

    def _end(self, call: str, outcome: LaunchResult | Exception, *, machine: str = "") -> Polled:
        self._ended[call] = Polled(outcome=outcome, machine=machine)
        self._running.discard(call)
        return self._ended[call]

    def _found(self, call: str) -> Any:
        return self._modal.FunctionCall.from_id(call.rpartition(":")[2])


def make_app(
    modal: Any,
    devices: Sequence[Device],
    gpus: Mapping[str, str],
    *,
    app: str = APP,
    packages: Sequence[str] = PACKAGES,
) -> Any:
    """Return the app with a function for each device: one container for each call, without a network."""
    image = (
        modal.Image.from_registry(IMAGE, add_python=PYTHON)
        .apt_install("g++")
        .pip_install(*packages)
        .add_local_python_source("kernelcup")
    )
    found = modal.App(app)
    for device in devices:
        found.function(
            name=function_name(device),
            image=image,
            gpu=gpus.get(device.name),
            timeout=TIMEOUT_S,
            startup_timeout=STARTUP_S,
            max_containers=device.slots,
            single_use_containers=True,
            block_network=True,
            restrict_modal_access=True,
            _experimental_restrict_output=True,
        )(remote_job.judge_text)
    return found


def _device(call: str) -> str:
    return call.rpartition(":")[0]


def _machine(device: str) -> str:
    return f"modal-{device}"


def packages_of(settings: LauncherSettings) -> list[str]:
    """Return what the image installs: PyTorch, and what the lock file of an environment names. Raise ``ConfigError``.

    A package of the lock file replaces ours of the same name.
    """
    named = settings.launcher_options.get("modal", {}).get("environment")
    if named is None:
        return list(PACKAGES)
    file = settings.data_dir / named
    try:
        wheels = tomllib.loads(file.read_text(encoding="utf-8"))["wheels"]
        wanted = {_package(each["requirement"]): str(each["requirement"]) for each in wheels}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"[launchers.modal] environment: {file} is no lock file: {error!r}") from error
    return [*wanted.values(), *(each for each in PACKAGES if _package(each) not in wanted)]


def _package(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0].lower().replace("_", "-")


def read_options(settings: LauncherSettings) -> tuple[str, dict[str, str], list[Device]]:
    """Return the app's name, the GPU of each device, and the devices. Raise ``ConfigError``."""
    options = dict(settings.launcher_options.get("modal", {}))
    packages_of(settings)
    options.pop("environment", None)
    app, gpus = options.pop("app", APP), options.pop("gpus", {})
    if options or not isinstance(app, str) or not isinstance(gpus, dict):
        raise ConfigError(
            '[launchers.modal]: expected app = "NAME", environment = "FILE" and a table gpus at most'
        )
    devices = [device for device in settings.configured_devices if device.launcher == "modal"]
    for device in devices:
        if device.backend is Backend.CUDA and not isinstance(gpus.get(device.name), str):
            raise ConfigError(f'[launchers.modal.gpus]: expected {device.name} = "GPU" in Modal\'s words')
    return app, gpus, devices


class NoPickles(pickle.Unpickler):
    """Refuses what a container sends as a pickle: its submission may have taken it over."""

    def __init__(self, *_: object) -> None:
        raise pickle.UnpicklingError("pickles of containers are not read")


def import_modal() -> Any:
    """Return the module ``modal``, which reads no pickles. Raise ``ConfigError`` if it is not installed."""
    try:
        modal, serialization = import_module("modal"), import_module("modal._serialization")
    except ImportError as error:
        raise ConfigError("the launcher modal needs its client: pip install modal==1.6.4") from error

    # The container says in which format its answer is, and the client has no setting for it.
    serialization.__dict__["Unpickler"] = NoPickles
    return modal


def make(settings: LauncherSettings) -> ModalLauncher:
    """Return the launcher of ``[launchers.modal]``. Raise ``ConfigError``."""
    app, _, _ = read_options(settings)
    return ModalLauncher(
        import_modal(),
        bundles=settings.data_dir / "harness",
        app=app,
        sandbox_required=settings.sandbox_required,
    )


def deploy(settings: LauncherSettings, folder: Path | None) -> list[str]:  # noqa: ARG001
    """Deploy the app with a function for each device, and return what was deployed. Raise ``ConfigError``."""
    app, gpus, devices = read_options(settings)
    if not devices:
        raise ConfigError('no device of the configuration has launcher = "modal"')
    modal = import_modal()
    try:
        make_app(modal, devices, gpus, app=app, packages=packages_of(settings)).deploy()
    except modal.exception.Error as error:
        raise ConfigError(f"Modal did not take the app: {type(error).__name__}: {error}") from error
    return [f"{app}: {', '.join(map(function_name, devices))}"]
