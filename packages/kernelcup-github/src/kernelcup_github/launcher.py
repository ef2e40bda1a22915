"""The launcher for GitHub Actions: each job is a run of a workflow, on runners of GitHub or of one's own."""

from __future__ import annotations

import logging
import math
import secrets
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from kernelcup.domain import Device
from kernelcup.errors import BadReport, ConfigError, LaunchError, LaunchLost, LaunchTimeout, NoRoom
from kernelcup.launchers import outcomes, remote_job
from kernelcup.launchers.base import (
    LauncherSettings,
    MachineReading,
    Order,
    Polled,
    limit_s,
    with_sandbox_rule,
)
from kernelcup_github.api import MOST_INPUT, GitHubApi, WorkflowRun
from kernelcup_harness.protocol import JobSpec, KeptBinary, to_json

TOKEN = "KERNELCUP_GITHUB_TOKEN"
ASK_EVERY_S = 10.0
"""GitHub takes 5,000 requests an hour for a token; one for a list of 100 runs every 10 s is 360."""
START_MINUTES = 15
"""For the checkout, for packages on a runner of GitHub, and for the upload."""

OTHER_INPUTS = 500
"""Characters for the inputs beside the job."""
TOO_LARGE = "it is too large for a job on GitHub"

logger = logging.getLogger(__name__)


def minutes(spec: JobSpec) -> int:
    """Return GitHub's own limit for a job."""
    return math.ceil(limit_s(spec) / 60) + START_MINUTES


def packed(spec: JobSpec, harness_hash: str) -> str:
    """Return a job as an input of a workflow, without kept binaries if it would be too large with them."""
    job = {"spec": to_json(spec), "harness": harness_hash, "limit_s": limit_s(spec)}
    text = remote_job.pack(job)
    if len(text) <= MOST_INPUT - OTHER_INPUTS or (spec.binary, spec.rival_binary) == (None, None):
        return text
    kept = {"binary": spec.binary, "rival_binary": spec.rival_binary}
    without = {
        name: to_json(KeptBinary(run=each.run, why=each.why or TOO_LARGE))
        for name, each in kept.items()
        if each is not None
    }
    return remote_job.pack({**job, "spec": {**to_json(spec), **without}})


class GitHubLauncher:
    """Starts workflow runs and takes their artifacts. A call's id is the id of its run.

    Args:
        runners: The label of the runners of each device.
        sandbox_required: Refuse ranked runs where the harness has no sandbox.
        clock: Monotonic seconds.
    """

    durable = True

    def __init__(
        self,
        api: GitHubApi,
        runners: Mapping[str, str],
        *,
        sandbox_required: bool = True,
        ask_every_s: float = ASK_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api, self._runners = api, runners
        self._sandbox_required = sandbox_required
        self._ask_every_s, self._clock = ask_every_s, clock
        self._ask_at = -math.inf
        self._is_private = False
        self._runs: dict[int, WorkflowRun] = {}
        self._ended: dict[int, Polled] = {}
        self._rest: dict[int, float] = {}
        """Until when to leave calls alone whose outcome could not be fetched."""
        self._orphans: set[str] = set()
        """The names of runs that GitHub may have started although it did not answer."""

    def capacity(self, device: Device) -> int:
        """Return the free slots. Raise ``LaunchError`` if everybody could read the repository's reports."""
        self._look()
        busy = sum(run.is_open and run.device == device.name for run in self._runs.values())
        return device.slots - busy

    def start(self, order: Order, *, wake: Callable[[], None]) -> str:  # noqa: ARG002
        """Start a run. Raise ``NoRoom``, ``LaunchError``."""
        device, spec = order.device, with_sandbox_rule(order.spec, required=self._sandbox_required)
        if order.machines is not None and _machine(device.name) not in order.machines:
            raise NoRoom(f"{_machine(device.name)} may not judge it")
        if self.capacity(device) <= 0:
            raise NoRoom(f"{device.name} has no free slot")
        name = secrets.token_hex(16)
        title = f"kernelcup {device.name} {name}"
        inputs = {
            "call": name,
            "device": device.name,
            "runner": self._runners[device.name],
            "minutes": str(minutes(spec)),
            "job": packed(spec, order.harness_hash),
        }
        try:
            number = self._api.dispatch(inputs)
        except LaunchError as error:
            if error.__cause__ is not None:  # no refusal: the answer was lost
                self._orphans.add(title)
            raise
        self._runs[number] = WorkflowRun(id=number, title=title, status="queued", conclusion=None, attempt=1)
        return str(number)

    def poll(self, calls: Collection[str]) -> Mapping[str, Polled]:
        """Return the news of calls. GitHub shows nothing of a running job: its events come with its outcome."""
        self._look()
        news = {}
        for call in calls:
            if call.isdecimal() and self._clock() < self._rest.get(int(call), -math.inf):
                continue
            try:
                news[call] = self._news(call)
            except LaunchError as error:  # the others shall not wait for it
                logger.warning("run %s: %s; asking again", call, error)
                self._rest[int(call)] = self._clock() + self._ask_every_s
                break
        return news

    def cancel(self, call: str) -> None:
        """End a run, unless its outcome is known."""
        if not call.isdecimal():
            return
        number = int(call)
        self._rest.pop(number, None)
        if self._ended.pop(number, None) is None:
            self._api.cancel(number)
            self._ended[number] = Polled(outcome=LaunchLost("it was cancelled"))
            self._ask_at = -math.inf

    def probe(self, devices: Sequence[Device]) -> list[MachineReading]:
        """Return one machine for each device: the runners of its label, which GitHub chooses from."""
        return [
            MachineReading(
                name=_machine(device.name),
                slots={device.name: device.slots},
                free={device.name: max(self.capacity(device), 0)},
                facts={"runner": self._runners[device.name]},
            )
            for device in devices
        ]

    def _look(self) -> None:
        """Take the list of runs, unless it is fresh."""
        if self._clock() < self._ask_at:
            return
        if not self._is_private:
            if not self._api.is_private():
                raise LaunchError(
                    "the repository is public, so everybody could read the reports: make it private"
                )
            self._is_private = True
        listed = {run.id: run for run in self._api.runs()}
        older = [run.id for run in self._runs.values() if run.is_open and run.id not in listed]
        for number in older:
            run = self._api.run(number)
            if run is not None:
                listed[number] = run
        self._runs = listed
        self._ask_at = self._clock() + self._ask_every_s
        for run in listed.values():
            if run.title in self._orphans and run.is_open:
                self._api.cancel(run.id)
        self._orphans -= {run.title for run in listed.values() if not run.is_open}

    def _news(self, call: str) -> Polled:
        number = int(call) if call.isdecimal() else -1
        if number not in self._ended:
            news = self._asked(number)
            if news.outcome is None:
                return news
            self._ended[number] = Polled(outcome=news.outcome, machine=news.machine)
            return news
        return self._ended[number]

    def _asked(self, number: int) -> Polled:
        run = self._runs.get(number) or (self._api.run(number) if number >= 0 else None)
        if run is None or not run.device:
            return Polled(outcome=LaunchLost("GitHub knows no such run"))
        self._runs[number] = run
        machine = _machine(run.device)
        if run.attempt != 1:
            return Polled(outcome=LaunchLost("a person ran it again on GitHub"), machine=machine)
        if run.is_open:
            return Polled(machine=machine if run.status == "in_progress" else "")
        try:
            body = self._api.outcome(number)
        except BadReport as error:
            return Polled(outcome=error, machine=machine)
        if body is None:
            return Polled(outcome=_without_report(run), machine=machine)
        outcome, events = outcomes.decode_all(body, machine=machine)
        return Polled(events=events, outcome=outcome, machine=machine)


def _machine(device: str) -> str:
    return f"github-{device}"


def _without_report(run: WorkflowRun) -> LaunchError:
    text = f"run {run.id} on GitHub ended as {run.conclusion!r} and left no report"
    if run.conclusion == "timed_out":
        return LaunchTimeout(text)
    # A failed step may be the submission's doing, and is not free of charge.
    return LaunchError(text) if run.conclusion == "failure" else LaunchLost(text)


def make(settings: LauncherSettings) -> GitHubLauncher:
    """Return the launcher of ``[launchers.github]``. Raise ``ConfigError``."""
    options = dict(settings.launcher_options.get("github", {}))
    runners = options.pop("runners", {})
    unknown = options.keys() - {"repository", "ref", "url"}
    if unknown or not isinstance(options.get("repository"), str):
        raise ConfigError(
            '[launchers.github]: expected repository = "OWNER/NAME", and ref, url, runners at most'
        )
    for device in settings.configured_devices:
        if device.launcher == "github" and not isinstance(runners.get(device.name), str):
            raise ConfigError(f'[launchers.github.runners]: expected {device.name} = "LABEL" of its runners')
    token = settings.environ.get(TOKEN)
    if not token:
        raise ConfigError(
            f"{TOKEN}: expected a token with the right to read and write the repository's actions"
        )
    api = GitHubApi(token=token, **options)
    return GitHubLauncher(api, runners, sandbox_required=settings.sandbox_required)
