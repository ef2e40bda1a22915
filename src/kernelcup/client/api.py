"""Typed calls of a server's API."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from datetime import datetime
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

from kernelcup.client.calls import Calls
from kernelcup.client.core import NotReached, StreamEvent, pauses
from kernelcup.client.models import (
    BoardInfo,
    moment,
    read_board,
    read_standing,
    read_submission,
)
from kernelcup.client.transport import Client
from kernelcup.domain import Standing, Task
from kernelcup.errors import RateLimited, ServerUnavailable
from kernelcup.reporting.results import SubmissionInfo
from kernelcup_harness.protocol import Mode, SourceTree, from_json

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
            code: The files.
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

    def submissions(
        self, *, user: str | None = None, board: str | None = None, tag: str | None = None, limit: int = 50
    ) -> list[SubmissionInfo]:
        """Return the newest submissions, without reports."""
        wanted = {"user": user, "leaderboard": board, "tag": tag}
        params = {name: value for name, value in wanted.items() if value is not None}
        with self._reading():
            return [read_submission(each) for each in self._pages("/submissions", params, limit)]

    def code(self, submission_id: int) -> SourceTree:
        """Return a submission's files."""
        with self._reading():
            body = self._client.request("GET", f"/submissions/{submission_id}/code")
            return from_json(SourceTree, {name: body[name] for name in ("entry", "files")})

    def artifact(self, run_id: int, name: str) -> bytes:
        """Return a file of a run."""
        return self._client.download(f"/runs/{run_id}/artifacts/{quote(name, safe='')}")

    def cancel(self, submission_id: int) -> int:
        """Cancel the open jobs of a submission, and return how many there were."""
        with self._reading():
            body = self._client.request("POST", f"/submissions/{submission_id}/cancel")
            return int(body["cancelled_jobs"])

    def delete_submission(self, submission_id: int) -> bool:
        """Delete a submission for good; return False if it was withdrawn from a finished table."""
        with self._reading():
            return not self._client.request("DELETE", f"/submissions/{submission_id}")["withdrawn"]

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

    def task_object(self, board: str) -> dict[str, Any]:
        """Return a leaderboard's task with its texts, and the number of hidden cases."""
        with self._reading():
            body = dict(self._client.request("GET", f"{_board(board)}/task"))
            body.pop("hidden_cases", None)
            names, languages = body.pop("files"), body.pop("templates")
            return {
                **body,
                "sources": {name: self._text(f"{_board(board)}/task/files/{quote(name)}") for name in names},
                "templates": {
                    name: self._text(f"{_board(board)}/templates/{quote(name, safe='')}")
                    for name in languages
                },
            }

    def whole_task(self, board: str) -> Task:
        """Return a leaderboard's task without its hidden cases, to run or save it here."""
        with self._reading():
            return Task.from_json(self._client.request("GET", f"{_board(board)}/task/definition")["task"])

    def standings(self, board: str, device: str, *, limit: int | None = None) -> list[Standing]:
        """Return the ranking of a leaderboard on a device, or one for each class of machines, up to the limit each."""
        path = f"{_board(board)}/standings/{quote(device, safe='')}"
        with self._reading():
            found = self._client.request("GET", path, params={"limit": 1})["classes"]
            every: list[dict[str, Any]] = [{"class": each} for each in found] or [{}]
            pages = chain.from_iterable(self._pages(path, params, limit) for params in every)
            return [read_standing(each) for each in pages]

    def frozen_since(self, board: str, device: str) -> datetime | None:
        """Return the time of the freeze if the user sees frozen standings, None if they are live."""
        path = f"{_board(board)}/standings/{quote(device, safe='')}"
        with self._reading():
            return moment(self._client.request("GET", path, params={"limit": 1}).get("frozen_since"))

    def unranked_standings(self, board: str, device: str) -> list[Standing]:
        """Return the results of a level that the leaderboard does not rank."""
        path = f"{_board(board)}/standings/{quote(device, safe='')}"
        with self._reading():
            found = self._client.request("GET", path, params={"limit": 1})
            return [read_standing(each) for each in found["unranked"]]

    def count_waiting(self, board: str, device: str) -> int:
        """Return how many users have no place until an earlier result is judged again."""
        path = f"{_board(board)}/standings/{quote(device, safe='')}"
        with self._reading():
            return int(self._client.request("GET", path, params={"limit": 1})["waiting"])

    def my_place(self, board: str, device: str) -> Standing | None:
        """Return the user's own place, None while there is none."""
        path = f"{_board(board)}/standings/{quote(device, safe='')}/me"
        with self._reading():
            found = self._client.request("GET", path)
            return None if found is None else read_standing(found)

    def _submission(self, body: Any) -> SubmissionInfo:
        with self._reading():
            return read_submission(body)


def _board(name: str) -> str:
    return f"/leaderboards/{quote(name, safe='')}"
