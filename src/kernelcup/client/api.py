"""Typed calls of a server's API."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

from kernelcup.client.core import NotReached, Params, Request, StreamEvent, pauses
from kernelcup.client.models import BoardInfo, read_board, read_submission, read_task
from kernelcup.client.requests import asking, asking_pages, reading
from kernelcup.client.transport import Client
from kernelcup.domain import Task
from kernelcup.errors import RateLimited, ServerUnavailable
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import Mode, SourceTree

T = TypeVar("T")


class Calls:
    """The API of one server, used as one user; an answer that cannot be read is ``ServerUnavailable``."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def server(self) -> str:
        """Return the server's address."""
        return self._client.server

    def call(self, call: Callable[..., T], **values: Any) -> T:
        """Run an operation with values for its parameters, and return its answer."""
        return self._answer(asking(call, self.server, values))

    def ask(self, read: Callable[[Any], T], path: str, params: Params | None = None) -> T:
        """Return what is found at a path that has no method here, as parsed by ``read``."""
        with self._reading():
            return read(self._client.request("GET", path, params=params))

    def _pages(self, path: str, params: Params, limit: int | None) -> list[Any]:
        return self._answer(asking_pages(path, params, limit=limit))

    def _answer(self, steps: Generator[Request, Any, T]) -> T:
        """Send the requests, and return what follows from their answers."""
        body = None
        while True:
            try:
                request = steps.send(body)
            except StopIteration as done:
                answer: T = done.value
                return answer
            body = self._client.send(request)

    def _reading(self) -> AbstractContextManager[None]:
        return reading(self.server)


PAUSES_S = tuple(islice(pauses(0.5, 8.0), 7))
"""The pauses between attempts: a server that is restarted is back by then."""

LONGEST_PAUSE_S = 60

Settings = Mapping[str, Any]
"""The settings of a leaderboard, as JSON data."""


class Api(Calls):
    """The API of one server, used as one user."""

    def __init__(
        self,
        client: Client,
        *,
        sleep: Callable[[float], None] = time.sleep,
        on_retry: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(client)
        self._sleep = sleep
        self._on_retry = on_retry

    def submit(
        self,
        *,
        code: SourceTree,
        mode: Mode,
        key: str,
        board: str | None = None,
        devices: tuple[str, ...] = (),
        profile: Mapping[str, Any] | None = None,
    ) -> SubmissionInfo:
        """Submit files; if the server does not answer, try again with the same key.

        Args:
            mode: The mode of the submission.
            key: The idempotency key: several requests with the same key submit once.
            board: The leaderboard; by default the one that the file names.
            devices: The devices; by default those that the file names.
            profile: What to profile, as the API takes it.
        """
        body: dict[str, Any] = {
            "leaderboard": board,
            "devices": list(devices),
            "mode": mode.value,
        }
        one = len(code.files) == 1
        body |= {"file_name": code.entry, "code": code.code} if one else {"files": code.files}
        if profile is not None:
            body["profile"] = dict(profile)
        headers = {"Idempotency-Key": key, "X-KernelCup-Client": "cli"}
        for pause in PAUSES_S:
            try:
                return self._sent(body, headers)
            except NotReached as error:
                self._on_retry(f"{error}; trying again")
                self._sleep(pause)
        return self._sent(body, headers)

    def _sent(self, body: dict[str, Any], headers: dict[str, str]) -> SubmissionInfo:
        return self._submission(self._client.request("POST", "/submissions", json=body, headers=headers))

    def submission(self, submission_id: int) -> SubmissionInfo:
        """Return a submission with its reports as the user may see them."""
        return self._submission(self._client.request("GET", f"/submissions/{submission_id}"))

    def artifact(self, run_id: int, name: str) -> bytes:
        """Return a file of a run."""
        return self._client.download(f"/runs/{run_id}/artifacts/{quote(name, safe='')}")

    def follow(self, submission_id: int) -> Generator[StreamEvent, None, None]:
        """Yield a submission's events until it has ended.

        A broken stream is resumed where it stopped.
        """
        last_id, failed = 0, 0
        while True:
            pause = PAUSES_S[min(failed, len(PAUSES_S) - 1)]
            try:
                for event in self._client.stream(f"/submissions/{submission_id}/events", last_id=last_id):
                    failed = 0
                    last_id = last_id if event.id is None else event.id
                    yield event
                if self.submission(submission_id).ended:
                    return
                failed += 1
            except (NotReached, RateLimited) as error:
                failed += 1
                if failed > len(PAUSES_S):
                    raise
                if isinstance(error, RateLimited):
                    pause = min(error.retry_after_s, LONGEST_PAUSE_S)
                else:
                    self._on_retry(f"{error}; trying again")
            if failed > len(PAUSES_S):
                raise ServerUnavailable(f"{self.server} does not say what happens to {submission_id}")
            self._sleep(pause)

    def boards(self) -> list[BoardInfo]:
        """Return the leaderboards that the user may see."""
        with self._reading():
            return [read_board(each) for each in self._pages("/leaderboards", {}, None)]

    def board(self, name: str) -> BoardInfo:
        """Return a leaderboard."""
        with self._reading():
            return read_board(self._client.request("GET", _board(name)))

    def whole_task(self, board: str) -> Task:
        """Return a leaderboard's task without its hidden cases, to run or save it here."""
        with self._reading():
            return read_task(self._client.request("GET", f"{_board(board)}/task/definition")["task"])

    def _submission(self, body: Any) -> SubmissionInfo:
        with self._reading():
            return read_submission(body)


def _board(name: str) -> str:
    return f"/leaderboards/{quote(name, safe='')}"
