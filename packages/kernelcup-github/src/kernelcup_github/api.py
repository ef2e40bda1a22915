"""The calls of GitHub's REST API that a launcher needs."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import urllib3

from kernelcup.errors import BadReport, LaunchError
from kernelcup.launchers import outcomes

MOST_INPUT = 65_535
"""GitHub's limit for all inputs of a workflow together, in characters."""
ARTIFACT = "kernelcup-outcome"
REST_S = 60.0
"""How long GitHub is left alone when it limits our requests and does not say for how long."""
# A dispatch makes the run before it answers, and a report may be large; other answers take tenths of a second.
TIMEOUT = urllib3.Timeout(connect=1.0, read=4.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkflowRun:
    """A run of the workflow."""

    id: int
    title: str
    status: str
    conclusion: str | None
    attempt: int

    @property
    def is_open(self) -> bool:
        """Whether it waits or works."""
        return self.status != "completed"

    @property
    def device(self) -> str:
        """The device in its name, empty if it is not one of ours."""
        words = self.title.split()
        return words[1] if len(words) == 3 and words[0] == "kernelcup" else ""


class GitHubApi:
    """One workflow of one repository.

    All methods raise ``LaunchError`` if GitHub does not answer, or refuses.

    Args:
        url: The address of the API.
        repository: ``OWNER/NAME``.
        workflow: The file name of the workflow.
        ref: The branch that has the workflow.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        *,
        token: str,
        repository: str,
        ref: str = "main",
        workflow: str = "kernelcup.yml",
        url: str = "https://api.github.com",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._url = f"{url}/repos/{repository}"
        self._workflow, self._ref = workflow, ref
        self._clock = clock
        self._rests_until = 0.0
        self._pool = urllib3.PoolManager(retries=False, timeout=TIMEOUT)
        self._headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
            "User-Agent": "kernelcup",
        }

    def is_private(self) -> bool:
        """Return whether only members can read the repository, and so its artifacts."""
        return self._ask("GET", "")["private"] is True

    def dispatch(self, inputs: Mapping[str, str]) -> int:
        """Start a run, and return its id."""
        size = sum(map(len, inputs.values()))
        if size > MOST_INPUT:
            raise LaunchError(
                f"the job has {size:,} characters compressed, and GitHub takes {MOST_INPUT:,}: "
                "judge this leaderboard on another launcher's device"
            )
        body = {"ref": self._ref, "inputs": dict(inputs), "return_run_details": True}
        answer = self._send("POST", f"/actions/workflows/{self._workflow}/dispatches", body)
        if answer.status == 200:
            return int(_object(answer)["workflow_run_id"])
        if answer.status == 204 or (answer.status in (400, 422) and b"return_run_details" in answer.data):
            raise LaunchError(
                "this GitHub server does not return the run of a dispatch (return_run_details); "
                "an enterprise server has to be newer"
            )
        raise _refused(answer)

    def runs(self) -> list[WorkflowRun]:
        """Return the newest 100 runs."""
        path = f"/actions/workflows/{self._workflow}/runs?event=workflow_dispatch&per_page=100"
        return [_run(each) for each in self._ask("GET", path)["workflow_runs"]]

    def run(self, number: int) -> WorkflowRun | None:
        """Return a run, None if there is none of this id."""
        answer = self._send("GET", f"/actions/runs/{number}")
        if answer.status == 404:
            return None
        return _run(_accepted(answer))

    def cancel(self, number: int) -> None:
        """End a run; one that has ended or is unknown stays as it is."""
        answer = self._send("POST", f"/actions/runs/{number}/cancel")
        if answer.status not in (202, 404, 409):
            raise _refused(answer)

    def outcome(self, number: int) -> Any:
        """Return the outcome that a run left, None if it left none. Raise ``BadReport``."""
        listed = self._ask("GET", f"/actions/runs/{number}/artifacts?name={ARTIFACT}")["artifacts"]
        if not listed or listed[0]["expired"]:
            return None
        if listed[0]["size_in_bytes"] > outcomes.LARGEST_REPORT_BYTES:
            raise BadReport(f"the report has {listed[0]['size_in_bytes']:,} bytes compressed")
        answer = self._send("GET", f"/actions/artifacts/{listed[0]['id']}/zip")
        if answer.status in (404, 410):
            return None
        if answer.status != 302:
            raise _refused(answer)
        # The store that has the file refuses our token, and shall not see it.
        return _unzipped(self._http("GET", answer.headers["Location"], {}).data)

    def _ask(self, method: str, path: str) -> Any:
        return _accepted(self._send(method, path))

    def _send(self, method: str, path: str, body: Any = None) -> urllib3.BaseHTTPResponse:
        rest_s = self._rests_until - self._clock()
        if rest_s > 0:
            raise LaunchError(f"GitHub limits our requests for another {rest_s:.0f} s")
        answer = self._http(method, self._url + path, self._headers, body)
        limited = answer.headers.get("Retry-After") or answer.headers.get("X-RateLimit-Remaining") == "0"
        if answer.status == 429 or (answer.status == 403 and limited):
            wait = answer.headers.get("Retry-After", "")
            self._rests_until = self._clock() + (float(wait) if wait.isdecimal() else REST_S)
        return answer

    def _http(
        self, method: str, url: str, headers: Mapping[str, str], body: Any = None
    ) -> urllib3.BaseHTTPResponse:
        try:
            return self._pool.request(method, url, headers=headers, json=body, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise LaunchError(f"GitHub does not answer: {error}") from error


def _run(body: Any) -> WorkflowRun:
    return WorkflowRun(
        id=body["id"],
        title=body["display_title"],
        status=body["status"],
        conclusion=body["conclusion"],
        attempt=body["run_attempt"],
    )


def _accepted(answer: urllib3.BaseHTTPResponse) -> Any:
    if answer.status != 200:
        raise _refused(answer)
    return _object(answer)


def _object(answer: urllib3.BaseHTTPResponse) -> Any:
    try:
        return json.loads(answer.data)
    except ValueError as error:
        raise LaunchError(f"GitHub's answer is no JSON: {answer.data[:200]!r}") from error


def _refused(answer: urllib3.BaseHTTPResponse) -> LaunchError:
    return LaunchError(f"GitHub answered {answer.status}: {answer.data[:300].decode('utf-8', 'replace')}")


def _unzipped(content: bytes) -> Any:
    limit = outcomes.LARGEST_REPORT_BYTES
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive, archive.open("outcome.json") as file:
            text = file.read(limit + 1)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise BadReport(f"the artifact cannot be read: {error}") from error
    if len(text) > limit:
        raise BadReport(f"the report has more than {limit:,} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadReport(f"the report is no JSON: {error}") from error
