"""What an agent says to the service."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from kernelcup.app.machines.calibrations import Known
from kernelcup.app.machines.process_identity import current_owner, is_gone
from kernelcup.client.core import TIMEOUT_S
from kernelcup.client.transport import Client
from kernelcup.errors import ServerUnavailable
from kernelcup.launchers.local.calibrate import Place
from kernelcup_harness.protocol import DeviceFacts, ProtocolError, from_json, to_json
from kernelcup_harness.protocol.calibration import DeviceCalibration

HARNESS_S = 120.0
UPLOAD_S = 120.0
ANSWER_S = 10.0
"""How long the service may take to answer, beyond the time for which the answer may wait."""


def _ended_session(note: Path) -> str | None:
    """Return the session of the last agent here if its process has certainly ended."""
    try:
        owner, _, session = note.read_text(encoding="ascii").partition(" ")
    except (OSError, UnicodeDecodeError):
        return None
    return session if session and is_gone(owner) else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job that the service gives."""

    call: str
    device: str
    spec: Any
    harness_hash: str

    def __post_init__(self) -> None:
        """Raise ``TypeError`` for a hash that is none: it names a folder here."""
        if not self.harness_hash.isalnum():
            raise TypeError("harness_hash")


@dataclass(frozen=True, kw_only=True, slots=True)
class Errand:
    """What the service wants."""

    jobs: Sequence[Job]
    cancel: Sequence[str]


class Connection:
    """One session of an agent.

    All methods raise ``ServerUnavailable`` if the service does not answer, ``SignInNeeded`` if the token is void,
    and ``Conflict`` if another agent is connected as this machine.

    Args:
        client: The service, with the machine's token.
        note: The file that keeps the session, for an agent that starts here after this one was killed.
    """

    def __init__(self, client: Client, note: Path | None = None) -> None:
        self._client = client
        self._note = note
        self._session = secrets.token_hex(16)

    def hello(self, *, slots: Mapping[str, int], facts: Mapping[str, Any]) -> str:
        """Begin the session, and return the machine's name. It may follow that of an agent that was killed here."""
        follows = None if self._note is None else _ended_session(self._note)
        body = self._post("/agent/hello", slots=dict(slots), facts=dict(facts), follows=follows)
        if self._note is not None:
            with suppress(OSError):  # the next agent waits then until this one is forgotten
                self._note.parent.mkdir(parents=True, exist_ok=True)
                self._note.touch(mode=0o600)
                self._note.write_text(f"{current_owner()} {self._session}", encoding="ascii")
        return str(body["machine"])

    def bye(self) -> None:
        """End the session."""
        self._post("/agent/bye")

    def ask(self, *, running: Sequence[str], wait_s: float) -> Errand:
        """Return what the service wants, nothing if it wants nothing for so long."""
        body = self._post("/agent/ask", timeout_s=wait_s + ANSWER_S, running=list(running), wait_s=wait_s)
        try:
            jobs = [Job(**job) for job in body["jobs"]]
            return Errand(jobs=jobs, cancel=[str(call) for call in body["cancel"]])
        except (KeyError, TypeError) as error:
            raise ServerUnavailable(f"the service speaks another version: {error!r}") from error

    def tell(self, *, events: Mapping[str, Sequence[Any]], trouble: str) -> None:
        """Send events of running calls, and why the machine takes no jobs."""
        told = {call: list(some) for call, some in events.items()}
        self._post("/agent/news", events=told, trouble=trouble[:2000])

    def report(self, call: str, outcome: Mapping[str, Any], events: Sequence[Any]) -> bool:
        """Send the outcome of a call with its last events; return whether it was taken."""
        path = f"/agent/calls/{call}/outcome"
        body = self._client.request("POST", path, json={"outcome": dict(outcome), "events": list(events)})
        return body["taken"] is True

    def calibrations(
        self, places: Collection[Place], found: tuple[Place, DeviceCalibration] | None = None
    ) -> tuple[dict[Place, Known], str]:
        """Send a calibration, if there is one; return what is known of devices, and why a GPU is not fit, if it is not.

        Raise also ``InvalidValue``.
        """
        place, figures = found or (None, None)
        body = self._post("/agent/calibrations", places=list(places), place=place, found=to_json(figures))
        try:
            known = {
                (str(each["place"][0]), str(each["place"][1])): Known(
                    age=timedelta(seconds=each["age_s"]), facts=from_json(DeviceFacts, each["facts"])
                )
                for each in body["known"]
            }
            return known, str(body["unfit"])
        except (KeyError, TypeError, ProtocolError) as error:
            raise ServerUnavailable(f"the service speaks another version: {error!r}") from error

    def upload(self, call: str, files: Mapping[str, bytes]) -> list[str]:
        """Send gzip files of a call's report beside it; return the SHA-256 of the content of those that were taken.

        Raise also ``FileTooLarge``, and ``NotFound`` for a call that the service does not want any more.
        """
        sizes = {digest: len(packed) for digest, packed in files.items()}
        urls = self._client.request("POST", f"/agent/calls/{call}/uploads", json={"files": sizes})["urls"]
        return [each for each in files if self._client.put(urls[each], files[each], timeout_s=UPLOAD_S)]

    def fetch_harness(self, wanted: str) -> bytes:
        """Return the zip of a harness."""
        return self._client.download(f"/agent/harness/{wanted}", timeout_s=HARNESS_S)

    def _post(self, path: str, *, timeout_s: float = TIMEOUT_S, **body: Any) -> Any:
        given = {"session": self._session, **body}
        return self._client.request("POST", path, json=given, timeout_s=timeout_s)
