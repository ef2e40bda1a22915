"""What an agent says to the service."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kernelcup.client.transport import Client
from kernelcup.errors import ServerUnavailable

HARNESS_S = 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job that the service gives."""

    call: str
    device: str
    spec: Any
    harness_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Errand:
    """What the service wants."""

    jobs: Sequence[Job]
    cancel: Sequence[str]


class Connection:
    """One session of an agent.

    All methods raise ``ServerUnavailable`` if the service does not answer, ``SignInNeeded`` if the token is void,
    and ``Conflict`` if another agent is connected as this machine.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._session = secrets.token_hex(16)

    def hello(self, *, slots: Mapping[str, int], facts: Mapping[str, Any]) -> str:
        """Begin the session, and return the machine's name."""
        return str(self._post("/agent/hello", slots=dict(slots), facts=dict(facts))["machine"])

    def bye(self) -> None:
        """End the session."""
        self._post("/agent/bye")

    def exchange(
        self, *, running: Sequence[str], events: Mapping[str, Sequence[Any]], trouble: str
    ) -> Errand:
        """Send events, and return what the service wants."""
        told = {call: list(some) for call, some in events.items()}
        body = self._post("/agent/exchange", running=list(running), events=told, trouble=trouble[:2000])
        try:
            jobs = [Job(**job) for job in body["jobs"]]
            return Errand(jobs=jobs, cancel=[str(call) for call in body["cancel"]])
        except (KeyError, TypeError) as error:
            raise ServerUnavailable(f"the service speaks another version: {error!r}") from error

    def report(self, call: str, outcome: Mapping[str, Any]) -> bool:
        """Send the outcome of a call; return whether it was taken."""
        path = f"/agent/calls/{call}/outcome"
        body = self._client.request("POST", path, json={"outcome": dict(outcome)})
        return body["taken"] is True

    def fetch_harness(self, wanted: str) -> bytes:
        """Return the zip of a harness."""
        return self._client.download(f"/agent/harness/{wanted}", timeout_s=HARNESS_S)

    def _post(self, path: str, **body: Any) -> Any:
        return self._client.request("POST", path, json={"session": self._session, **body})
